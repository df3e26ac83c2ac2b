//! A model in this process that answers according to its script, and remembers its requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use weft_core::seam::ModelDirectory;
use weft_core::seam::chat_model::{ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo, ModelKind};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

use crate::script::{Fault, Playback, Reply, Script, Step};

/// The window that a scripted model reports.
const WINDOW: usize = 128_000;
/// Maximum number of requests that a scripted model remembers; later ones are answered but not remembered.
// A server may play a script for days.
const REQUESTS_REMEMBERED_MAX: usize = 10_000;

/// A model that plays a [`Script`]. Clones share the playback.
#[derive(Clone, Debug)]
pub struct ScriptedModel {
    info: ModelInfo,
    state: Arc<Mutex<ScriptedState>>,
}

#[derive(Debug)]
struct ScriptedState {
    playback: Playback,
    requests: Vec<ChatRequest>,
}

impl ScriptedModel {
    /// A model named `scripted`.
    pub fn new(script: Script) -> Self {
        Self::named("scripted", "scripted", script)
    }

    /// A model whose replies are created by `answerer` from the request and the number of requests before it.
    ///
    /// ```
    /// use weft_models::{Reply, ScriptedModel};
    ///
    /// let model = ScriptedModel::from_fn(|request, nth| match nth {
    ///     0 => Reply::call("look", serde_json::json!({})),
    ///     _ => Reply::text(format!("{} messages", request.messages.len())),
    /// });
    /// # let _ = model;
    /// ```
    pub fn from_fn(answerer: impl Fn(&ChatRequest, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::playing("scripted", "scripted", Playback::from_fn(answerer))
    }

    /// A model with a configured name, and the name used in its script.
    pub fn named(name: &str, model: &str, script: Script) -> Self {
        Self::playing(name, model, Playback::new(script))
    }

    /// The same model with different information about itself; both play the same script.
    #[must_use]
    pub fn with_info(&self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        let mut model = self.clone();
        change(&mut model.info);
        model
    }

    fn playing(name: &str, model: &str, playback: Playback) -> Self {
        let info = ModelInfo {
            name: name.to_owned(),
            provider: "scripted".to_owned(),
            model: model.to_owned(),
            window: WINDOW,
            tools: true,
            deferred_tools_max: 0,
            kind: ModelKind::Chat,
            prices: None,
        };
        let state = ScriptedState { playback, requests: Vec::new() };
        Self { info, state: Arc::new(Mutex::new(state)) }
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.lock().requests.clone()
    }

    fn lock(&self) -> MutexGuard<'_, ScriptedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reply_to(&self, request: &ChatRequest) -> Result<Reply> {
        let mut state = self.lock();
        if state.requests.len() < REQUESTS_REMEMBERED_MAX {
            state.requests.push(request.clone());
        }
        state.playback.next(&self.info.model, request)
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let reply = self.reply_to(&request)?;
        let steps = reply.steps();
        if let Some(Step::Error(failure)) = steps.first() {
            tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
            return Err(failure.to_error());
        }
        Ok(play(&reply, steps, &request))
    }
}

/// Resolves every `llm_id` to this model, which then has that name, so that replies can match it.
impl ModelDirectory for ScriptedModel {
    fn resolve(&self, _tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        let mut model = self.clone();
        if !llm_id.is_empty() {
            llm_id.clone_into(&mut model.info.model);
        }
        Ok(Arc::new(model))
    }

    fn list(&self, _tenant: &TenantId) -> Vec<ModelInfo> {
        vec![self.info.clone()]
    }
}

fn play(reply: &Reply, steps: Vec<Step>, request: &ChatRequest) -> ChatStream {
    let end = ChatDelta::End { reason: reply.stop_reason(), usage: reply.usage_for(request) };
    let pause = Duration::from_millis(reply.delay_ms);
    let mut calls = 0;
    let said: Vec<(Duration, Option<Result<ChatDelta>>)> = steps
        .into_iter()
        .map(|step| match step {
            Step::Wait(ms) => (Duration::from_millis(ms), None),
            Step::ToolSearch(_) => (pause, None),
            step => (pause, Some(said(step, &mut calls))),
        })
        .chain([(Duration::ZERO, Some(Ok(end)))])
        .collect();
    let broken = said.iter().position(|(_, delta)| matches!(delta, Some(Err(_))));
    // Nothing follows a failure, just as with the models that this one replaces.
    let count = broken.map_or(said.len(), |at| at + 1);
    stream::iter(said.into_iter().take(count))
        .then(|(pause, delta)| async move {
            // A timer costs a wake-up even when it is zero.
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            delta
        })
        .filter_map(std::future::ready)
        .boxed()
}

fn said(step: Step, calls: &mut usize) -> Result<ChatDelta> {
    match step {
        Step::Text(text) => Ok(ChatDelta::Text(text)),
        Step::Thinking(text) => Ok(ChatDelta::Thinking(text)),
        Step::Signature(seal) => Ok(ChatDelta::Signature(seal)),
        Step::Call(call) => {
            let index = *calls;
            *calls += 1;
            Ok(ChatDelta::ToolCall {
                index,
                arguments: call.arguments_text(),
                id: Some(call.id.unwrap_or_else(|| format!("call_{}", index + 1))),
                name: Some(call.name),
            })
        }
        Step::CallPart(part) => {
            *calls = (*calls).max(part.index + 1);
            let id =
                part.name.is_some().then(|| part.id.unwrap_or_else(|| format!("call_{}", part.index + 1)));
            Ok(ChatDelta::ToolCall { index: part.index, id, name: part.name, arguments: part.arguments })
        }
        Step::Error(failure) => Err(failure.to_error()),
        Step::Fault(Fault::Cut) => {
            Err(Error::new(ErrorKind::Unavailable, "the model's answer was cut off before its end"))
        }
        Step::Fault(Fault::Garbage) => {
            Err(Error::new(ErrorKind::Garbled, "the model's answer cannot be understood"))
        }
        // Waits have been removed before, and searches are not reported.
        Step::Wait(_) | Step::ToolSearch(_) => Ok(ChatDelta::Text(String::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weft_core::seam::chat_model::{Author, ChatMessage, StopReason, Usage};

    fn asked(user: &str) -> ChatRequest {
        ChatRequest { messages: vec![ChatMessage::new(Author::User, user)], ..ChatRequest::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_streams_text_thinking_calls_and_its_end() {
        let reply = Reply::default()
            .thinking("hm")
            .then(Step::Text("a".into()))
            .then(Step::Wait(500))
            .and_call("t", json!({"x": 1}))
            .usage(3, 4)
            .delay_ms(10);
        let model = ScriptedModel::new(Script::new().reply(reply));
        let begun = tokio::time::Instant::now();
        let deltas: Vec<_> = model.chat(asked("hi")).await.unwrap().map(Result::unwrap).collect().await;
        let call = ChatDelta::ToolCall {
            index: 0,
            id: Some("call_1".into()),
            name: Some("t".into()),
            arguments: r#"{"x":1}"#.into(),
        };
        let usage = Usage { prompt_tokens: 3, completion_tokens: 4, calls: 1, ..Usage::default() };
        let end = ChatDelta::End { reason: StopReason::ToolCalls, usage };
        assert_eq!(deltas, [ChatDelta::Thinking("hm".into()), ChatDelta::Text("a".into()), call, end]);
        assert_eq!(begun.elapsed(), Duration::from_millis(530));
        assert_eq!(model.requests(), [asked("hi")]);
    }

    #[tokio::test]
    async fn calls_can_be_interleaved() {
        let calls = [("t", json!({"a": "é"})), ("u", json!("{broken"))];
        let model = ScriptedModel::from_fn(move |_, _| {
            Reply::text("both").and_calls_in_turns(calls.clone(), 4).stop(StopReason::Length)
        });
        let deltas: Vec<_> = model.chat(asked("hi")).await.unwrap().map(Result::unwrap).collect().await;
        let (mut order, mut whole) = (Vec::new(), [String::new(), String::new()]);
        for delta in &deltas {
            if let ChatDelta::ToolCall { index, arguments, .. } = delta {
                order.push(*index);
                whole[*index].push_str(arguments);
            }
        }
        assert_eq!(order, [0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(whole, [r#"{"a":"é"}"#, "{broken"]);
        assert!(matches!(deltas.last(), Some(ChatDelta::End { reason: StopReason::Length, .. })));
    }

    #[tokio::test]
    async fn as_a_directory_it_serves_every_id_and_replies_can_match_one() {
        let script =
            Script::new().reply(Reply::text("big").when_model("large")).reply(Reply::text("other").always());
        let model = ScriptedModel::new(script);
        for (llm_id, expected) in [("large@X", "big"), ("small@X", "other"), ("", "other")] {
            let found = model.resolve(&TenantId::from("t"), llm_id).unwrap();
            let first = found.chat(asked("hi")).await.unwrap().next().await.unwrap().unwrap();
            assert_eq!(first, ChatDelta::Text(expected.into()), "{llm_id}");
        }
        assert_eq!(model.requests().len(), 3);
    }

    #[tokio::test]
    async fn errors_come_before_or_inside_the_stream_and_end_it() {
        let script = Script::new()
            .reply(Reply::error(ErrorKind::RateLimited, "slow down"))
            .reply(Reply::text("a").then(Step::Fault(Fault::Cut)).then(Step::Text("never".into())));
        let model = ScriptedModel::new(script);
        assert_eq!(model.chat(asked("1")).await.err().unwrap().kind, ErrorKind::RateLimited);
        let deltas: Vec<_> = model.chat(asked("2")).await.unwrap().collect().await;
        let kinds: Vec<_> = deltas.iter().map(|delta| delta.as_ref().err().map(|error| error.kind)).collect();
        assert_eq!(kinds, [None, Some(ErrorKind::Unavailable)]);
        assert_eq!(model.chat(asked("3")).await.err().unwrap().kind, ErrorKind::Invalid);
    }
}
