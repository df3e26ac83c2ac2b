//! A cache of answers to equal requests, for callers that ask for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use hashlink::LruCache;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use weft_core::seam::chat_model::{
    ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo, StopReason, Usage,
};
use weft_core::{Result, TenantId, async_trait};

/// Maximum size of all cached answers together, in bytes.
const BYTES_MAX: usize = 32 << 20;
/// Longer answers are not cached.
// One long answer must not evict most of the others.
const ANSWER_BYTES_MAX: usize = BYTES_MAX / 16;

/// How many answers are cached and for how long: the `models.cache` part of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// Maximum number of answers; 0 disables the cache.
    pub entries: usize,
    /// How long an answer is reused.
    pub seconds: u64,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { entries: 256, seconds: 3600 }
    }
}

/// The cached answers. The least recently used one is evicted first.
#[derive(Debug)]
pub struct AnswerCache {
    entries_max: usize,
    lifetime: Duration,
    kept: Mutex<CacheState>,
}

#[derive(Debug)]
struct CacheState {
    answers: LruCache<Key, CachedAnswer>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedAnswer {
    deltas: Arc<[ChatDelta]>,
    bytes: usize,
    until: Instant,
}

/// A digest of everything that determines an answer.
type Key = [u8; 32];

impl AnswerCache {
    /// An empty cache.
    pub fn new(config: CacheConfig) -> Self {
        let kept = CacheState { answers: LruCache::new_unbounded(), bytes: 0 };
        let lifetime = Duration::from_secs(config.seconds);
        Self { entries_max: config.entries, lifetime, kept: Mutex::new(kept) }
    }

    /// Whether nothing is ever cached.
    pub fn is_off(&self) -> bool {
        self.entries_max == 0 || self.lifetime.is_zero()
    }

    fn get(&self, key: &Key) -> Option<Arc<[ChatDelta]>> {
        let mut kept = self.lock();
        let answer = kept.answers.get(key)?;
        if answer.until > Instant::now() {
            return Some(Arc::clone(&answer.deltas));
        }
        kept.remove(key);
        None
    }

    fn keep(&self, key: Key, record: CacheRecorder) {
        // The configured number of seconds may be arbitrarily large.
        let Some(until) = Instant::now().checked_add(self.lifetime) else { return };
        let answer = CachedAnswer { deltas: record.deltas.into(), bytes: record.bytes, until };
        let mut kept = self.lock();
        // Two callers may have made the same request concurrently; the size of the first answer would stay counted.
        kept.remove(&key);
        kept.bytes += answer.bytes;
        kept.answers.insert(key, answer);
        while kept.answers.len() > self.entries_max || kept.bytes > BYTES_MAX {
            let Some((_, oldest)) = kept.answers.remove_lru() else { break };
            kept.bytes = kept.bytes.saturating_sub(oldest.bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn remove(&mut self, key: &Key) {
        if let Some(answer) = self.answers.remove(key) {
            self.bytes = self.bytes.saturating_sub(answer.bytes);
        }
    }
}

/// A model that is not asked again for what it has answered before, when a request allows that
/// ([`ChatRequest::cached`]). A cached answer arrives in the same pieces as the first time and costs nothing. Only
/// complete answers are cached, and tenants do not share them.
pub struct Cached {
    model: Arc<dyn ChatModel>,
    /// Distinguishes models that look the same.
    place: usize,
    tenant: TenantId,
    answers: Arc<AnswerCache>,
}

impl std::fmt::Debug for Cached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cached").field("model", self.model.info()).finish_non_exhaustive()
    }
}

impl Cached {
    /// `model`, which has number `place` among those that share `answers`, for one tenant.
    pub fn new(model: Arc<dyn ChatModel>, place: usize, tenant: TenantId, answers: Arc<AnswerCache>) -> Self {
        Self { model, place, tenant, answers }
    }

    /// `None` for a request that cannot be serialized, which is then asked as usual.
    fn key(&self, request: &ChatRequest) -> Option<Key> {
        let ChatRequest { messages, sampling, tools, tool_choice, schema, .. } = request;
        // The tenant is part of the key: an immediate answer would reveal that another tenant has asked the same.
        let model = (self.place, &self.model.info().model, &self.tenant);
        // Of a kind for which nobody finds two requests with one digest: they contain what people write.
        let mut digest = Sha256::new();
        serde_json::to_writer(&mut digest, &(model, messages, sampling, tools, tool_choice, schema)).ok()?;
        Some(digest.finalize().into())
    }
}

#[async_trait]
impl ChatModel for Cached {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let wanted = request.cached && !self.answers.is_off();
        let Some(key) = wanted.then(|| self.key(&request)).flatten() else {
            return self.model.chat(request).await;
        };
        if let Some(deltas) = self.answers.get(&key) {
            return Ok(again(&deltas));
        }
        let answer = self.model.chat(request).await?;
        Ok(keeping(answer, key, Arc::clone(&self.answers)))
    }
}

fn again(deltas: &[ChatDelta]) -> ChatStream {
    // The tokens were paid for the first time: counting them again would use up budgets without cost.
    let free = |delta: &ChatDelta| match delta {
        ChatDelta::End { reason, .. } => ChatDelta::End { reason: *reason, usage: Usage::default() },
        delta => delta.clone(),
    };
    stream::iter(deltas.iter().map(free).map(Ok).collect::<Vec<_>>()).boxed()
}

#[derive(Default)]
struct CacheRecorder {
    deltas: Vec<ChatDelta>,
    bytes: usize,
    /// Whether it contains a text or a call.
    answers: bool,
}

impl CacheRecorder {
    fn add(&mut self, delta: &ChatDelta) {
        self.answers |= matches!(delta, ChatDelta::Text(_) | ChatDelta::ToolCall { .. });
        self.bytes += bytes(delta);
        self.deltas.push(delta.clone());
    }
}

fn bytes(delta: &ChatDelta) -> usize {
    let held = match delta {
        ChatDelta::Text(text)
        | ChatDelta::Thinking(text)
        | ChatDelta::Signature(text)
        | ChatDelta::Warning(text) => text.len(),
        ChatDelta::ToolCall { id, name, arguments, .. } => {
            let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            length(id) + length(name) + arguments.len()
        }
        ChatDelta::AnsweredBy(_)
        | ChatDelta::Restarted
        | ChatDelta::Paused { .. }
        | ChatDelta::End { .. } => 0,
    };
    size_of::<ChatDelta>() + held
}

/// The same answer, which is cached when it completes successfully.
fn keeping(answer: ChatStream, key: Key, answers: Arc<AnswerCache>) -> ChatStream {
    let mut record = Some(CacheRecorder::default());
    let note = move |delta: &Result<ChatDelta>| {
        let Some(mut so_far) = record.take() else { return };
        // An answer that broke off is not cached, and neither is anything after it.
        let Ok(delta) = delta else { return };
        match delta {
            ChatDelta::Restarted => so_far = CacheRecorder::default(),
            // An answer of another model is not an answer of this one.
            ChatDelta::AnsweredBy(_) => return,
            // Nothing is paused, and nothing is paid for, when the answer is given again.
            ChatDelta::Paused { .. } => {}
            delta => so_far.add(delta),
        }
        match delta {
            // An answer that was cut off, filtered or empty may be better the next time.
            ChatDelta::End { reason: StopReason::Stop | StopReason::ToolCalls, .. } if so_far.answers => {
                answers.keep(key, so_far);
            }
            ChatDelta::End { .. } => {}
            // Dropped while it is still arriving, and not when it is complete.
            _ if so_far.bytes > ANSWER_BYTES_MAX => {}
            _ => record = Some(so_far),
        }
    };
    answer.inspect(note).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Fault, Reply, Script, Step};
    use crate::scripted::ScriptedModel;
    use weft_core::ErrorKind;
    use weft_core::seam::chat_model::{Author, ChatMessage};

    fn asked(text: &str) -> ChatRequest {
        let messages = vec![ChatMessage::new(Author::User, text)];
        ChatRequest { messages, cached: true, ..ChatRequest::default() }
    }

    /// The requests that reach the model.
    async fn reaching(script: Script, config: CacheConfig, requests: Vec<(&str, ChatRequest)>) -> usize {
        let model = ScriptedModel::new(script);
        let answers = Arc::new(AnswerCache::new(config));
        for (tenant, request) in requests {
            let cached =
                Cached::new(Arc::new(model.clone()), 0, TenantId::from(tenant), Arc::clone(&answers));
            if let Ok(answer) = cached.chat(request).await {
                answer.collect::<Vec<_>>().await;
            }
        }
        model.requests().len()
    }

    #[tokio::test]
    async fn an_equal_request_is_answered_from_the_cache_at_no_cost() {
        let reply = Reply::pieces(["one ", "two"]).thinking("hm").usage(5, 6);
        let model = ScriptedModel::new(Script::new().reply(reply));
        let answers = Arc::new(AnswerCache::new(CacheConfig::default()));
        let cached = Cached::new(Arc::new(model.clone()), 0, TenantId::from("t"), answers);
        let mut heard = Vec::new();
        for _ in 0..2 {
            let deltas: Vec<_> = cached.chat(asked("hi")).await.unwrap().map(Result::unwrap).collect().await;
            heard.push(deltas);
        }
        assert_eq!(model.requests().len(), 1);
        let (first, second) = (heard.remove(0), heard.remove(0));
        let usage = |deltas: &[ChatDelta]| match deltas.last() {
            Some(ChatDelta::End { usage, .. }) => *usage,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            usage(&first),
            Usage { prompt_tokens: 5, completion_tokens: 6, calls: 1, ..Usage::default() }
        );
        assert_eq!(usage(&second), Usage::default());
        assert_eq!(first[..3], second[..3]);
    }

    #[tokio::test]
    async fn every_parameter_of_an_answer_is_part_of_the_cache_key() {
        let check = async |other: fn(&mut ChatRequest), expected: usize| {
            let mut second = asked("a");
            other(&mut second);
            let requests = vec![("t", asked("a")), ("t", second.clone())];
            let reached = reaching(Script::text("x"), CacheConfig::default(), requests).await;
            assert_eq!(reached, expected, "{second:?}");
        };
        check(|_| {}, 1).await;
        check(|r| r.retries_max = Some(9), 1).await;
        check(|r| r.cached = false, 2).await;
        check(|r| r.messages[0].text.push('b'), 2).await;
        check(|r| r.messages[0].images.push("data:".into()), 2).await;
        check(|r| r.sampling.temperature = Some(0.1), 2).await;
        check(|r| r.tool_choice = weft_core::seam::chat_model::ToolChoice::Required, 2).await;
        check(|r| r.schema = Some(serde_json::json!({})), 2).await;
        let two_tenants = vec![("t", asked("a")), ("u", asked("a"))];
        assert_eq!(reaching(Script::text("x"), CacheConfig::default(), two_tenants).await, 2);
    }

    #[tokio::test]
    async fn only_complete_successful_answers_are_cached() {
        let check = async |reply: Reply, expected: usize| {
            let requests = vec![("t", asked("a")), ("t", asked("a"))];
            let reached =
                reaching(Script::new().reply(reply.clone().always()), CacheConfig::default(), requests).await;
            assert_eq!(reached, expected, "{reply:?}");
        };
        check(Reply::text("x"), 1).await;
        check(Reply::call("t", serde_json::json!({})), 1).await;
        check(Reply::empty(), 2).await;
        check(Reply::text("x").stop(StopReason::Length), 2).await;
        check(Reply::text("x").stop(StopReason::Filtered), 2).await;
        check(Reply::text("x").then(Step::Fault(Fault::Cut)), 2).await;
        check(Reply::error(ErrorKind::Unavailable, "no"), 2).await;
        check(Reply::text("x".repeat(ANSWER_BYTES_MAX)), 2).await;
    }

    #[tokio::test(start_paused = true)]
    async fn cached_answers_expire_and_the_oldest_is_evicted_first() {
        let two = CacheConfig { entries: 2, seconds: 10 };
        let ask = |texts: &[&'static str]| texts.iter().map(|text| ("t", asked(text))).collect::<Vec<_>>();
        assert_eq!(reaching(Script::text("x"), two, ask(&["a", "b", "a", "c", "a", "b"])).await, 4);
        let off = CacheConfig { entries: 0, seconds: 10 };
        assert_eq!(reaching(Script::text("x"), off, ask(&["a", "a"])).await, 2);

        let model = ScriptedModel::new(Script::text("x"));
        let answers = Arc::new(AnswerCache::new(two));
        let cached = Cached::new(Arc::new(model.clone()), 0, TenantId::from("t"), Arc::clone(&answers));
        for (wait, reached) in [(0, 1), (9, 1), (2, 2)] {
            tokio::time::advance(Duration::from_secs(wait)).await;
            cached.chat(asked("a")).await.unwrap().collect::<Vec<_>>().await;
            assert_eq!(model.requests().len(), reached);
        }
        assert_eq!(answers.lock().answers.len(), 1);
    }

    #[tokio::test]
    async fn long_answers_evict_others() {
        let model = ScriptedModel::new(Script::text("x".repeat(ANSWER_BYTES_MAX / 2)));
        let answers = Arc::new(AnswerCache::new(CacheConfig { entries: 1000, seconds: 10 }));
        let cached = Cached::new(Arc::new(model), 0, TenantId::from("t"), Arc::clone(&answers));
        for n in 0..40 {
            cached.chat(asked(&n.to_string())).await.unwrap().collect::<Vec<_>>().await;
        }
        let kept = answers.lock();
        assert!(kept.bytes <= BYTES_MAX && kept.answers.len() == 31, "{} {}", kept.bytes, kept.answers.len());
        assert_eq!(kept.bytes, kept.answers.iter().map(|(_, answer)| answer.bytes).sum::<usize>());
    }
}
