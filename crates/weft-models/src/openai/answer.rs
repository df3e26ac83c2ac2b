//! An answer in the OpenAI wire format, assembled piece by piece.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use reqwest::Url;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value as Json;
use weft_core::seam::chat_model::{ChatDelta, ChatRequest, StopReason};
use weft_core::{Error, Result};

use super::calls::{CallAssembly, CallPiece};
use super::{content, halves};
use crate::estimate::SentUsage;
use crate::inline_tags::{InlineTags, TaggedPart};
use crate::secret::Secret;
use crate::sse::{ANSWER_BYTES_MAX, EVENT_BYTES_MAX, SseBuffer};
use crate::{estimate, failure, sent_tokens};

#[derive(Deserialize)]
struct WireChunk {
    choices: Option<Vec<WireChoice>>,
    usage: Option<WireTokens>,
    error: Option<Json>,
    base_resp: Option<MiniMaxStatus>,
}

/// How MiniMax reports failures, in a response with status 200 and without choices.
#[derive(Deserialize)]
struct MiniMaxStatus {
    /// 0 for none.
    #[serde(default)]
    status_code: i64,
    status_msg: Option<String>,
}

#[derive(Deserialize)]
struct WireChoice {
    delta: Option<WireDelta>,
    /// The answer in one piece. Perplexity also sends it in a stream, with all of the text so far.
    message: Option<WireDelta>,
    finish_reason: Option<String>,
    /// Where Moonshot sends the usage.
    usage: Option<WireTokens>,
}

#[derive(Deserialize, Default)]
struct WireDelta {
    #[serde(default, deserialize_with = "content::read")]
    content: Vec<TaggedPart>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(default)]
struct WireTokens {
    #[serde(deserialize_with = "sent_tokens::read")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "sent_tokens::read")]
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's form.
    #[serde(deserialize_with = "sent_tokens::read")]
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "sent_tokens::read")]
    cached_tokens: Option<u64>,
    #[serde(deserialize_with = "sent_tokens::read")]
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(default)]
struct CompletionDetails {
    #[serde(deserialize_with = "sent_tokens::read")]
    reasoning_tokens: Option<u64>,
}

impl From<WireTokens> for SentUsage {
    fn from(sent: WireTokens) -> Self {
        let of_prompt = sent.prompt_tokens_details.unwrap_or_default();
        Self {
            prompt: sent.prompt_tokens,
            completion: sent.completion_tokens,
            cache_read: of_prompt.cached_tokens.or(sent.prompt_cache_hit_tokens),
            cache_write: of_prompt.cache_write_tokens,
            reasoning: sent.completion_tokens_details.and_then(|details| details.reasoning_tokens),
        }
    }
}

/// Assembles an answer.
pub(super) struct OpenAiAssembly {
    model: String,
    /// The address of the server.
    address: Url,
    key: Secret,
    request: ChatRequest,
    ready: VecDeque<Result<ChatDelta>>,
    tags: InlineTags,
    parts: Vec<TaggedPart>,
    /// The text so far, to estimate its tokens.
    said: String,
    calls: CallAssembly,
    reason: Option<StopReason>,
    usage: Option<WireTokens>,
    /// Whether the answer does not stream.
    in_one_piece: bool,
    understood: bool,
    over: bool,
}

impl OpenAiAssembly {
    pub(super) fn new(model: String, address: Url, key: Secret, request: ChatRequest) -> Self {
        let calls =
            CallAssembly::after(request.messages.iter().map(|message| message.tool_calls.len()).sum());
        Self {
            model,
            address,
            key,
            request,
            ready: VecDeque::new(),
            tags: InlineTags::default(),
            parts: Vec::new(),
            said: String::new(),
            calls,
            reason: None,
            usage: None,
            in_one_piece: false,
            understood: false,
            over: false,
        }
    }

    pub(super) fn warn(&mut self, warnings: Vec<String>) {
        self.ready.extend(warnings.into_iter().map(|warning| Ok(ChatDelta::Warning(warning))));
    }

    /// A complete answer in one response.
    pub(super) fn whole(mut self, body: &[u8]) -> impl Stream<Item = Result<ChatDelta>> + use<> {
        self.in_one_piece = true;
        self.take(body);
        self.ended();
        stream::iter(self.ready)
    }

    /// An answer that streams.
    pub(super) fn stream(self, body: BoxStream<'static, reqwest::Result<bytes::Bytes>>) -> OpenAiAnswer {
        OpenAiAnswer { body, events: SseBuffer::default(), assembly: self }
    }

    /// Processes one event.
    fn take(&mut self, data: &[u8]) {
        if self.over {
            return;
        }
        if data.trim_ascii() == b"[DONE]" {
            return self.finish();
        }
        let mended = |cause| serde_json::from_str(&halves::mended(data)).map_err(|_| cause);
        let chunk: WireChunk = match serde_json::from_slice(data).or_else(mended) {
            Ok(chunk) => chunk,
            Err(cause) => {
                // To find the mistake one has to see what was received, and an event may have megabytes.
                let seen = String::from_utf8_lossy(&data[..data.len().min(200)]).into_owned();
                return self.fail(failure::garbled(&self.model, format!("{cause} in `{seen}`"), &self.key));
            }
        };
        if let Some(error) = chunk.error.as_ref().filter(|error| !error.is_null()) {
            return self.fail(failure::reported(&self.model, error, &self.key));
        }
        if let Some(told) = chunk.base_resp.filter(|told| told.status_code != 0) {
            let words = told.status_msg.unwrap_or_default();
            return self.fail(failure::of_minimax(&self.model, told.status_code, &words, &self.key));
        }
        // Servers written in Go send null for an empty list.
        let choices = chunk.choices.unwrap_or_default();
        if choices.is_empty() && chunk.usage.is_none() {
            return self.odd(data);
        }
        self.understood = true;
        // Where several events have one, the last one includes those before.
        self.usage = chunk.usage.or(self.usage);
        for choice in choices {
            self.choice(choice);
        }
    }

    /// Processes the event with which the response ends, which may have broken off in the middle of it.
    fn take_last(&mut self, data: &[u8]) {
        let is_half = serde_json::from_slice::<IgnoredAny>(data).is_err_and(|cause| cause.is_eof());
        if is_half {
            self.understood = true;
        } else {
            self.take(data);
        }
    }

    /// An event without choices and usage: harmless, unless it is an error in vLLM's form.
    fn odd(&mut self, data: &[u8]) {
        let event: Json = serde_json::from_slice(data).unwrap_or_default();
        if event.get("object").and_then(Json::as_str) == Some("error") {
            self.fail(failure::reported(&self.model, &event, &self.key));
        } else if event.get("choices").is_some() {
            self.understood = true;
        }
    }

    fn choice(&mut self, choice: WireChoice) {
        self.usage = choice.usage.or(self.usage);
        let piece =
            if self.in_one_piece { choice.message.or(choice.delta) } else { choice.delta.or(choice.message) };
        let delta = piece.unwrap_or_default();
        // Two names for the same field: a server sends one of them.
        let thought = delta.reasoning_content.or(delta.reasoning).map(TaggedPart::Thinking);
        // A refusal in place of an answer is treated as the answer.
        let refusal = delta.refusal.filter(|_| delta.content.is_empty()).map(TaggedPart::Text);
        for part in thought.into_iter().chain(delta.content).chain(refusal) {
            match part {
                TaggedPart::Thinking(text) | TaggedPart::Text(text) if text.is_empty() => {}
                TaggedPart::Thinking(text) => {
                    self.said.push_str(&text);
                    self.ready.push_back(Ok(ChatDelta::Thinking(text)));
                }
                TaggedPart::Text(text) => {
                    self.said.push_str(&text);
                    self.tags.push(text, &mut self.parts);
                    self.say();
                }
            }
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            self.call(piece);
        }
        // Servers written in Go send an empty text as long as there is none.
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.reason = Some(stop_reason(&reason));
        }
    }

    fn say(&mut self) {
        for part in self.parts.drain(..) {
            self.ready.push_back(Ok(match part {
                TaggedPart::Text(text) => ChatDelta::Text(text),
                TaggedPart::Thinking(text) => ChatDelta::Thinking(text),
            }));
        }
    }

    fn call(&mut self, piece: CallPiece) {
        if self.over {
            return;
        }
        match self.calls.take(piece) {
            Ok(delta) => self.say_call(delta),
            Err(cause) => self.fail(failure::garbled(&self.model, cause, &self.key)),
        }
    }

    fn say_call(&mut self, delta: Option<ChatDelta>) {
        let Some(delta) = delta else { return };
        if let ChatDelta::ToolCall { name, arguments, .. } = &delta {
            self.said.push_str(name.as_deref().unwrap_or_default());
            self.said.push_str(arguments);
        }
        self.ready.push_back(Ok(delta));
    }

    fn fail(&mut self, error: Error) {
        self.over = true;
        self.ready.push_back(Err(error));
    }

    fn finish(&mut self) {
        self.over = true;
        self.tags.finish(&mut self.parts);
        self.say();
        let nameless: Vec<ChatDelta> = self.calls.nameless().collect();
        for delta in nameless {
            self.say_call(Some(delta));
        }
        let reason = match self.reason {
            // Some servers send `stop` after a tool call, or nothing.
            Some(StopReason::Stop) | None if !self.calls.is_empty() => StopReason::ToolCalls,
            Some(reason) => reason,
            None => StopReason::Other,
        };
        let sent = self.usage.map(SentUsage::from).unwrap_or_default();
        let usage = estimate::completed(sent, &self.request, &self.said);
        self.ready.push_back(Ok(ChatDelta::End { reason, usage }));
    }

    /// The response has ended. A missing `[DONE]` is tolerated if a stop reason was sent.
    fn ended(&mut self) {
        match () {
            () if self.over => {}
            () if self.reason.is_some() => self.finish(),
            () if self.understood => self.fail(failure::cut_off(&self.model)),
            () => {
                let error =
                    failure::garbled(&self.model, "it contains no event of a chat completion", &self.key);
                self.fail(error);
            }
        }
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        // Compatible servers pass on the values of the models behind them.
        "stop" | "eos" | "end_turn" => StopReason::Stop,
        "length" | "max_tokens" => StopReason::Length,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "content_filter" => StopReason::Filtered,
        _ => StopReason::Other,
    }
}

/// The stream of an answer.
pub(super) struct OpenAiAnswer {
    body: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    events: SseBuffer,
    assembly: OpenAiAssembly,
}

impl OpenAiAnswer {
    fn feed(&mut self, bytes: &[u8]) {
        if !self.events.feed(bytes) {
            let OpenAiAssembly { model, address, .. } = &self.assembly;
            let error = failure::too_long(model, address, "an event", EVENT_BYTES_MAX);
            return self.assembly.fail(error);
        }
        while let Some(data) = self.events.next() {
            self.assembly.take(data);
        }
        // What is kept counts, and not what was sent: some servers repeat the whole text with each piece.
        if self.assembly.said.len() > ANSWER_BYTES_MAX && !self.assembly.over {
            let OpenAiAssembly { model, address, .. } = &self.assembly;
            let error = failure::too_long(model, address, "an answer", ANSWER_BYTES_MAX);
            self.assembly.fail(error);
        }
    }
}

impl Stream for OpenAiAnswer {
    type Item = Result<ChatDelta>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(delta) = this.assembly.ready.pop_front() {
                return Poll::Ready(Some(delta));
            }
            if this.assembly.over {
                return Poll::Ready(None);
            }
            match std::task::ready!(this.body.poll_next_unpin(cx)) {
                Some(Ok(bytes)) => this.feed(&bytes),
                Some(Err(cause)) => {
                    // An answer is usually cut off by a broken connection.
                    let why = failure::no_answer(&this.assembly.model, cause, &this.assembly.key);
                    this.assembly.fail(failure::cut_off(&this.assembly.model).because(why));
                }
                None => {
                    if let Some(data) = this.events.last() {
                        this.assembly.take_last(data);
                    }
                    // A stream without any content broke off; it is not a different protocol.
                    this.assembly.understood |= this.events.is_silent();
                    this.assembly.ended();
                }
            }
        }
    }
}
