//! The values that flow along edges: JSON, or a text that is still being written.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::exact::kept;
pub use crate::ordered::OrderedMap;
use crate::stream::{PendingOutput, SharedText};

/// Any JSON value.
pub type Json = serde_json::Value;

/// The value of an output, of a global or of a reference. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Value {
    /// A finished value.
    Json(Arc<Json>),
    /// A text that is produced once and may be read by many readers, from its start, while it grows.
    Stream(SharedText),
    /// A value that is available only once its producer has ended.
    Pending(PendingOutput),
}

impl Value {
    /// JSON null.
    pub fn null() -> Self {
        // References to branches that were not taken are null; all of them share this value.
        static NULL: std::sync::LazyLock<Arc<Json>> = std::sync::LazyLock::new(|| Arc::new(Json::Null));
        Self::Json(Arc::clone(&NULL))
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Json(Arc::new(Json::String(text.into())))
    }

    /// Returns the JSON, unless the value is a stream or still pending.
    pub fn as_json(&self) -> Option<&Json> {
        match self {
            Self::Json(json) => Some(json),
            Self::Stream(_) | Self::Pending(_) => None,
        }
    }

    /// Waits until the value is complete, and returns it as JSON.
    ///
    /// # Errors
    /// Fails when its producer failed.
    pub async fn settled(&self) -> crate::Result<Arc<Json>> {
        match self {
            Self::Json(json) => Ok(Arc::clone(json)),
            Self::Stream(text) => Ok(Arc::new(Json::String(text.text().await?))),
            Self::Pending(output) => output.settled().await,
        }
    }

    /// Returns the JSON, or what a stream holds so far; null while pending.
    pub fn snapshot(&self) -> Arc<Json> {
        match self {
            Self::Json(json) => Arc::clone(json),
            Self::Stream(text) => Arc::new(Json::String(text.so_far())),
            Self::Pending(output) => output.so_far(),
        }
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        Self::Json(Arc::new(json))
    }
}

impl From<Arc<Json>> for Value {
    fn from(json: Arc<Json>) -> Self {
        Self::Json(json)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json(a), Self::Json(b)) => a == b,
            (Self::Stream(a), Self::Stream(b)) => a.same_as(b),
            (Self::Pending(a), Self::Pending(b)) => a.same_as(b),
            (Self::Json(_) | Self::Stream(_) | Self::Pending(_), _) => false,
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Json(json) => json.serialize(serializer),
            // The text so far: serialising a growing value must not wait for its end.
            Self::Stream(text) => serializer.serialize_str(&text.so_far()),
            Self::Pending(output) => output.so_far().serialize(serializer),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer).map(Into::into)
    }
}

/// The named values a component produced, in the order it named them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs(pub OrderedMap<Arc<str>, Value>);

impl Outputs {
    /// No outputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates outputs that hold a single value.
    pub fn of(name: &str, value: impl Into<Value>) -> Self {
        let mut outputs = Self::new();
        outputs.set(name, value);
        outputs
    }

    /// Sets or replaces an output.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// An output by name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns the value at a path: an output name, or an output name followed by a dot and the path of a member.
    /// Null if there is no such value.
    pub fn at(&self, path: &str) -> Value {
        if let Some(value) = self.get(path) {
            return value.clone();
        }
        let Some((name, rest)) = path.split_once('.') else { return Value::null() };
        match self.get(name) {
            // The whole path was tried as a name first, because components may put a dot into an output name.
            Some(value) => walk(&value.snapshot(), rest.split('.')).into(),
            None => Value::null(),
        }
    }
}

impl<K: AsRef<str>, V: Into<Value>> FromIterator<(K, V)> for Outputs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Self {
        Self(iter.into_iter().map(|(name, value)| (name.as_ref().into(), value.into())).collect())
    }
}

impl Serialize for Outputs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(&**name, value)?;
        }
        map.end()
    }
}

impl<'de> serde::Deserialize<'de> for Outputs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Goes through plain JSON because stored values are complete: no output is read back as a growing stream.
        let map = serde_json::Map::deserialize(deserializer)?;
        Ok(map.into_iter().collect())
    }
}

/// Returns the text form of a value that is put into a text: null is empty, a string is itself, everything else is
/// JSON without escaping non-ASCII characters.
pub fn to_text(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the first `chars_max` characters of a text, followed by `…` if it has more.
pub fn shortened(text: &str, chars_max: usize) -> String {
    // Counts characters, not bytes: texts may be in any script.
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Formats a count, such as `1 chunk` and `2 chunks`.
pub fn plural<N: Copy + Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    if count == N::from(1) { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Formats a count with its verb, one for a single thing and one for several: `1 line was` and `2 lines were`.
pub fn plural_with<N: Copy + Display + PartialEq + From<u8>>(
    count: N,
    what: &str,
    verbs: [&str; 2],
) -> String {
    let [one, several] = verbs;
    let verb = if count == N::from(1) { one } else { several };
    format!("{} {verb}", plural(count, what))
}

/// Lists names in a message: `` `a`, `b` ``.
pub fn listed(names: impl IntoIterator<Item: Display>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Maximum nesting depth of a value. JSON deeper than 128 levels cannot be parsed again, and values are stored inside
/// the records and states of a run.
pub const DEPTH_MAX: usize = 100;

/// Returns the number of nested levels of lists and objects.
pub fn depth(json: &Json) -> usize {
    // Iterates level by level, because a value may be nested too deeply for recursion.
    let mut level = vec![json];
    let mut count = 0;
    while !level.is_empty() {
        let mut next = Vec::new();
        let mut nests = false;
        for value in level {
            match value {
                Json::Array(items) => {
                    nests = true;
                    next.extend(items.iter().filter(|item| item.is_array() || item.is_object()));
                }
                Json::Object(members) => {
                    nests = true;
                    next.extend(members.values().filter(|item| item.is_array() || item.is_object()));
                }
                _ => {}
            }
        }
        count += usize::from(nests);
        level = next;
    }
    count
}

/// Returns the approximate size of a value as text, in bytes.
pub fn size(json: &Json) -> usize {
    weighed(json, usize::MAX).unwrap_or(usize::MAX)
}

/// Like [`size`]; `None` when the value is nested deeper than [`DEPTH_MAX`].
pub fn weight(json: &Json) -> Option<usize> {
    weighed(json, DEPTH_MAX)
}

fn weighed(json: &Json, levels_left: usize) -> Option<usize> {
    match json {
        Json::String(text) => Some(text.len()),
        // Null counts too: a list of a million nulls takes as much memory as one of numbers.
        Json::Null | Json::Bool(_) | Json::Number(_) => Some(8),
        Json::Array(items) => {
            let levels_left = levels_left.checked_sub(1)?;
            items.iter().try_fold(0, |sum, item| Some(sum + weighed(item, levels_left)? + 1))
        }
        Json::Object(members) => {
            let levels_left = levels_left.checked_sub(1)?;
            members
                .iter()
                .try_fold(0, |sum, (key, value)| Some(sum + key.len() + weighed(value, levels_left)? + 4))
        }
    }
}

/// Returns a number, also if it is written as a text.
pub fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => number.as_f64(),
        // Rust parses `inf` and `nan` as numbers. JSON has neither, and people who write them mean the words.
        Json::String(text) => text.trim().parse::<f64>().ok().filter(|number| number.is_finite()),
        _ => None,
    }
}

/// Returns the number as an integer if it has no fraction.
pub fn whole(number: f64) -> Option<i64> {
    // 2^53: above it, a float can no longer represent every integer.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let fits = number.fract() == 0.0 && number.abs() <= EXACT_MAX;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within ±2^53")]
    fits.then_some(number as i64)
}

/// Returns a boolean, also if it is written as a text or as 0 or 1.
pub fn truth(value: &Json) -> Option<bool> {
    match value {
        Json::Bool(flag) => Some(*flag),
        // Only these two numbers, which forms and other languages use; what any other number means is unclear.
        Json::Number(number) if number.as_i64() == Some(1) => Some(true),
        Json::Number(number) if number.as_i64() == Some(0) => Some(false),
        Json::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Json::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Returns the kind of a value for use in a message: `a list`.
pub fn kind_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

/// Like [`kind_of`], with the value itself or its beginning: ``the number `5` ``.
pub fn described(value: &Json) -> String {
    // The result is placed within a sentence, and the value may be a whole document.
    const SHOWN_MAX: usize = 40;
    let kind = match value {
        Json::Null => return "nothing (null)".to_owned(),
        Json::Bool(_) => "the truth value",
        Json::Number(_) => "the number",
        Json::String(_) => "the text",
        Json::Array(items) => return format!("a list of {}", items.len()),
        Json::Object(_) => return "an object".to_owned(),
    };
    format!("{kind} `{}`", shortened(&to_text(value), SHOWN_MAX))
}

/// Follows `path` from a value: a string is first parsed as JSON, an object yields a member, a list takes an index
/// (negative from the end). Steps that cannot be followed yield null. In a string, an integer with more digits than a
/// number can hold is a text.
pub fn walk<'a>(start: &'a Json, path: impl IntoIterator<Item = &'a str>) -> Json {
    // Only the value found at the end is copied.
    let mut current = Cow::Borrowed(start);
    for step in path {
        let next = match &current {
            // Models return objects as strings; a path leads into these as well.
            Cow::Borrowed(Json::String(text)) => inside(text, step).map(Cow::Owned),
            Cow::Borrowed(json) => member(json, step).map(Cow::Borrowed),
            Cow::Owned(Json::String(text)) => inside(text, step).map(Cow::Owned),
            Cow::Owned(json) => member(json, step).cloned().map(Cow::Owned),
        };
        current = next.unwrap_or(Cow::Owned(Json::Null));
    }
    current.into_owned()
}

fn inside(text: &str, step: &str) -> Option<Json> {
    member(&serde_json::from_str::<Json>(&kept(text)).ok()?, step).cloned()
}

fn member<'a>(json: &'a Json, step: &str) -> Option<&'a Json> {
    match json {
        Json::Object(map) => map.get(step),
        Json::Array(items) => {
            // Anything but an index leads nowhere, because a list has no members.
            let index: i64 = step.parse().ok()?;
            let count = i64::try_from(items.len()).ok()?;
            let index = if index < 0 { count + index } else { index };
            items.get(usize::try_from(index).ok()?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_thing_is_not_told_of_as_several() {
        assert_eq!([plural(0_u64, "chunk"), plural(1_usize, "chunk")], ["0 chunks", "1 chunk"]);
        assert_eq!(plural(1.0, "second"), "1 second");
        assert_eq!(plural_with(1_u32, "line", ["was", "were"]), "1 line was");
        assert_eq!(plural_with(2_u32, "line", ["was", "were"]), "2 lines were");
    }

    #[test]
    fn names_are_listed_as_code() {
        assert_eq!(listed(["a", "b c"]), "`a`, `b c`");
        assert_eq!(listed(Vec::<String>::new()), "");
    }

    #[test]
    fn paths_follow_objects_lists_and_json_in_text() {
        let value = json!({"a": [{"b": 1}, {"b": 2}], "t": "{\"x\": [3]}"});
        let check = |path: &[&str], expected: Json| assert_eq!(walk(&value, path.iter().copied()), expected);
        check(&["a", "0", "b"], json!(1));
        check(&["a", "-1", "b"], json!(2));
        check(&["a", "9", "b"], Json::Null);
        check(&["a", "x"], Json::Null);
        check(&["t", "x", "0"], json!(3));
        check(&["t", "nope", "0"], Json::Null);
        check(&[], value.clone());
        let answer = json!(r#"{"ids": [12345678901234567890123]}"#);
        assert_eq!(walk(&answer, ["ids", "0"]), json!("12345678901234567890123"));
    }

    #[test]
    fn weight_and_depth() {
        assert_eq!(weight(&json!("abc")), Some(3));
        assert_eq!(weight(&json!({"a": ["bc", 1]})), Some(1 + 4 + 2 + 1 + 8 + 1));
        assert_eq!((depth(&json!(1)), depth(&json!([[], {"a": [1]}]))), (0, 3));
        let deep = (0..DEPTH_MAX).fold(json!(1), |value, _| json!([value]));
        assert_eq!((depth(&deep), weight(&deep)), (DEPTH_MAX, Some(8 + DEPTH_MAX)));
        assert_eq!(weight(&json!([deep])), None);
    }

    #[test]
    fn texts_are_truncated_between_characters() {
        assert_eq!([shortened("äöü", 2), shortened("äöü", 3), shortened("", 0)], ["äö…", "äöü", ""]);
    }

    #[test]
    fn text_of_values() {
        assert_eq!(to_text(&Json::Null), "");
        assert_eq!(to_text(&json!("a b")), "a b");
        assert_eq!(to_text(&json!(["汉", 1, true])), r#"["汉",1,true]"#);
    }
}
