//! Assembles the tool calls of one answer in all forms that servers send: interleaved, without an index, without an
//! id, with the same index for all, with the name in every piece, or with another id in every piece.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value as Json;
use weft_core::seam::chat_model::ChatDelta;

use crate::CALLS_MAX;

#[derive(Deserialize, Default)]
pub(super) struct CallPiece {
    pub index: Option<usize>,
    pub id: Option<String>,
    pub function: Option<FunctionPiece>,
}

#[derive(Deserialize, Default)]
pub(super) struct FunctionPiece {
    pub name: Option<String>,
    /// A string; some local servers send the object.
    pub arguments: Option<Json>,
}

/// The calls so far, numbered without gaps in the order in which they begin.
#[derive(Debug, Default)]
pub(super) struct CallAssembly {
    begun: Vec<BegunCall>,
    /// The call to which each of the server's indexes currently refers.
    by_index: HashMap<usize, usize>,
    /// The number of earlier calls in the conversation, so that generated ids are unique.
    before: usize,
}

#[derive(Debug, Default)]
struct BegunCall {
    /// The server's id.
    id: Option<String>,
    named: bool,
    /// Whether the piece with its name completed its arguments, and nothing has followed.
    whole: bool,
    /// Arguments that arrived before the name.
    held: String,
}

impl CallAssembly {
    pub(super) fn after(before: usize) -> Self {
        Self { before, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Converts the next piece to a delta, if it adds something; an error when there are too many calls.
    pub(super) fn take(&mut self, piece: CallPiece) -> Result<Option<ChatDelta>, String> {
        let function = piece.function.unwrap_or_default();
        let (id, name) = (filled(piece.id), filled(function.name));
        let arguments = function.arguments.as_ref().map(weft_core::value::to_text).unwrap_or_default();
        let at = self.place(piece.index, id.as_deref(), name.as_deref(), &arguments);
        if at >= CALLS_MAX {
            return Err(format!("more than {CALLS_MAX} tool calls"));
        }
        if at == self.begun.len() {
            self.begun.push(BegunCall::default());
        }
        if let Some(index) = piece.index {
            self.by_index.insert(index, at);
        }
        let Some(call) = self.begun.get_mut(at) else { return Ok(None) };
        if call.id.is_none() {
            call.id = id;
        }
        if call.named {
            call.whole &= arguments.is_empty();
            let delta = ChatDelta::ToolCall { index: at, id: None, name: None, arguments };
            return Ok(Some(delta).filter(|delta| !says_nothing(delta)));
        }
        call.held.push_str(&arguments);
        Ok(name.map(|name| call.begin(at, self.before, name)))
    }

    /// The calls that never got a name; the code that makes the calls reports them to the model.
    pub(super) fn nameless(&mut self) -> impl Iterator<Item = ChatDelta> + '_ {
        let before = self.before;
        let nameless = self.begun.iter_mut().enumerate().filter(|(_, call)| !call.named);
        nameless.map(move |(at, call)| call.begin(at, before, String::new()))
    }

    /// The call to which a piece belongs; the number after the last one for a new call.
    fn place(&self, index: Option<usize>, id: Option<&str>, name: Option<&str>, arguments: &str) -> usize {
        let next = self.begun.len();
        let own = |at: usize| self.begun.get(at).and_then(|call| call.id.as_deref());
        let with_id = |id: &str| (0..next).find(|at| own(*at) == Some(id));
        let is_whole = |at: usize| self.begun.get(at).is_some_and(|call| call.whole);
        match (index.map(|index| self.by_index.get(&index).copied()), id) {
            (Some(None), _) => next,
            // Some servers give every call the index 0 and no id, and send each in one piece.
            (Some(Some(at)), None) if name.is_some() && !arguments.is_empty() && is_whole(at) => next,
            (Some(Some(at)), None) => at,
            (Some(Some(at)), Some(id)) if own(at).is_none_or(|own| own == id) => at,
            // Some give every call the index 0 and distinguish them by id; some give every piece another id, and only
            // the first one a name.
            (Some(Some(at)), Some(id)) => with_id(id).unwrap_or(if name.is_some() { next } else { at }),
            (None, Some(id)) => with_id(id).unwrap_or(next),
            (None, None) if name.is_some() => next,
            (None, None) => next.saturating_sub(1),
        }
    }
}

impl BegunCall {
    fn begin(&mut self, at: usize, before: usize, name: String) -> ChatDelta {
        (self.named, self.whole) = (true, is_object(&self.held));
        let id = self.id.clone().unwrap_or_else(|| crate::call_id(before + at));
        ChatDelta::ToolCall {
            index: at,
            id: Some(id),
            name: Some(name),
            arguments: std::mem::take(&mut self.held),
        }
    }
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn says_nothing(delta: &ChatDelta) -> bool {
    matches!(delta, ChatDelta::ToolCall { arguments, .. } if arguments.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// `id name arguments` of each call assembled from these deltas.
    fn made_of(pieces: &[Json]) -> Vec<String> {
        let mut calls = CallAssembly::after(3);
        let mut deltas = Vec::new();
        for piece in pieces {
            let piece: CallPiece = serde_json::from_value(piece.clone()).unwrap();
            deltas.extend(calls.take(piece).unwrap());
        }
        deltas.extend(calls.nameless());
        let mut whole: Vec<(String, String)> = Vec::new();
        for delta in deltas {
            let ChatDelta::ToolCall { index, id, name, arguments } = delta else { panic!("{delta:?}") };
            if index == whole.len() {
                whole.push((format!("{} {}", id.unwrap(), name.unwrap()), arguments));
            } else {
                assert_eq!((id, name), (None, None));
                whole[index].1.push_str(&arguments);
            }
        }
        whole.into_iter().map(|(head, arguments)| format!("{head} {arguments}")).collect()
    }

    #[test]
    fn every_server_format_gives_the_same_calls() {
        let begin = |index: Json, id: Json, name: Json| json!({"index": index, "id": id, "function": {"name": name, "arguments": ""}});
        let more = |index: Json, text: &str| json!({"index": index, "function": {"arguments": text}});
        let check = |pieces: &[Json], expected: &[&str]| assert_eq!(made_of(pieces), expected, "{pieces:?}");
        let null = Json::Null;
        check(
            &[
                begin(json!(0), json!("a"), json!("t")),
                begin(json!(1), json!("b"), json!("u")),
                more(json!(0), r#"{"x":"\u00"#),
                more(json!(1), r#"{"y":"\ud83d\ud"#),
                more(json!(0), r#"e9"}"#),
                more(json!(1), r#"e00"}"#),
            ],
            &[r#"a t {"x":"\u00e9"}"#, r#"b u {"y":"\ud83d\ude00"}"#],
        );
        // Indexes from one, and backwards.
        check(
            &[
                begin(json!(2), json!("b"), json!("u")),
                begin(json!(1), json!("a"), json!("t")),
                more(json!(2), "{}"),
            ],
            &["b u {}", "a t "],
        );
        // One index for all.
        check(
            &[
                begin(json!(0), json!("a"), json!("t")),
                more(json!(0), "1"),
                begin(json!(0), json!("b"), json!("t")),
                more(json!(0), "2"),
            ],
            &["a t 1", "b t 2"],
        );
        // Id and name in every delta, an empty id, no id.
        check(
            &[
                json!({"index": 0, "id": "a", "function": {"name": "t", "arguments": "1"}}),
                json!({"index": 0, "id": "a", "function": {"name": "t", "arguments": "2"}}),
                json!({"index": 0, "id": "", "function": {"name": "", "arguments": "3"}}),
            ],
            &["a t 123"],
        );
        check(
            &[begin(json!(0), null.clone(), json!("t")), begin(json!(1), json!(""), json!("t"))],
            &["call_4 t ", "call_5 t "],
        );
        // No index: by id, by name, then the last.
        check(
            &[
                begin(null.clone(), json!("a"), json!("t")),
                json!({"id": "a", "function": {"arguments": "1"}}),
                json!({"function": {"name": "u", "arguments": {"y": 2}}}),
                more(null, " "),
            ],
            &["a t 1", r#"call_5 u {"y":2} "#],
        );
        // The name comes late, or never.
        check(
            &[
                more(json!(0), "{"),
                json!({"index": 0, "id": "a", "function": {"name": "t", "arguments": "}"}}),
            ],
            &["a t {}"],
        );
        check(&[more(json!(0), "{}")], &["call_4  {}"]);
    }

    #[test]
    fn calls_are_told_apart_by_index_id_or_name() {
        let piece = |id: &str, name: &str, arguments: &str| json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}});
        let check = |pieces: &[Json], expected: &[&str]| assert_eq!(made_of(pieces), expected, "{pieces:?}");
        // Another id with every piece.
        check(
            &[
                piece("a", "t", ""),
                piece("b", "", "1"),
                piece("c", "", "2"),
                json!({"index": 1, "id": "d", "function": {"name": "u", "arguments": ""}}),
                json!({"index": 1, "id": "e", "function": {"name": null, "arguments": "3"}}),
            ],
            &["a t 12", "d u 3"],
        );
        // One index for all, in turns.
        check(
            &[piece("a", "t", ""), piece("b", "u", ""), piece("a", "", "1"), piece("b", "", "2")],
            &["a t 1", "b u 2"],
        );
        // One index for all and no id, each in one piece.
        check(
            &[piece("", "t", "{}"), piece("", "t", r#"{"x":1}"#), piece("", "u", "{}")],
            &["call_4 t {}", r#"call_5 t {"x":1}"#, "call_6 u {}"],
        );
        // No id, and the name with every piece.
        check(&[piece("", "t", ""), piece("", "t", "{"), piece("", "t", "}")], &["call_4 t {}"]);
        check(&[piece("", "t", "{}"), piece("", "t", "")], &["call_4 t {}"]);
    }

    #[test]
    fn endless_calls_are_refused() {
        let mut calls = CallAssembly::default();
        let piece = |n: usize| CallPiece {
            index: Some(n * 1000),
            function: Some(FunctionPiece { name: Some("t".into()), arguments: None }),
            ..CallPiece::default()
        };
        let taken = (0..1000).take_while(|n| calls.take(piece(*n)).is_ok()).count();
        assert_eq!(taken, CALLS_MAX);
    }

    proptest! {
        #[test]
        fn the_order_of_the_deltas_makes_no_difference(
            texts in proptest::collection::vec("[a-z\"\\\\{}é汉]{0,12}", 1..5),
            turns in proptest::collection::vec((0..5_usize, 1..4_usize), 0..80),
        ) {
            let mut rests: Vec<Vec<char>> = texts.iter().map(|text| text.chars().collect()).collect();
            let mut pieces: Vec<Json> = (0..texts.len())
                .map(|at| json!({"index": at, "id": format!("id{at}"), "function": {"name": "t"}}))
                .collect();
            let ends = (0..texts.len()).map(|at| (at, usize::MAX));
            for (at, size) in turns.into_iter().map(|(at, size)| (at % texts.len(), size)).chain(ends) {
                let size = size.min(rests[at].len());
                let piece: String = rests[at].drain(..size).collect();
                pieces.push(json!({"index": at, "function": {"arguments": piece}}));
            }
            let expected: Vec<String> =
                texts.iter().enumerate().map(|(at, text)| format!("id{at} t {text}")).collect();
            prop_assert_eq!(made_of(&pieces), expected);
        }
    }
}
