//! Splits a document into the parts about which a model is asked in turn.

use std::collections::BTreeSet;

use weft_agent::window::{cut, tokens};
use weft_core::pipeline::PipelineChunk;

use crate::ingestion::passed::is_compiled;

/// Maximum number of tokens in a part.
// In larger parts, models leave things out, and their answers exceed the output limit.
const PART_MAX: usize = 3_000;
/// Minimum number of tokens in a part: less is too little context to be understood.
const PART_MIN: usize = 256;

/// A part of the document.
#[derive(Debug, PartialEq)]
pub(super) struct DocumentPart {
    /// Its passages, each with its number.
    pub text: String,
    /// The chunks of these passages, counted from 1.
    pub places: BTreeSet<usize>,
}

/// The parts into which a document was split.
#[derive(Debug, PartialEq)]
pub(super) struct Material {
    /// The parts.
    pub parts: Vec<DocumentPart>,
    /// The first chunk that they do not contain completely.
    pub ends_before: Option<usize>,
}

/// Returns the maximum number of tokens in a part for a model with this context window, leaving space for the
/// instructions and the answer.
pub(super) fn room(window: usize) -> usize {
    (window / 4).clamp(PART_MIN, PART_MAX)
}

impl Material {
    /// Splits a document into parts of at most `room` tokens, and no more than `parts_max` of them.
    pub(super) fn of(chunks: &[PipelineChunk], room: usize, parts_max: usize) -> Self {
        let mut made = Self { parts: Vec::new(), ends_before: None };
        let mut left = 0;
        for (place, chunk) in chunks.iter().enumerate() {
            // What another template has compiled is not part of the document.
            if is_compiled(chunk) || chunk.text.trim().is_empty() {
                continue;
            }
            let head = match chunk.headings.as_slice() {
                [] => format!("[{}]\n", place + 1),
                headings => format!("[{}] {}\n", place + 1, cut(&headings.join(" › "), room / 4)),
            };
            let mut rest = chunk.text.as_str();
            while !rest.is_empty() {
                // At least one token each time: a long heading must not keep the text from being used up.
                let piece = cut(rest, room.saturating_sub(tokens(&head)).max(1));
                rest = &rest[piece.len()..];
                let passage = format!("{head}{piece}\n\n");
                let costs = tokens(&passage);
                if costs > left {
                    if made.parts.len() == parts_max {
                        made.ends_before = Some(place + 1);
                        return made;
                    }
                    made.parts.push(DocumentPart { text: String::new(), places: BTreeSet::new() });
                    left = room;
                }
                left = left.saturating_sub(costs);
                if let Some(part) = made.parts.last_mut() {
                    part.text.push_str(&passage);
                    part.places.insert(place + 1);
                }
            }
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chunk(text: &str) -> PipelineChunk {
        PipelineChunk { text: text.to_owned(), ..PipelineChunk::default() }
    }

    #[test]
    fn parts_are_packed_and_counted() {
        let long = "word ".repeat(400);
        let mut compiled = chunk("a timeline");
        compiled.rest.insert(crate::ingestion::passed::COMPILED.to_owned(), json!({}));
        let mut under = chunk("second");
        under.headings = vec!["A".to_owned(), "B".to_owned()];
        let chunks = [chunk("first"), chunk(" "), under, compiled, chunk(&long), chunk("last")];
        let whole = Material::of(&chunks, 256, 10);
        assert_eq!(whole.parts[0].text, "[1]\nfirst\n\n[3] A › B\nsecond\n\n");
        assert_eq!(whole.parts[0].places, BTreeSet::from([1, 3]));
        assert!(whole.parts.iter().all(|part| tokens(&part.text) <= 256 + 2), "{whole:?}");
        let said: usize = whole.parts.iter().map(|part| part.text.matches("word").count()).sum();
        assert_eq!((said, whole.ends_before), (400, None), "nothing of a long chunk is lost");
        assert!(whole.parts.last().unwrap().text.contains("last"));
        let some = Material::of(&chunks, 256, 2);
        assert_eq!((some.parts.len(), some.ends_before), (2, Some(5)));
        assert_eq!((room(100), room(8_000), room(1_000_000)), (256, 2_000, 3_000));
    }
}
