//! Normalizes and compares texts, ignoring irrelevant differences.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use weft_core::Json;

/// Characters of a text that are compared for similarity.
const HEAD_MAX: usize = 4_000;
/// Bytes of a result that are examined to obtain that many characters.
// The patterns below scan all of it, in each round.
const RAW_MAX: usize = 32_000;
/// Length in characters from which trigrams are compared instead of edits.
// Counting edits takes time proportional to the product of both lengths: four million steps here, sixteen at twice
// the length.
const EDITS_MAX: usize = 2_000;
/// The cost of a trigram, in pairs of characters.
// Roughly a map lookup compared with a step of the edit distance.
const TRIGRAM_COST: usize = 40;

/// Parts of results that change from call to call. Lower case, because it is applied after [`normal`].
static VOLATILE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // Without masking them, a tool that returns the time would never give the same result twice, and loops would go
    // undetected.
    let parts = [
        // UUIDs.
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        // Dates with or without a time, times with or without a zone.
        r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}(?:(?:t| )[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?(?: ?(?:z|utc|gmt|[+-][0-9]{2}:?[0-9]{2}))?)?",
        r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? )?[0-9]{1,2} (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* [0-9]{4}",
        r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?(?: ?(?:am|pm|z|utc|gmt|[+-][0-9]{2}:?[0-9]{2}))?",
        // Durations.
        r"pt(?:[0-9.]+[hms])+",
        r"[0-9]+(?:[.,][0-9]+)? ?(?:ns|us|µs|μs|ms|s|sec|secs|seconds?|milliseconds?|microseconds?|min|mins|minutes?|h|hrs?|hours?)",
        // Seconds and milliseconds since 1970.
        r"1[0-9]{9}(?:[0-9]{3}|\.[0-9]+)?",
        // Hexadecimal ids: with their prefix, long ones, short ones that have both digits and letters.
        r"0x[0-9a-f]+",
        r"[0-9a-f]{16,}",
        r"[a-f]+[0-9][0-9a-f]{6,}",
        r"[0-9]+[a-f][0-9a-f]{6,}",
    ];
    Regex::new(&format!(r"(?-u:\b)(?:{})(?-u:\b)", parts.join("|"))).ok()
});

/// A text in lower case with whitespace collapsed.
fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.extend(word.chars().flat_map(char::to_lowercase));
    }
    normal
}

/// The part of a result that is compared: its first [`HEAD_MAX`] characters, with volatile parts masked.
pub(super) fn result(text: &str) -> String {
    let normal = match (text.len() <= RAW_MAX).then(|| serde_json::from_str(text)) {
        Some(Ok(json)) => canonical(&json),
        Some(Err(_)) | None => normal(text.get(..text.floor_char_boundary(RAW_MAX)).unwrap_or_default()),
    };
    let masked = match &*VOLATILE {
        Some(volatile) => volatile.replace_all(&normal, "*").into_owned(),
        None => normal,
    };
    masked.chars().take(HEAD_MAX).collect()
}

/// JSON in canonical form: sorted keys, numbers without empty fractions, normalized texts.
pub(super) fn canonical(value: &Json) -> String {
    match value {
        Json::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let entries = entries.into_iter().map(|(key, value)| format!("{key}: {}", canonical(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Json::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(", ")),
        Json::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => float.to_string(),
            _ => number.to_string(),
        },
        Json::String(text) => normal(text),
        Json::Null | Json::Bool(_) => value.to_string(),
    }
}

/// The compact form of a text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TextPrint {
    /// Its first characters.
    head: String,
    /// A hash of all digits in it: page 1 is not page 2.
    digits: u64,
    /// A hash of what follows the head.
    rest: u64,
}

impl TextPrint {
    /// The compact form of a text written by a model, with up to `left` characters.
    pub(super) fn of_value(text: &str, left: &mut usize) -> Self {
        let normal = normal(text);
        let mut digits = Hash::default();
        for group in normal.split(|c: char| !c.is_numeric()).filter(|group| !group.is_empty()) {
            digits = digits.with(group);
        }
        Self::new(&normal, digits.finish(), left)
    }

    /// The compact form of a result, with up to `left` characters.
    pub(super) fn of_result(text: &str, left: &mut usize) -> Self {
        Self::new(&result(text), 0, left)
    }

    fn new(normal: &str, digits: u64, left: &mut usize) -> Self {
        let end = normal.char_indices().nth(HEAD_MAX.min(*left)).map_or(normal.len(), |(end, _)| end);
        let (head, rest) = normal.split_at(end);
        *left -= head.chars().count().min(*left);
        Self { head: head.to_owned(), digits, rest: hash(rest) }
    }

    /// The similarity of two texts, 0 to 1.
    pub(super) fn similarity(&self, other: &Self, work: &mut ComparisonBudget) -> f64 {
        // Texts that differ in a single digit are 99 % alike, yet one may refer to the next page.
        if self.digits != other.digits || self.rest != other.rest {
            return 0.0;
        }
        if self.head == other.head {
            return 1.0;
        }
        let (a, b) = (self.head.chars().count(), other.head.chars().count());
        // No measure exceeds the ratio of the lengths, so most pairs cost nothing.
        let bound = a.min(b) as f64 / a.max(b) as f64;
        if bound < super::SIMILAR {
            return bound;
        }
        if a.max(b) <= EDITS_MAX && work.take(a * b) {
            strsim::normalized_levenshtein(&self.head, &other.head)
        } else if work.take((a + b) * TRIGRAM_COST) {
            trigram_dice(&self.head, &other.head)
        } else {
            0.0
        }
    }
}

/// The budget for comparing two rounds, in pairs of characters. Comparisons beyond it count as different, so that no
/// run is stopped because it is exhausted.
#[derive(Debug)]
pub(super) struct ComparisonBudget(usize);

impl Default for ComparisonBudget {
    fn default() -> Self {
        // Four of the most expensive comparisons by edits.
        Self(16_000_000)
    }
}

impl ComparisonBudget {
    fn take(&mut self, pairs: usize) -> bool {
        let left = self.0.checked_sub(pairs);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Twice the number of common trigrams divided by the total number, 0 to 1.
fn trigram_dice(a: &str, b: &str) -> f64 {
    let mut counts: HashMap<[char; 3], usize> = HashMap::new();
    let (mut in_a, mut in_b, mut common) = (0_u32, 0_u32, 0_u32);
    for trigram in trigrams(a) {
        *counts.entry(trigram).or_default() += 1;
        in_a += 1;
    }
    for trigram in trigrams(b) {
        in_b += 1;
        if let Some(count) = counts.get_mut(&trigram).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    if in_a + in_b == 0 { 0.0 } else { f64::from(2 * common) / f64::from(in_a + in_b) }
}

fn trigrams(text: &str) -> impl Iterator<Item = [char; 3]> {
    let chars = text.chars();
    chars.clone().zip(chars.clone().skip(1)).zip(chars.skip(2)).map(|((a, b), c)| [a, b, c])
}

/// FNV-1a: the same in every build, because hashes are stored. Nothing depends on it being hard to forge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// The hash of everything added before and this part.
    pub(super) fn with(self, part: &str) -> Self {
        // This byte occurs in no UTF-8 text, so parts are never confused with their concatenation.
        let bytes = part.bytes().chain([0xff]);
        Self(bytes.fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    pub(super) fn finish(self) -> u64 {
        self.0
    }
}

pub(super) fn hash(text: &str) -> u64 {
    Hash::default().with(text).finish()
}
