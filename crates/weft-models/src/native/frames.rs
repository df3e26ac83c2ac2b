//! What the frames of a stream say besides what genai hands on.

use std::sync::{Arc, Mutex, PoisonError};

use genai::chat::RawFrameRef;

use super::blocks::Blocks;
use crate::factories::Provider;

/// What a wire put into its stream and genai does not hand on.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(super) heard: Heard,
    /// An error object.
    pub(super) error: Option<serde_json::Value>,
    /// Why Gemini answers nothing: genai takes that for a failure without a reason.
    pub(super) blocked: Option<String>,
    /// A piece of Anthropic's arrived without its name, and was passed over: where a line end of two letters is cut in
    /// two, genai takes it for two line ends.
    pub(super) lost: bool,
    /// Of Anthropic.
    pub(super) blocks: Blocks,
}

/// What has come of an answer so far, also when nothing of it is handed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Heard {
    /// Not a word.
    #[default]
    Nothing,
    /// Something that is no answer as far as one can tell.
    Something,
    /// A piece of an answer, or what comes before the first one.
    Answer,
}

/// What the frames held, written while genai reads them.
pub(crate) type Noticed = Arc<Mutex<Frames>>;

/// Takes from a frame what genai does not look at.
pub(super) fn notice(provider: Provider, noticed: &Noticed, frame: RawFrameRef<'_>) {
    let mut noticed = noticed.lock().unwrap_or_else(PoisonError::into_inner);
    if provider == Provider::Anthropic {
        noticed.blocks.frame(frame.event, frame.data);
        noticed.lost |= frame.event.is_none() && is_piece(frame);
    }
    if noticed.heard != Heard::Answer {
        let known = is_of_answer(provider, frame);
        noticed.heard = if known { Heard::Answer } else { Heard::Something };
    }
    // Every piece of an answer comes this way: one that cannot be an error is not read as JSON once more.
    if frame.data.trim_start().starts_with("{\"error\"")
        && let Ok(object) = serde_json::from_str(frame.data)
    {
        noticed.error = Some(object);
    }
    if provider == Provider::Gemini
        && frame.data.contains("\"blockReason\"")
        && let Some(reason) = block_reason(frame)
    {
        noticed.blocked = Some(reason);
    }
}

/// Whether a frame of Anthropic's is a piece of an answer, by what it says itself.
fn is_piece(frame: RawFrameRef<'_>) -> bool {
    let object = frame.json().unwrap_or_default();
    object["type"].as_str().is_some_and(|kind| kind.starts_with("content_block_") || kind == "message_delta")
}

/// Why a question is answered with nothing.
fn block_reason(frame: RawFrameRef<'_>) -> Option<String> {
    let object = frame.json().filter(|object| object.get("candidates").is_none())?;
    let reason = object.pointer("/promptFeedback/blockReason")?.as_str()?;
    Some(reason.to_owned())
}

/// Whether a frame is one of its provider's answers.
fn is_of_answer(provider: Provider, frame: RawFrameRef<'_>) -> bool {
    let has = |member: &str| frame.json().is_some_and(|object| object.get(member).is_some());
    match provider {
        Provider::Anthropic => frame.event.is_some_and(|event| {
            event == "ping" || event.starts_with("message_") || event.starts_with("content_block_")
        }),
        Provider::Gemini => has("candidates"),
        _ => has("message"),
    }
}
