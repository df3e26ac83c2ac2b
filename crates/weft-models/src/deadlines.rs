//! Ends an answer that does not start, stalls, or never ends.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, Sleep};
use weft_core::seam::chat_model::{ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo};
use weft_core::{Error, ErrorKind, Result, async_trait};

/// Time limits of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerDeadlines {
    /// Until its first piece.
    pub first: Duration,
    /// Between two pieces.
    pub idle: Duration,
    /// Until its end.
    pub total: Duration,
}

impl Default for AnswerDeadlines {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(600),
        }
    }
}

/// A model whose answers are limited by [`AnswerDeadlines`].
#[derive(Debug)]
pub struct Deadlines<M> {
    model: M,
    limits: AnswerDeadlines,
}

impl<M: ChatModel> Deadlines<M> {
    /// Limits the answers of `model`.
    pub fn new(model: M, limits: AnswerDeadlines) -> Self {
        Self { model, limits }
    }
}

#[async_trait]
impl<M: ChatModel> ChatModel for Deadlines<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let begun = Instant::now();
        let name = self.model.info().name.clone();
        // A total limit of ten seconds also applies to the first piece.
        let first = self.limits.first.min(self.limits.total);
        // Some wires wait for the response here, others return at once and wait in the stream.
        let Ok(answer) = tokio::time::timeout(first, self.model.chat(request)).await else {
            return Err(late(&name, "did not begin to answer", first));
        };
        let expected = begun + first;
        Ok(DeadlineStream {
            answer: answer?,
            name,
            limits: self.limits,
            ends: begun + self.limits.total,
            expected,
            begun: false,
            over: false,
            alarm: Box::pin(tokio::time::sleep_until(expected)),
        }
        .boxed())
    }
}

struct DeadlineStream {
    answer: ChatStream,
    name: String,
    limits: AnswerDeadlines,
    ends: Instant,
    /// The deadline of the next piece.
    expected: Instant,
    begun: bool,
    over: bool,
    /// Reset only when it fires: a timer for each piece would cost more than the piece.
    alarm: Pin<Box<Sleep>>,
}

impl DeadlineStream {
    fn missed(&self) -> Error {
        match () {
            () if self.expected >= self.ends => {
                late(&self.name, "did not finish its answer", self.limits.total)
            }
            () if self.begun => late(&self.name, "stopped in the middle of its answer", self.limits.idle),
            () => late(&self.name, "did not begin to answer", self.limits.first),
        }
    }
}

fn late(name: &str, what: &str, limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("the model `{name}` {what} within {} s", limit.as_secs_f64()))
}

impl Stream for DeadlineStream {
    type Item = Result<ChatDelta>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(delta) = self.answer.poll_next_unpin(cx) {
            let now = Instant::now();
            // An answer that always has a piece ready never reaches the timer below.
            if now >= self.ends && delta.is_some() {
                self.over = true;
                self.expected = self.ends;
                return Poll::Ready(Some(Err(self.missed())));
            }
            // Known before the model has said anything: it is about the request.
            if matches!(delta, Some(Ok(ChatDelta::Warning(_)))) {
                return Poll::Ready(delta);
            }
            self.expected = (now + self.limits.idle).min(self.ends);
            if !std::mem::replace(&mut self.begun, true) {
                // From here on, the deadline of the next piece is never earlier than the timer.
                let expected = self.expected;
                self.alarm.as_mut().reset(expected);
            }
            return Poll::Ready(delta);
        }
        // It was set for an earlier piece; later pieces may have moved the deadline.
        while self.alarm.as_mut().poll(cx).is_ready() {
            let expected = self.expected;
            if Instant::now() >= expected {
                self.over = true;
                return Poll::Ready(Some(Err(self.missed())));
            }
            self.alarm.as_mut().reset(expected);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;
    use crate::script::{Reply, Script, Step};
    use crate::scripted::ScriptedModel;

    async fn ends_with(reply: Reply) -> (usize, Option<Error>) {
        let limits = AnswerDeadlines {
            first: Duration::from_secs(60),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(100),
        };
        let model = Deadlines::new(ScriptedModel::new(Script::new().reply(reply)), limits);
        let mut answer = match model.chat(ChatRequest::default()).await {
            Ok(answer) => answer,
            Err(error) => return (0, Some(error)),
        };
        let mut count = 0;
        while let Some(delta) = answer.next().await {
            match delta {
                Ok(_) => count += 1,
                Err(error) => return (count, Some(error)),
            }
        }
        (count, None)
    }

    #[tokio::test(start_paused = true)]
    async fn each_deadline_is_enforced() {
        let slow = |ms: u64, pieces: usize| Reply::pieces(vec!["a"; pieces]).delay_ms(ms);
        let check = async |reply: Reply, count: usize, words: Option<&str>| {
            let (got, error) = ends_with(reply).await;
            let message = error.map(|e| (e.kind, e.message));
            assert_eq!(got, count, "{message:?}");
            assert_eq!(message.is_some(), words.is_some(), "{message:?}");
            if let (Some((kind, message)), Some(words)) = (message, words) {
                assert_eq!(kind, ErrorKind::Timeout);
                assert!(message.contains(words), "{message}");
            }
        };
        check(slow(20_000, 3), 4, None).await;
        check(slow(70_000, 1), 0, Some("did not begin to answer within 60 s")).await;
        check(
            Reply::text("a").then(Step::Wait(31_000)).then(Step::Text("b".into())),
            1,
            Some("stopped in the middle"),
        )
        .await;
        check(slow(20_000, 9), 4, Some("did not finish its answer within 100 s")).await;
        check(
            Reply::default()
                .then(Step::Error(crate::script::Failure {
                    kind: ErrorKind::Timeout,
                    message: "did not begin".into(),
                    retry_after_ms: None,
                }))
                .delay_ms(61_000),
            0,
            Some("did not begin"),
        )
        .await;
    }

    /// A model whose requests are not sent as they are.
    #[derive(Debug)]
    struct Warns(ScriptedModel);

    #[async_trait]
    impl ChatModel for Warns {
        fn info(&self) -> &ModelInfo {
            self.0.info()
        }

        async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
            let warning = ChatDelta::Warning("top_p was not sent".to_owned());
            Ok(stream::iter([Ok(warning)]).chain(self.0.chat(request).await?).boxed())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_is_no_piece_of_the_answer() {
        let limits = AnswerDeadlines {
            first: Duration::from_secs(60),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(100),
        };
        for (wait, count, words) in [(50_000, 3, None), (70_000, 2, Some("did not begin to answer"))] {
            let reply = Reply::default().then(Step::Wait(wait)).then(Step::Text("a".into()));
            let model = Deadlines::new(Warns(ScriptedModel::new(Script::new().reply(reply))), limits);
            let told: Vec<_> = model.chat(ChatRequest::default()).await.unwrap().collect().await;
            let error = told.iter().find_map(|delta| delta.as_ref().err());
            assert_eq!((told.len(), error.is_some()), (count, words.is_some()), "{told:?}");
            assert!(words.is_none_or(|words| error.is_some_and(|error| error.message.contains(words))));
        }
    }
}
