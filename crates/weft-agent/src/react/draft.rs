//! An answer of the model while it is being written: the message so far, shown with every piece.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use serde_json::Map;
use weft_core::seam::chat_model::{ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo, ToolCall};
use weft_core::{Json, Result, async_trait, exact};

use super::hooks::HookContext;
use super::print::Printer;
use super::printed::PrintedMessage;
use crate::arguments;
use crate::ask::{Calls, Reply};
use crate::message::{ContentBlock, Message, Role, ToolUse};

/// Arguments of a call are parsed again with every piece up to this many bytes. Beyond that, the last parsed version
/// is shown until they are complete.
// Parsing again with every piece takes time quadratic in the length.
const PARTIAL_INPUT_MAX: usize = 64 * 1_024;

/// A message that a model is writing. Clones share it.
#[derive(Clone)]
pub(crate) struct Draft {
    /// The message without its content.
    frame: Message,
    state: Arc<Mutex<DraftState>>,
    /// Where every piece is shown, if anywhere.
    shown: Option<(Arc<Printer>, HookContext)>,
}

#[derive(Default)]
struct DraftState {
    thinking: String,
    signature: Option<String>,
    text: String,
    calls: Calls,
    /// The arguments as last parsed, by the call's index.
    inputs: HashMap<usize, Map<String, Json>>,
}

impl Draft {
    pub(crate) fn new(agent: &str, timestamp_ms: i64) -> Self {
        let frame = Message::new(Role::Assistant, agent, Vec::new()).stamped(timestamp_ms);
        Self { frame, state: Arc::default(), shown: None }
    }

    /// Shows every piece with this printer.
    pub(crate) fn shown_by(self, printer: &Arc<Printer>, context: &HookContext) -> Self {
        Self { shown: Some((Arc::clone(printer), context.clone())), ..self }
    }

    /// The message so far.
    pub(crate) fn so_far(&self) -> Message {
        let state = self.lock();
        let calls = state.calls.so_far().map(|(index, call)| {
            let input = state.inputs.get(&index).cloned().unwrap_or_default();
            ToolUse { input, ..tool_use(call, Completeness::Partial) }
        });
        let content = content(&state.thinking, state.signature.as_deref(), &state.text, calls.collect());
        Message { content, ..self.frame.clone() }
    }

    /// The complete message.
    pub(crate) fn complete(&self, reply: &Reply) -> Message {
        let calls = reply.calls.iter().map(|call| tool_use(call, Completeness::Complete)).collect();
        let content = content(&reply.thinking, reply.signature.as_deref(), &reply.text, calls);
        Message { content, ..self.frame.clone() }
    }

    /// Adds a piece. Returns whether the message has changed.
    fn take(&self, delta: &ChatDelta) -> bool {
        let mut state = self.lock();
        match delta {
            ChatDelta::Text(text) => state.text.push_str(text),
            ChatDelta::Thinking(text) => state.thinking.push_str(text),
            ChatDelta::Signature(seal) => state.signature.get_or_insert_default().push_str(seal),
            ChatDelta::ToolCall { index, id, name, arguments } => {
                state.calls.add(*index, id.clone(), name.clone(), arguments);
                let call = state.calls.so_far().find(|(at, _)| at == index).map(|(_, call)| call);
                let read = call
                    .filter(|call| call.arguments.len() <= PARTIAL_INPUT_MAX)
                    .and_then(|call| arguments::object(without_open_escape(&call.arguments)).ok());
                if let Some((input, _)) = read {
                    state.inputs.insert(*index, input);
                }
            }
            // The message keeps its id: what is shown next replaces what was shown.
            ChatDelta::Restarted => *state = DraftState::default(),
            ChatDelta::Warning(_)
            | ChatDelta::AnsweredBy(_)
            | ChatDelta::Paused { .. }
            | ChatDelta::End { .. } => return false,
        }
        !matches!(delta, ChatDelta::Signature(_) | ChatDelta::Restarted)
    }

    async fn heard(&self, delta: &ChatDelta) -> Result<()> {
        match (self.take(delta), &self.shown) {
            (true, Some((printer, context))) => {
                printer.print(context, PrintedMessage { message: self.so_far(), last: false }).await
            }
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DraftState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn content(thinking: &str, signature: Option<&str>, text: &str, calls: Vec<ToolUse>) -> Vec<ContentBlock> {
    let mut content = Vec::new();
    if !thinking.is_empty() {
        let signature = signature.map(str::to_owned);
        content.push(ContentBlock::Thinking { thinking: thinking.to_owned(), signature });
    }
    if !text.is_empty() {
        content.push(ContentBlock::text(text));
    }
    content.extend(calls.into_iter().map(ContentBlock::ToolUse));
    content
}

#[derive(Clone, Copy, PartialEq)]
enum Completeness {
    Complete,
    Partial,
}

/// A call as a block. The model's own text is kept beside it when it is not simply a JSON object.
fn tool_use(call: &ToolCall, completeness: Completeness) -> ToolUse {
    let (id, name) = (call.id.clone(), call.name.clone());
    if let Ok(Json::Object(input)) = serde_json::from_str(&exact::kept(&call.arguments)) {
        return ToolUse { id, name, input, raw_input: None };
    }
    let input = match completeness {
        Completeness::Complete => {
            arguments::object(&call.arguments).map(|(input, _)| input).unwrap_or_default()
        }
        Completeness::Partial => Map::new(),
    };
    let raw_input = Some(call.arguments.clone()).filter(|text| !text.trim().is_empty());
    ToolUse { id, name, input, raw_input }
}

/// An incomplete JSON text without a partial escape sequence at its end; otherwise a backslash would be shown that is
/// not in the text.
fn without_open_escape(text: &str) -> &str {
    let bytes = text.as_bytes();
    let (mut place, mut first_half) = (0, None);
    while let Some(byte) = bytes.get(place) {
        if *byte != b'\\' {
            (place, first_half) = (place + 1, None);
            continue;
        }
        // By bytes: an escape is ASCII, and no byte of another character is a backslash.
        let length = if bytes.get(place + 1) == Some(&b'u') { 6 } else { 2 };
        let Some(escape) = bytes.get(place..place + length) else {
            return text.get(..first_half.unwrap_or(place)).unwrap_or_default();
        };
        // A character beyond the basic plane is written as two escapes.
        let half = matches!(escape, [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..]);
        first_half = half.then_some(place);
        place += length;
    }
    first_half.and_then(|place| text.get(..place)).unwrap_or(text)
}

/// A model whose pieces go through a draft.
pub(crate) struct DraftingModel<'a> {
    pub(crate) model: &'a dyn ChatModel,
    pub(crate) draft: Draft,
}

#[async_trait]
impl ChatModel for DraftingModel<'_> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let deltas = self.model.chat(request).await?;
        let draft = self.draft.clone();
        let heard = deltas.then(move |delta| {
            let draft = draft.clone();
            async move {
                if let Ok(delta) = &delta {
                    draft.heard(delta).await?;
                }
                delta
            }
        });
        Ok(heard.boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_its_digits() {
        let id = "12345678901234567890123";
        let (name, arguments) = ("pay".to_owned(), format!(r#"{{"id": {id}}}"#));
        let call = ToolCall { id: "c".to_owned(), name, arguments };
        let block = tool_use(&call, Completeness::Complete);
        assert_eq!((block.input["id"].as_str(), block.raw_input), (Some(id), None));
    }

    #[test]
    fn a_partial_escape_is_left_out() {
        let check = |text: &str, expected: &str| assert_eq!(without_open_escape(text), expected, "{text}");
        check(r#"{"a": "b"#, r#"{"a": "b"#);
        check(r#"{"a": "é\\"#, r#"{"a": "é\\"#);
        check(r#"{"a": "b\"#, r#"{"a": "b"#);
        check(r#"{"a": "b\\\"#, r#"{"a": "b\\"#);
        check(r#"{"a": "b\u00e"#, r#"{"a": "b"#);
        check(r#"{"a": "b\u00e9"#, r#"{"a": "b\u00e9"#);
        check(r#"{"a": "b\uD83D"#, r#"{"a": "b"#);
        check(r#"{"a": "b\ud83d\"#, r#"{"a": "b"#);
        check(r#"{"a": "b\ud83d\ude0"#, r#"{"a": "b"#);
        check(r#"{"a": "b\ud83d\ude00"#, r#"{"a": "b\ud83d\ude00"#);
    }
}
