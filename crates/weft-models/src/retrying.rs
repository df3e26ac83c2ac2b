//! Retries requests to a model that failed, as long as no reader has seen a piece of the answer.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use weft_core::seam::chat_model::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::opening::{answered, opened};

/// How often and after which delay to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries, unless the request sets it.
    pub retries_max: u32,
    /// The delay before the first retry; it doubles each time.
    pub delay: Duration,
    /// The longest delay that we choose ourselves.
    pub delay_max: Duration,
    /// The longest delay that a provider may request; with a longer one, the failure is returned.
    pub asked_delay_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries_max: 3,
            delay: Duration::from_millis(500),
            delay_max: Duration::from_secs(20),
            asked_delay_max: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// The delay before the next try, after try number `tries` (1 for the first) failed with `error`: by the policy,
    /// unless the request sets the number of retries and the delay.
    ///
    /// # Errors
    /// The same failure if it is not retried; it includes the number of tries.
    pub(crate) fn again(
        &self,
        mut error: Error,
        tries: u32,
        retries_max: Option<u32>,
        wanted: Option<Duration>,
    ) -> Result<Duration> {
        let retries_max = retries_max.unwrap_or(self.retries_max);
        if let Some(pause) = self.pause(&error, tries, wanted, random()).filter(|_| tries <= retries_max) {
            return Ok(pause);
        }
        if tries > 1 {
            error.message.push_str(&format!(" (asked {tries} times)"));
        }
        Err(error)
    }

    /// The delay after try number `tries` (1 for the first) failed with `error`; `None` if a retry is pointless.
    /// `random` spreads callers that failed together over half the delay, unless the request `wanted` a delay, which
    /// is never shortened.
    fn pause(&self, error: &Error, tries: u32, wanted: Option<Duration>, random: u64) -> Option<Duration> {
        let again =
            matches!(error.kind, ErrorKind::RateLimited | ErrorKind::Unavailable | ErrorKind::Timeout);
        if !again {
            return None;
        }
        let doublings = 2_u32.saturating_pow(tries.saturating_sub(1));
        let own = match wanted {
            Some(wanted) => wanted.saturating_mul(doublings).min(self.delay_max.max(wanted)),
            None => {
                let thousandths = u32::try_from(random % 501).unwrap_or(0) + 500;
                self.delay.saturating_mul(doublings).min(self.delay_max).saturating_mul(thousandths) / 1000
            }
        };
        match error.retry_after {
            Some(asked) if asked > self.asked_delay_max => None,
            Some(asked) => Some(asked.max(wanted.map_or(Duration::ZERO, |_| own))),
            None => Some(own),
        }
    }
}

/// A model whose requests are retried by a policy.
#[derive(Debug)]
pub struct Retrying<M> {
    model: Arc<M>,
    policy: RetryPolicy,
}

impl<M: ChatModel> Retrying<M> {
    /// Retries requests to `model` by `policy`.
    pub fn new(model: M, policy: RetryPolicy) -> Self {
        Self { model: Arc::new(model), policy }
    }
}

#[async_trait]
impl<M: ChatModel + 'static> ChatModel for Retrying<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let (model, policy, audience) = (Arc::clone(&self.model), self.policy, request.audience.clone());
        let (retries_max, wanted) = (request.retries_max, request.retry_delay);
        let ask = move |pause: Duration| {
            let (model, request) = (Arc::clone(&model), request.clone());
            async move {
                // Even a zero delay would wait for the next tick of the timer.
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                opened(&*model, request).await
            }
            .boxed()
        };
        let first = ask(Duration::ZERO);
        let mut tries = 0;
        let another = move |error: Error| {
            tries += 1;
            policy.again(error, tries, retries_max, wanted).map(&ask)
        };
        answered(first, audience, another).await
    }
}

/// Different in each process and each call, which is all that spreading needs.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Failure, Fault, Reply, Script, Step};
    use crate::scripted::ScriptedModel;
    use futures::StreamExt as _;
    use weft_core::seam::chat_model::{Audience, ChatDelta};
    use weft_core::{Piece, SharedText};

    async fn ask(script: Script, retries_max: Option<u32>) -> (usize, Result<Vec<Result<ChatDelta>>>) {
        let model = ScriptedModel::new(script);
        let retrying = Retrying::new(model.clone(), RetryPolicy::default());
        let answer = retrying.chat(ChatRequest { retries_max, ..ChatRequest::default() }).await;
        let deltas = match answer {
            Ok(answer) => Ok(answer.collect().await),
            Err(error) => Err(error),
        };
        (model.requests().len(), deltas)
    }

    fn failing(kind: ErrorKind, times: u32) -> Script {
        Script::new().reply(Reply::error(kind, "no").times(times)).reply(Reply::text("yes"))
    }

    #[tokio::test(start_paused = true)]
    async fn transient_failures_are_retried() {
        for kind in [ErrorKind::RateLimited, ErrorKind::Unavailable, ErrorKind::Timeout] {
            let (asked, answer) = ask(failing(kind, 2), None).await;
            assert_eq!((asked, answer.unwrap().len()), (3, 2), "{kind:?}");
        }
        for kind in [ErrorKind::Unauthenticated, ErrorKind::Invalid, ErrorKind::Filtered, ErrorKind::Garbled]
        {
            let (asked, answer) = ask(failing(kind, 1), None).await;
            assert_eq!((asked, answer.unwrap_err().kind), (1, kind));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn policy_and_request_limit_the_retries() {
        let (asked, answer) = ask(failing(ErrorKind::Unavailable, 9), None).await;
        assert_eq!((asked, answer.unwrap_err().message.as_str()), (4, "no (asked 4 times)"));
        let (asked, answer) = ask(failing(ErrorKind::Unavailable, 9), Some(0)).await;
        assert_eq!((asked, answer.unwrap_err().message.as_str()), (1, "no"));
        let (asked, _) = ask(failing(ErrorKind::Unavailable, 9), Some(1)).await;
        assert_eq!(asked, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_can_set_retries_and_delay() {
        let model = ScriptedModel::new(failing(ErrorKind::Unavailable, 2));
        let retrying = Retrying::new(model.clone(), RetryPolicy::default());
        let request = ChatRequest {
            retries_max: Some(2),
            retry_delay: Some(Duration::from_secs(2)),
            ..ChatRequest::default()
        };
        let begun = tokio::time::Instant::now();
        let answer: Vec<_> = retrying.chat(request).await.unwrap().collect().await;
        assert_eq!(answer.len(), 2);
        assert_eq!(model.requests().len(), 3);
        assert_eq!(begun.elapsed(), Duration::from_secs(2 + 4));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_retried_after_the_first_chunk_was_seen() {
        let cut = Reply::text("a").then(Step::Fault(Fault::Cut));
        let (asked, answer) = ask(Script::new().reply(cut).reply(Reply::text("b")), None).await;
        let deltas = answer.unwrap();
        assert_eq!(asked, 1);
        assert!(
            matches!(&deltas[..], [Ok(ChatDelta::Text(a)), Err(e)] if a == "a" && e.kind == ErrorKind::Unavailable)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_is_retried() {
        let ask = async |replies: [Reply; 3], audience: Audience| {
            let model = ScriptedModel::new(replies.into_iter().fold(Script::new(), Script::reply));
            let retrying =
                Retrying::new(model.clone(), RetryPolicy { retries_max: 1, ..RetryPolicy::default() });
            let request = ChatRequest { audience, ..ChatRequest::default() };
            let told = |delta: Result<ChatDelta>| match delta {
                Ok(ChatDelta::Text(text)) => text,
                Ok(ChatDelta::ToolCall { name, .. }) => name.unwrap_or_default(),
                Ok(ChatDelta::Restarted) => "!".to_owned(),
                Ok(ChatDelta::End { .. }) => ".".to_owned(),
                Ok(_) => "?".to_owned(),
                Err(error) => format!("{:?}", error.kind),
            };
            let answer: Vec<_> = retrying.chat(request).await.unwrap().map(told).collect().await;
            (answer.concat(), model.requests().len())
        };
        let cut = || Reply::text("a").then(Step::Fault(Fault::Cut));
        let call = || Reply::call("look", serde_json::json!({})).then(Step::Fault(Fault::Cut));
        let (b, nobody, listening) = (|| Reply::text("b"), || Audience::Nobody, || Audience::Listening);
        assert_eq!(ask([cut(), b(), b()], nobody()).await, ("a!b.".to_owned(), 2));
        assert_eq!(ask([cut(), b(), b()], listening()).await, ("aUnavailable".to_owned(), 1));
        // A call shows nothing to anybody before it is made.
        assert_eq!(ask([call(), b(), b()], listening()).await, ("look!b.".to_owned(), 2));
        assert_eq!(ask([cut(), cut(), b()], nobody()).await, ("a!aUnavailable".to_owned(), 2));
        let refused = Reply::text("a").then(Step::Error(Failure {
            kind: ErrorKind::Filtered,
            message: "no".to_owned(),
            retry_after_ms: None,
        }));
        assert_eq!(ask([refused, b(), b()], nobody()).await, ("aFiltered".to_owned(), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_with_a_held_back_reader_is_retried() {
        // What is read before the model is called, what of its answer, and the final text.
        for (reads, expected) in [(1, "before b"), (2, "before a")] {
            let (writer, text) = SharedText::new();
            let mut reader = text.read();
            let cut = Reply::text("a").then(Step::Fault(Fault::Cut));
            let model = ScriptedModel::new(Script::new().reply(cut).reply(Reply::text("b")));
            let retrying = Retrying::new(model.clone(), RetryPolicy::default());
            writer.push(Piece::Text("before ".into()));
            let request = ChatRequest { audience: Audience::of(Some(&writer)), ..ChatRequest::default() };
            let mut answer = retrying.chat(request).await.unwrap();
            for nth in 0.. {
                match answer.next().await {
                    Some(Ok(ChatDelta::Text(text))) => writer.push(Piece::Text(text.into())),
                    Some(_) => {}
                    None => break,
                }
                if nth == 0 {
                    for _ in 0..reads {
                        reader.next().await.unwrap();
                    }
                }
            }
            assert_eq!((writer.so_far().as_str(), model.requests().len()), (expected, 3 - reads));
        }
    }

    #[test]
    fn delays_double_up_to_their_cap_and_respect_the_provider() {
        let policy = RetryPolicy::default();
        let error = |asked: Option<u64>| {
            Failure { kind: ErrorKind::RateLimited, message: String::new(), retry_after_ms: asked }.to_error()
        };
        let pause = |asked: Option<u64>, tries: u32, random: u64| {
            policy.pause(&error(asked), tries, None, random).map(|pause| pause.as_millis())
        };
        assert_eq!(pause(None, 1, 500), Some(500));
        assert_eq!(pause(None, 1, 0), Some(250));
        assert_eq!(pause(None, 3, 500), Some(2000));
        assert_eq!(pause(None, 30, 500), Some(20_000));
        assert_eq!(pause(Some(7000), 1, 500), Some(7000));
        assert_eq!(pause(Some(100), 1, 500), Some(100));
        assert_eq!(pause(Some(61_000), 1, 500), None);
        let wanted = |wanted_ms: u64, asked: Option<u64>, tries: u32| {
            policy
                .pause(&error(asked), tries, Some(Duration::from_millis(wanted_ms)), 0)
                .map(|pause| pause.as_millis())
        };
        assert_eq!(wanted(3000, None, 1), Some(3000));
        assert_eq!(wanted(3000, None, 2), Some(6000));
        assert_eq!(wanted(3000, None, 30), Some(20_000));
        assert_eq!(wanted(30_000, None, 2), Some(30_000));
        assert_eq!(wanted(3000, Some(7000), 1), Some(7000));
        assert_eq!(wanted(3000, Some(100), 1), Some(3000));
        assert_eq!(wanted(0, None, 2), Some(0));
    }
}
