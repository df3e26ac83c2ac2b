//! What a provider wants back beside the words of an assistant message, packed into the one text that is
//! the message's `signature`. Only the wire that packed it reads it; the others leave it alone.
//!
//! Anthropic signs each block of reasoning. One block is by far the usual case: the seal is its signature,
//! and the reasoning is the message's. Several blocks, or hidden ones, are packed whole: a JSON list. So is what was said
//! around a search of its own for tools (see [`super::blocks`]): then the list has every block in its place, of texts the length.
//! Gemini signs calls and texts: a JSON object.

use std::collections::BTreeMap;

use genai::chat::{ContentPart, CustomPart};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::ChatMessage;

/// The seal on an answer of Anthropic, from what genai kept of its blocks.
pub(super) fn of_anthropic(parts: &[ContentPart]) -> Option<String> {
    let mut blocks: Vec<Json> = Vec::new();
    for part in parts {
        match part {
            ContentPart::ThoughtSignature(signature) => {
                blocks.push(json!({"type": "thinking", "thinking": "", "signature": signature}));
            }
            ContentPart::ReasoningContent(text) => {
                if let Some(block) = blocks.last_mut() {
                    // genai hands on the signature before the reasoning that it signs.
                    block["thinking"] = json!(text);
                }
            }
            ContentPart::Custom(custom) if is_thinking(&custom.data) => blocks.push(custom.data.clone()),
            _ => {}
        }
    }
    match blocks.as_slice() {
        [] => None,
        [one] if one["type"] == "thinking" => one["signature"].as_str().map(str::to_owned),
        _ => Some(Json::Array(blocks).to_string()),
    }
}

/// The reasoning of a message as Anthropic wants it back; none without a seal of its own.
pub(super) fn anthropic_parts(message: &ChatMessage) -> Vec<ContentPart> {
    let Some(seal) = message.signature.as_deref().filter(|seal| !seal.is_empty()) else { return Vec::new() };
    match serde_json::from_str::<Json>(seal) {
        Ok(Json::Array(blocks)) => {
            let part = |data| ContentPart::Custom(CustomPart { model_iden: None, data });
            blocks.into_iter().filter(is_thinking).map(part).collect()
        }
        // It is Gemini's, from before the model was changed.
        Ok(Json::Object(_)) => Vec::new(),
        _ => vec![
            ContentPart::ThoughtSignature(seal.to_owned()),
            ContentPart::ReasoningContent(message.thinking.clone().unwrap_or_default()),
        ],
    }
}

/// Whether a block is reasoning.
pub(super) fn is_thinking(data: &Json) -> bool {
    matches!(data["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

/// The blocks that a message's seal is a list of, if it is one.
pub(super) fn seal_blocks(message: &ChatMessage) -> Option<Vec<Json>> {
    // Most seals are long signatures.
    let seal = message.signature.as_deref().filter(|seal| seal.starts_with('['))?;
    serde_json::from_str(seal).ok()
}

/// The seals on an answer of Gemini.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct GeminiSeals {
    /// By the call's place in the message.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<usize, String>,
    /// On the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl GeminiSeals {
    pub(super) fn pack(&self) -> Option<String> {
        if self.calls.is_empty() && self.text.is_none() {
            return None;
        }
        serde_json::to_string(self).ok()
    }

    pub(super) fn of(message: &ChatMessage) -> Self {
        let seal = message.signature.as_deref().unwrap_or_default();
        serde_json::from_str(seal).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::seam::chat_model::Author;

    fn sealed(seal: &str) -> ChatMessage {
        ChatMessage {
            thinking: Some("hm".into()),
            signature: Some(seal.into()),
            ..ChatMessage::new(Author::Assistant, "x")
        }
    }

    fn shown(parts: &[ContentPart]) -> Vec<String> {
        let show = |part: &ContentPart| match part {
            ContentPart::ThoughtSignature(text) => format!("seal {text}"),
            ContentPart::ReasoningContent(text) => format!("thinking {text}"),
            ContentPart::Custom(custom) => custom.data.to_string(),
            other => format!("{other:?}"),
        };
        parts.iter().map(show).collect()
    }

    #[test]
    fn one_signed_block_is_its_signature_and_several_are_packed() {
        let signed = |text: &str, seal: &str| {
            [ContentPart::ThoughtSignature(seal.into()), ContentPart::ReasoningContent(text.into())]
        };
        let hidden = || {
            let data = json!({"type": "redacted_thinking", "data": "zzz"});
            [ContentPart::Custom(CustomPart { model_iden: None, data })]
        };
        let seal = of_anthropic(&signed("hm", "s")).unwrap();
        assert_eq!(seal, "s");
        assert_eq!(shown(&anthropic_parts(&sealed(&seal))), ["seal s", "thinking hm"]);
        let parts: Vec<ContentPart> =
            signed("a", "s1").into_iter().chain(hidden()).chain(signed("b", "s2")).collect();
        let back = anthropic_parts(&sealed(&of_anthropic(&parts).unwrap()));
        assert_eq!(
            shown(&back),
            [
                r#"{"type":"thinking","thinking":"a","signature":"s1"}"#,
                r#"{"type":"redacted_thinking","data":"zzz"}"#,
                r#"{"type":"thinking","thinking":"b","signature":"s2"}"#
            ]
        );
        assert_eq!(of_anthropic(&hidden()).unwrap(), r#"[{"type":"redacted_thinking","data":"zzz"}]"#);
        assert_eq!(of_anthropic(&[ContentPart::from_text("x")]), None);
    }

    #[test]
    fn a_wire_ignores_seals_of_other_wires() {
        let seals = GeminiSeals { calls: [(0, "g".into())].into(), text: Some("t".into()) };
        let packed = seals.pack().unwrap();
        assert_eq!(GeminiSeals::of(&sealed(&packed)), seals);
        assert!(anthropic_parts(&sealed(&packed)).is_empty());
        assert_eq!(GeminiSeals::of(&sealed("EqQBCg==")), GeminiSeals::default());
        assert_eq!(GeminiSeals::of(&sealed(r#"[{"type":"thinking"}]"#)), GeminiSeals::default());
        assert_eq!(GeminiSeals::default().pack(), None);
    }
}
