//! An answer of genai as our deltas.

use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use genai::chat::{ChatStream, ChatStreamEvent, StopReason as Stopped, StreamEnd, ToolCall};
use reqwest::header::HeaderMap;
use serde_json::Value as Json;
use weft_core::seam::chat_model::{Author, ChatDelta, ChatMessage, ChatRequest, StopReason, Usage};
use weft_core::{Error, Result};
use weft_net::RelayedExchange;

use super::asking::Asking;
use super::frames::{Frames, Heard, Noticed};
use super::relayed;
use super::seal::{GeminiSeals, of_anthropic};
use crate::estimate::SentUsage;
use crate::factories::Provider;
use crate::inline_tags::{InlineTags, TaggedPart};
use crate::secret::Secret;
use crate::{CALLS_MAX, estimate, failure};

/// How often an answer is gone on with that its provider has paused. Anthropic pauses after some ten searches.
const PAUSES_MAX: u32 = 8;

pub(super) struct NativeAssembly {
    asking: Asking,
    request: ChatRequest,
    noticed: Noticed,
    /// The exchange with the server whose answer is coming.
    exchange: RelayedExchange,
    ready: VecDeque<Result<ChatDelta>>,
    tags: InlineTags,
    parts: Vec<TaggedPart>,
    said: String,
    /// The text alone.
    text: String,
    calls: Vec<GrowingCall>,
    /// Calls that the conversation held before, so that ids we make up do not repeat.
    before: usize,
    /// Gemini's, as far as they came with a call.
    seals: GeminiSeals,
    /// Gemini's that came by themselves.
    loose: Vec<String>,
    stage: Stage,
    pauses: u32,
    /// What the paused parts of the answer used.
    used: Usage,
}

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Coming,
    /// Its provider wants to be asked to go on.
    Paused,
    Over,
}

/// A call whose arguments grow: genai repeats all of them with each piece.
struct GrowingCall {
    /// As genai has it.
    id: String,
    sent: usize,
}

impl NativeAssembly {
    pub(super) fn new(
        asking: Asking,
        request: ChatRequest,
        noticed: Noticed,
        exchange: RelayedExchange,
    ) -> Self {
        let before = request.messages.iter().map(|message| message.tool_calls.len()).sum();
        Self {
            asking,
            request,
            noticed,
            exchange,
            ready: VecDeque::new(),
            tags: InlineTags::default(),
            parts: Vec::new(),
            said: String::new(),
            text: String::new(),
            calls: Vec::new(),
            before,
            seals: GeminiSeals::default(),
            loose: Vec::new(),
            stage: Stage::Coming,
            pauses: 0,
            used: Usage::default(),
        }
    }

    pub(super) fn stream(
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
                match assembly.stage {
                    Stage::Over => return None,
                    Stage::Paused => {
                        let so_far = assembly.so_far();
                        match assembly.asking.ask(&so_far).await {
                            Ok((more, exchange)) => {
                                // The failure of the former exchange would say nothing about the new answer.
                                (answer, assembly.exchange) = (more, exchange);
                                assembly.stage = Stage::Coming;
                            }
                            Err(error) => assembly.fail(error),
                        }
                    }
                    Stage::Coming => match answer.next().await {
                        Some(Ok(event)) => assembly.take(event),
                        // genai fails at a piece of a search, which `blocks` has read, and goes on with the next piece.
                        Some(Err(_)) if assembly.frames().blocks.take_misread() => {}
                        Some(Err(cause)) => assembly.broken(cause),
                        None => assembly.ended_early(),
                    },
                }
            }
        })
    }

    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.noticed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The question with the answer as far as it has come, for its provider to go on from there.
    fn so_far(&self) -> ChatRequest {
        let mut request = self.request.clone();
        let signature = self.frames().blocks.packed();
        request
            .messages
            .push(ChatMessage { signature, ..ChatMessage::new(Author::Assistant, self.text.as_str()) });
        request
    }

    fn take(&mut self, event: ChatStreamEvent) {
        match event {
            ChatStreamEvent::Start | ChatStreamEvent::Heartbeat => {}
            // Anthropic's come in pieces; the end has them whole.
            ChatStreamEvent::ThoughtSignatureChunk(chunk) => {
                self.frames().blocks.signed(&chunk.content);
                self.loose.push(chunk.content);
            }
            ChatStreamEvent::Chunk(chunk) => {
                self.frames().blocks.said(&chunk.content);
                self.said.push_str(&chunk.content);
                self.tags.push(chunk.content, &mut self.parts);
                self.say();
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                self.frames().blocks.thought(&chunk.content);
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
                TaggedPart::Text(text) => {
                    self.text.push_str(&text);
                    ChatDelta::Text(text)
                }
                TaggedPart::Thinking(text) => ChatDelta::Thinking(text),
            }));
        }
    }

    fn call(&mut self, mut call: ToolCall) {
        // A text that grows on Anthropic's wire; anything else came whole, and two whole calls are two
        // even with one id.
        let grows = self.asking.provider == Provider::Anthropic;
        let arguments = match call.fn_arguments.take() {
            // All that has come so far, with each piece: it is not copied once more.
            Json::String(text) => text,
            other => weft_core::value::to_text(&other),
        };
        let known = self.calls.iter().rposition(|begun| grows && begun.id == call.call_id);
        if let Some(index) = known {
            // `get`: if what is repeated is another text this time, the place may lie within a character.
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
        if index >= CALLS_MAX {
            let cause = format!("more than {CALLS_MAX} tool calls");
            return self.fail(failure::garbled(&self.asking.model, cause, &self.asking.key));
        }
        self.said.push_str(&call.fn_name);
        self.said.push_str(&arguments);
        if let Some(seal) = call.thought_signatures.and_then(|mut all| all.pop()) {
            self.loose.retain(|loose| *loose != seal);
            self.seals.calls.insert(index, seal);
        }
        let id = self.id(&call.call_id);
        self.calls.push(GrowingCall { id: call.call_id, sent: arguments.len() });
        self.ready.push_back(Ok(ChatDelta::ToolCall {
            index,
            id: Some(id),
            name: Some(call.fn_name),
            arguments,
        }));
    }

    /// The id of the next call. Ollama's are made up by genai and never sent; Gemini's are when they have
    /// this form.
    fn id(&self, given: &str) -> String {
        let index = self.calls.len();
        let made_up =
            self.asking.provider == Provider::Ollama || given.is_empty() || given.starts_with("call#");
        match () {
            () if made_up => crate::call_id(self.before + index),
            // Results are matched to calls by their ids, so two calls must not share one.
            () if self.calls.iter().any(|begun| begun.id == given) => format!("{given}-{index}"),
            () => given.to_owned(),
        }
    }

    fn end(&mut self, end: &StreamEnd) {
        // genai makes an end up when these two stop in the middle.
        let made_up = match self.asking.provider {
            Provider::Gemini => end.captured_stop_reason.is_none(),
            Provider::Ollama => end.captured_usage.is_none(),
            _ => false,
        };
        if made_up {
            return self.ended_early();
        }
        let lost = self.frames().lost;
        if lost {
            let model = &self.asking.model;
            return self.fail(failure::cut_off(model).because("one of its events arrived without a name"));
        }
        // Added up: each part of an answer that was paused is paid for by itself.
        let usage = estimate::completed(sent(end), &self.request, &self.said);
        self.used += usage;
        let paused =
            matches!(&end.captured_stop_reason, Some(Stopped::Other(reason)) if reason == "pause_turn");
        // With calls it waits for their results, and goes on with them.
        if paused && self.calls.is_empty() && self.pauses < PAUSES_MAX {
            (self.stage, self.pauses) = (Stage::Paused, self.pauses + 1);
            // Handed on before the provider is asked to go on, so that whoever pays may stop here.
            self.ready.push_back(Ok(ChatDelta::Paused { usage }));
            return;
        }
        self.stage = Stage::Over;
        self.tags.finish(&mut self.parts);
        self.say();
        let seal = self.seal(end);
        self.ready.extend(seal.map(|seal| Ok(ChatDelta::Signature(seal))));
        let reason = match &end.captured_stop_reason {
            // An answer with calls waits for their results, also when its
            // provider only says that it is complete.
            Some(Stopped::Completed(_)) | None if !self.calls.is_empty() => StopReason::ToolCalls,
            Some(Stopped::Completed(_) | Stopped::StopSequence(_)) => StopReason::Stop,
            Some(Stopped::MaxTokens(_)) => StopReason::Length,
            Some(Stopped::ToolCall(_)) => StopReason::ToolCalls,
            Some(Stopped::ContentFilter(_)) => StopReason::Filtered,
            Some(Stopped::Other(_)) | None => StopReason::Other,
        };
        self.ready.push_back(Ok(ChatDelta::End { reason, usage: self.used }));
    }

    fn seal(&mut self, end: &StreamEnd) -> Option<String> {
        match self.asking.provider {
            Provider::Anthropic => {
                let in_pieces = self.pauses > 0 || self.frames().blocks.searched();
                let packed = in_pieces.then(|| self.frames().blocks.packed()).flatten();
                packed.or_else(|| of_anthropic(end.captured_content.as_ref()?.parts()))
            }
            Provider::Gemini => {
                self.seals.text = self.loose.pop();
                self.seals.pack()
            }
            _ => None,
        }
    }

    fn ended_early(&mut self) {
        let object = self.frames().error.take();
        // An answer that was lost or is too long also looks like one that has ended.
        if let (None, Some(failure)) = (&object, self.exchange.failure()) {
            return self.lost(relayed::failed(&self.asking, failure));
        }
        let Asking { model, key, .. } = &self.asking;
        let error = match object {
            Some(object) => failure::reported(model, &object, key),
            // An answer that broke off before its first word is one that may be asked for again, and so is silence.
            None if !self.has_begun() && self.frames().heard == Heard::Something => {
                failure::garbled(model, "it contains no event of an answer", key)
            }
            None => failure::cut_off(model),
        };
        self.fail(error);
    }

    fn has_begun(&self) -> bool {
        !self.said.is_empty() || !self.calls.is_empty() || self.frames().blocks.searched()
    }

    fn broken(&mut self, cause: genai::Error) {
        let blocked = self.frames().blocked.take();
        if let Some(reason) = blocked {
            let error = failure::blocked(&self.asking.model, &reason, &self.asking.key);
            return self.fail(error);
        }
        self.lost(match self.exchange.failure() {
            // Whatever genai makes of the end of an answer, this is the reason.
            Some(failure) => relayed::failed(&self.asking, failure),
            None => failed(&self.asking.model, cause, &self.asking.key),
        });
    }

    fn lost(&mut self, error: Error) {
        // Told as cut off, since something had come: whoever has heard it must not be told that there was no
        // answer.
        let broke = self.has_begun() && error.message.starts_with("no answer");
        self.fail(if broke { failure::cut_off(&self.asking.model).because(error) } else { error });
    }

    fn fail(&mut self, error: Error) {
        self.stage = Stage::Over;
        self.ready.push_back(Err(error));
    }
}

/// Tokens, as far as they were sent.
fn sent(end: &StreamEnd) -> SentUsage {
    // A negative number is nothing that was counted.
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let Some(used) = &end.captured_usage else { return SentUsage::default() };
    let of_prompt = used.prompt_tokens_details.as_ref();
    let of_answer = used.completion_tokens_details.as_ref();
    SentUsage {
        prompt: count(used.prompt_tokens),
        completion: count(used.completion_tokens),
        cache_read: of_prompt.and_then(|details| count(details.cached_tokens)),
        cache_write: of_prompt.and_then(|details| count(details.cache_creation_tokens)),
        reasoning: of_answer.and_then(|details| count(details.reasoning_tokens)),
    }
}

/// What a failure of genai means.
pub(super) fn failed(model: &str, cause: genai::Error, key: &Secret) -> Error {
    match cause {
        genai::Error::HttpError { status, body, headers, .. } => {
            let retry_after: Option<Duration> = failure::retry_after(&headers as &HeaderMap);
            failure::refused(
                model,
                &failure::ProviderRefusal { status: status.as_u16(), body: &body, retry_after },
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
