//! An answer of genai as our deltas.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use genai::chat::{ChatStream, ChatStreamEvent, StopReason as Stopped, StreamEnd, ToolCall};
use reqwest::header::HeaderMap;
use serde_json::Value as Json;
use weft_core::seam::chat_model::{ChatDelta, ChatRequest, StopReason, Usage};
use weft_core::{Error, Result};

use super::Reported;
use super::question::SIGNATURE_MARK;
use crate::factories::Provider;
use crate::inline_tags::{InlineTags, Part};
use crate::secret::Secret;
use crate::{estimate, failure};

pub(super) struct Assembly {
    provider: Provider,
    model: String,
    key: Secret,
    request: ChatRequest,
    reported: Reported,
    ready: VecDeque<Result<ChatDelta>>,
    tags: InlineTags,
    parts: Vec<Part>,
    said: String,
    calls: Vec<Begun>,
    over: bool,
}

/// A call whose arguments grow: genai repeats all of them with each piece.
struct Begun {
    id: String,
    sent: usize,
}

impl Assembly {
    pub fn new(
        provider: Provider,
        model: String,
        key: Secret,
        request: ChatRequest,
        reported: Reported,
    ) -> Self {
        Self {
            provider,
            model,
            key,
            request,
            reported,
            ready: VecDeque::new(),
            tags: InlineTags::default(),
            parts: Vec::new(),
            said: String::new(),
            calls: Vec::new(),
            over: false,
        }
    }

    pub fn stream(
        mut self,
        warnings: Vec<String>,
        answer: ChatStream,
    ) -> impl Stream<Item = Result<ChatDelta>> + Send {
        self.ready.extend(warnings.into_iter().map(|warning| Ok(ChatDelta::Warning(warning))));
        stream::unfold((self, answer), |(mut assembly, mut answer)| async move {
            loop {
                if let Some(delta) = assembly.ready.pop_front() {
                    return Some((delta, (assembly, answer)));
                }
                if assembly.over {
                    return None;
                }
                match answer.next().await {
                    Some(Ok(event)) => assembly.take(event),
                    Some(Err(cause)) => assembly.broken(cause),
                    None => assembly.ended_early(),
                }
            }
        })
    }

    fn take(&mut self, event: ChatStreamEvent) {
        match event {
            ChatStreamEvent::Start
            | ChatStreamEvent::Heartbeat
            | ChatStreamEvent::ThoughtSignatureChunk(_) => {}
            ChatStreamEvent::Chunk(chunk) => {
                self.said.push_str(&chunk.content);
                self.tags.push(chunk.content, &mut self.parts);
                self.say();
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                self.said.push_str(&chunk.content);
                self.ready.push_back(Ok(ChatDelta::Thinking(chunk.content)));
            }
            ChatStreamEvent::ToolCallChunk(chunk) => self.call(chunk.tool_call),
            ChatStreamEvent::End(end) => self.end(&end),
        }
    }

    fn say(&mut self) {
        for part in self.parts.drain(..) {
            self.ready.push_back(Ok(match part {
                Part::Text(text) => ChatDelta::Text(text),
                Part::Thinking(text) => ChatDelta::Thinking(text),
            }));
        }
    }

    fn call(&mut self, call: ToolCall) {
        // Text grows; anything else came whole, and two whole calls are two even with one id.
        let (arguments, grows) = match call.fn_arguments {
            Json::String(text) => (text, true),
            whole => (whole.to_string(), false),
        };
        let known = self.calls.iter().rposition(|begun| grows && begun.id == call.call_id);
        if let Some(index) = known {
            let more = arguments.get(self.calls[index].sent..).unwrap_or_default().to_owned();
            self.calls[index].sent = arguments.len();
            if !more.is_empty() {
                self.said.push_str(&more);
                self.ready.push_back(Ok(ChatDelta::ToolCall {
                    index,
                    id: None,
                    name: None,
                    arguments: more,
                }));
            }
            return;
        }
        let index = self.calls.len();
        self.said.push_str(&arguments);
        let call_id = self.distinct(call.call_id, &call.fn_name);
        let signature = call.thought_signatures.and_then(|mut all| all.pop());
        let id = match signature.filter(|_| self.provider == Provider::Gemini) {
            Some(signature) => format!("{call_id}{SIGNATURE_MARK}{signature}"),
            None => call_id.clone(),
        };
        self.calls.push(Begun { id: call_id, sent: arguments.len() });
        self.ready.push_back(Ok(ChatDelta::ToolCall {
            index,
            id: Some(id),
            name: Some(call.fn_name),
            arguments,
        }));
    }

    /// genai numbers the calls of Gemini within one piece of the answer, so the next piece starts over;
    /// its `call#name#number` is kept, since it reads the name from it.
    fn distinct(&self, id: String, name: &str) -> String {
        let index = self.calls.len();
        if !self.calls.iter().any(|begun| begun.id == id) {
            return id;
        }
        if id.starts_with("call#") { format!("call#{name}#{index}") } else { format!("{id}-{index}") }
    }

    fn end(&mut self, end: &StreamEnd) {
        // genai makes an end up when these two stop in the middle.
        let made_up = match self.provider {
            Provider::Gemini => end.captured_stop_reason.is_none(),
            Provider::Ollama => end.captured_usage.is_none(),
            _ => false,
        };
        if made_up {
            return self.ended_early();
        }
        self.over = true;
        self.tags.finish(&mut self.parts);
        self.say();
        let reason = match &end.captured_stop_reason {
            Some(Stopped::Completed(_)) if !self.calls.is_empty() => StopReason::ToolCalls,
            Some(Stopped::Completed(_) | Stopped::StopSequence(_)) => StopReason::Stop,
            Some(Stopped::MaxTokens(_)) => StopReason::Length,
            Some(Stopped::ToolCall(_)) => StopReason::ToolCalls,
            Some(Stopped::ContentFilter(_)) => StopReason::Filtered,
            Some(Stopped::Other(_)) | None => StopReason::Other,
        };
        let usage = usage(end).unwrap_or_else(|| estimate::usage(&self.request.messages, &self.said));
        self.ready.push_back(Ok(ChatDelta::End { reason, usage }));
    }

    fn ended_early(&mut self) {
        let object = self.reported.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.fail(match object {
            Some(object) => failure::reported(&self.model, &object, &self.key),
            None if self.said.is_empty() && self.calls.is_empty() => {
                failure::garbled(&self.model, "it holds no event of an answer", &self.key)
            }
            None => failure::cut_off(&self.model),
        });
    }

    fn broken(&mut self, cause: genai::Error) {
        let error = failed(&self.model, cause, &self.key);
        let in_the_middle = !self.said.is_empty() || !self.calls.is_empty();
        let broke = in_the_middle && error.message.starts_with("no answer");
        self.fail(if broke { failure::cut_off(&self.model).because(error) } else { error });
    }

    fn fail(&mut self, error: Error) {
        self.over = true;
        self.ready.push_back(Err(error));
    }
}

fn usage(end: &StreamEnd) -> Option<Usage> {
    let used = end.captured_usage.as_ref()?;
    let count = |tokens: Option<i32>| u64::try_from(tokens.unwrap_or(0)).unwrap_or(0);
    used.prompt_tokens?;
    Some(Usage {
        prompt_tokens: count(used.prompt_tokens),
        completion_tokens: count(used.completion_tokens),
        calls: 1,
    })
}

/// What a failure of genai means.
pub(super) fn failed(model: &str, cause: genai::Error, key: &Secret) -> Error {
    match cause {
        genai::Error::HttpError { status, body, headers, .. } => {
            let retry_after: Option<Duration> = failure::retry_after(&headers as &HeaderMap);
            failure::refused(
                model,
                &failure::Refusal { status: status.as_u16(), body: &body, retry_after },
                key,
            )
        }
        genai::Error::ChatResponse { body, .. } => failure::reported(model, &body, key),
        genai::Error::WebStream { error, cause, .. } => match error.downcast::<genai::Error>() {
            Ok(inner) => failed(model, *inner, key),
            Err(error) => match error.downcast::<reqwest::Error>() {
                Ok(inner) => failure::no_answer(model, *inner, key),
                Err(_) => failure::garbled(model, cause, key),
            },
        },
        other => failure::garbled(model, other, key),
    }
}
