//! The processing of one request: its notifications, and its response.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use weft_core::Json;

use super::dispatch::{Context, perform};
use super::message::{RpcRequest, answer};
use super::outlet::WAITING_MAX;
use super::service::Service;

/// The response; `None` for a request that its client has cancelled.
type Work = BoxFuture<'static, Option<Json>>;

/// A request in progress. Dropping it means that its client has left.
pub(super) struct Exchange {
    work: Option<Work>,
    told: mpsc::Receiver<Json>,
    answer: Option<Json>,
}

/// The next message of an exchange.
#[derive(Debug)]
pub(super) enum ExchangeEvent {
    /// A notification, or a question to the client.
    Told(Json),
    /// The response, after which nothing follows.
    Answer(Json),
    /// The request was cancelled, so there is no response.
    Nothing,
}

/// Creates the channel for notifications and questions.
pub(super) fn channel() -> (mpsc::Sender<Json>, mpsc::Receiver<Json>) {
    // Bounded, so that a client that reads slowly slows down the sender instead of filling the memory.
    mpsc::channel(WAITING_MAX)
}

/// Processes a request until it is answered or cancelled. `kept` is dropped at that time.
pub(super) fn work<T: Send + 'static>(
    service: Arc<dyn Service>,
    request: RpcRequest,
    context: Context,
    kept: T,
) -> Work {
    async move {
        let _kept = kept;
        let outcome = tokio::select! {
            // A cancelled request gets no response, even if one is ready.
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

    /// Returns the next message. Cancel safe: no message is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> ExchangeEvent {
        loop {
            let Some(work) = &mut self.work else {
                // Messages sent before the response precede it.
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
                // The response ends the exchange, so all other messages precede it.
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
        let (sender, told) = channel();
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
        let (sender, told) = channel();
        drop(sender);
        let mut exchange = Exchange::new(async { Some(json!(1)) }.boxed(), told);
        assert!(matches!(exchange.next().await, ExchangeEvent::Answer(_)));
    }
}
