//! The compact form of a call in which it is compared with the next one.

use serde::{Deserialize, Serialize};
use weft_core::Json;

use super::text::{self, ComparisonBudget, Hash, TextPrint};
use super::{Observed, Outcome, SIMILAR};

/// Maximum number of characters of text stored per round. Text beyond that is only compared for equality.
pub(super) const ROUND_MAX: usize = 64_000;
/// Maximum number of values of one call that are compared individually.
// Beyond it, comparing a call with a large table would cost more than making it.
const LEAVES_MAX: usize = 256;

/// The compact form of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CallPrint {
    name: u64,
    leaves: Vec<Leaf>,
    result: ResultPrint,
}

/// A single value among the arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Leaf {
    /// The keys that lead to it, hashed.
    path: u64,
    value: LeafValue,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LeafValue {
    /// A value that is only compared for equality.
    Exact(u64),
    Text(TextPrint),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ResultPrint {
    Text(TextPrint),
    Error(u64),
}

impl CallPrint {
    /// The compact form of a call, with up to `left` characters of text.
    pub(super) fn of(call: &Observed, left: &mut usize) -> Self {
        let mut flat = Flat { leaves: Vec::new(), surplus: None, left };
        flat.add(Hash::default(), &call.arguments);
        let mut leaves = flat.leaves;
        if let Some(rest) = flat.surplus {
            leaves.push(Leaf { path: 0, value: LeafValue::Exact(rest.finish()) });
        }
        let result = match &call.result {
            Outcome::Text(text) => ResultPrint::Text(TextPrint::of_result(text, left)),
            // Compared for equality: error messages often differ only in the word that matters.
            Outcome::Error(text) => ResultPrint::Error(text::hash(&text::result(text))),
        };
        Self { name: text::hash(&call.name), leaves, result }
    }

    /// The lowest similarity between the parts of two calls.
    pub(super) fn similarity(&self, other: &Self, work: &mut ComparisonBudget) -> f64 {
        if self.name != other.name || self.leaves.len() != other.leaves.len() {
            return 0.0;
        }
        let mut lowest = 1.0_f64;
        for (a, b) in self.leaves.iter().zip(&other.leaves) {
            let similarity = match (&a.value, &b.value) {
                _ if a.path != b.path => 0.0,
                (LeafValue::Exact(a), LeafValue::Exact(b)) if a == b => 1.0,
                (LeafValue::Text(a), LeafValue::Text(b)) => a.similarity(b, work),
                (LeafValue::Exact(_) | LeafValue::Text(_), _) => 0.0,
            };
            lowest = lowest.min(similarity);
            if lowest < SIMILAR {
                return lowest;
            }
        }
        let results = match (&self.result, &other.result) {
            (ResultPrint::Text(a), ResultPrint::Text(b)) => a.similarity(b, work),
            (ResultPrint::Error(a), ResultPrint::Error(b)) if a == b => 1.0,
            (ResultPrint::Text(_) | ResultPrint::Error(_), _) => 0.0,
        };
        lowest.min(results)
    }
}

/// Flattens arguments to a list of single values, in the order of their sorted keys.
struct Flat<'l> {
    leaves: Vec<Leaf>,
    /// The values beyond [`LEAVES_MAX`].
    surplus: Option<Hash>,
    left: &'l mut usize,
}

impl Flat<'_> {
    fn add(&mut self, path: Hash, value: &Json) {
        match value {
            Json::Object(map) if !map.is_empty() => {
                let mut entries: Vec<_> = map.iter().collect();
                // Models may write the same arguments in a different order.
                entries.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    self.add(path.with(".").with(key), value);
                }
            }
            Json::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    self.add(path.with("#").with(&index.to_string()), item);
                }
            }
            Json::Null
            | Json::Bool(_)
            | Json::Number(_)
            | Json::String(_)
            | Json::Array(_)
            | Json::Object(_) => {
                self.leaf(path, value);
            }
        }
    }

    fn leaf(&mut self, path: Hash, value: &Json) {
        if self.leaves.len() >= LEAVES_MAX {
            let rest = self.surplus.take().unwrap_or_default();
            self.surplus = Some(rest.with(&path.finish().to_string()).with(&text::canonical(value)));
            return;
        }
        let value = match value {
            Json::String(text) if !is_enum_like(text) => {
                LeafValue::Text(TextPrint::of_value(text, self.left))
            }
            _ => LeafValue::Exact(text::hash(&text::canonical(value))),
        };
        self.leaves.push(Leaf { path: path.finish(), value });
    }
}

/// Whether a text is a single short word, such as a unit, a mode or an id: such words are equal or different, but
/// never similar.
fn is_enum_like(text: &str) -> bool {
    let text = text.trim();
    // Room for a UUID (36 characters) and a SHA-1 in hexadecimal (40).
    text.len() <= 40
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/'))
}
