//! The content of a message in the forms that servers send: a string, or a list of parts including reasoning, as from
//! Mistral.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use serde_json::Value as Json;

use crate::inline_tags::TaggedPart;

/// Parses a content, without empty parts.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TaggedPart>, D::Error> {
    let mut parts = match Json::deserialize(deserializer)? {
        Json::Null => Vec::new(),
        Json::String(text) => vec![TaggedPart::Text(text)],
        Json::Array(parts) => parts.iter().map(part).collect(),
        Json::Bool(_) | Json::Number(_) | Json::Object(_) => {
            return Err(D::Error::custom("the content is neither a text nor a list of parts"));
        }
    };
    parts.retain(|part| match part {
        TaggedPart::Text(text) | TaggedPart::Thinking(text) => !text.is_empty(),
    });
    Ok(parts)
}

fn part(part: &Json) -> TaggedPart {
    match part.get("thinking") {
        Some(Json::String(text)) => TaggedPart::Thinking(text.clone()),
        Some(Json::Array(parts)) => TaggedPart::Thinking(parts.iter().filter_map(text).collect()),
        // Parts of other kinds, such as reference numbers, contain nothing for a reader.
        _ => TaggedPart::Text(text(part).unwrap_or_default().to_owned()),
    }
}

fn text(part: &Json) -> Option<&str> {
    part.as_str().or_else(|| part.get("text")?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn content_is_a_text_or_a_list_of_parts() {
        let (said, thought) =
            (|text: &str| TaggedPart::Text(text.into()), |text: &str| TaggedPart::Thinking(text.into()));
        let check = |content: Json, expected: &[TaggedPart]| assert_eq!(read(content).unwrap(), expected);
        check(json!(null), &[]);
        check(json!(""), &[]);
        check(json!("a"), &[said("a")]);
        let thinking = json!({"type": "thinking", "thinking": [{"type": "text", "text": "h"}, "m"]});
        let reference = json!({"type": "reference", "reference_ids": [1]});
        check(json!([thinking, reference, {"type": "text", "text": "a"}]), &[thought("hm"), said("a")]);
        check(json!([{"thinking": "hm"}, "a", 1, {}]), &[thought("hm"), said("a")]);
        assert!(read(json!({"text": "a"})).is_err());
    }
}
