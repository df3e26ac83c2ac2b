//! One request on its way to its answer, with what is told meanwhile.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use weft_core::Json;

use super::dispatch::{Context, perform};
use super::message::{RpcRequest, answer};
use super::outlet::WAITING_MAX;
use super::service::Service;

/// The answer, or nothing for a request that its client has taken back.
type Work = BoxFuture<'static, Option<Json>>;

/// A request under way. Dropping it leaves it.
pub(super) struct Exchange {
    work: Option<Work>,
    told: mpsc::Receiver<Json>,
    answer: Option<Json>,
}

/// What comes next of an exchange.
#[derive(Debug)]
pub(super) enum ExchangeEvent {
    /// Something on the way.
    Told(Json),
    /// The answer; nothing follows.
    Answer(Json),
    /// There is no answer.
    Nothing,
}

/// The way on which something is told.
pub(super) fn way() -> (mpsc::Sender<Json>, mpsc::Receiver<Json>) {
    // Bounded: a client that reads slowly slows down who tells, and does not fill the memory.
    mpsc::channel(WAITING_MAX)
}

/// Works on a request until it is answered or taken back. `kept` is held for so long.
pub(super) fn work<T: Send + 'static>(
    service: Arc<dyn Service>,
    request: RpcRequest,
    context: Context,
    kept: T,
) -> Work {
    async move {
        let _kept = kept;
        let outcome = tokio::select! {
            // What was cancelled has no answer, not even one that is ready.
            biased;
            () = context.cancelled.cancelled() => return None,
            outcome = perform(&*service, &request, &context) => outcome,
        };
        Some(answer(&request.id, &outcome))
    }
    .boxed()
}

impl Exchange {
    pub(super) fn new(work: Work, told: mpsc::Receiver<Json>) -> Self {
        Self { work: Some(work), told, answer: None }
    }

    /// May be dropped at any time without loss.
    pub(super) async fn next(&mut self) -> ExchangeEvent {
        loop {
            let Some(work) = &mut self.work else {
                // What was told before comes before.
                return match (self.told.try_recv(), self.answer.take()) {
                    (Ok(told), answer) => {
                        self.answer = answer;
                        ExchangeEvent::Told(told)
                    }
                    (Err(_), Some(answer)) => ExchangeEvent::Answer(answer),
                    (Err(_), None) => ExchangeEvent::Nothing,
                };
            };
            tokio::select! {
                // The answer ends the exchange, so it comes after all that was told.
                biased;
                Some(told) = self.told.recv() => return ExchangeEvent::Told(told),
                answer = work => {
                    self.answer = answer;
                    self.work = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn notifications_come_before_the_answer() {
        let (sender, told) = way();
        let work = async move {
            for n in 0..3 {
                sender.send(json!(n)).await.unwrap();
            }
            Some(json!("done"))
        };
        let mut exchange = Exchange::new(work.boxed(), told);
        for n in 0..3 {
            assert!(matches!(exchange.next().await, ExchangeEvent::Told(told) if told == n));
        }
        assert!(matches!(exchange.next().await, ExchangeEvent::Answer(answer) if answer == "done"));
        assert!(matches!(exchange.next().await, ExchangeEvent::Nothing));
    }

    #[tokio::test]
    async fn work_without_notifications_is_waited_for() {
        let (sender, told) = way();
        drop(sender);
        let mut exchange = Exchange::new(async { Some(json!(1)) }.boxed(), told);
        assert!(matches!(exchange.next().await, ExchangeEvent::Answer(_)));
    }
}
