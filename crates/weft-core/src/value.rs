//! What flows along the edges: JSON, or a text that is still being written.

use std::sync::Arc;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::stream::SharedText;

/// Any JSON value.
pub type Json = serde_json::Value;

/// A map that keeps the order of its entries. Its hash is seeded at random and fast on short keys.
pub type OrderedMap<K, V> = indexmap::IndexMap<K, V, foldhash::fast::RandomState>;

/// The value of an output, of a global or of a reference. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Value {
    /// A finished value.
    Json(Arc<Json>),
    /// A text that is produced once and can be read by many, from its start, while it grows.
    Stream(SharedText),
}

impl Value {
    /// JSON null.
    pub fn null() -> Self {
        static NULL: std::sync::LazyLock<Arc<Json>> = std::sync::LazyLock::new(|| Arc::new(Json::Null));
        Self::Json(Arc::clone(&NULL))
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Json(Arc::new(Json::String(text.into())))
    }

    /// The JSON, unless it is a stream.
    pub fn as_json(&self) -> Option<&Json> {
        match self {
            Self::Json(json) => Some(json),
            Self::Stream(_) => None,
        }
    }

    /// Waits for a stream to end; the JSON either way.
    ///
    /// # Errors
    /// When the stream's producer failed.
    pub async fn settled(&self) -> crate::Result<Arc<Json>> {
        match self {
            Self::Json(json) => Ok(Arc::clone(json)),
            Self::Stream(text) => Ok(Arc::new(Json::String(text.text().await?))),
        }
    }

    /// What a stream holds so far, or the JSON.
    pub fn snapshot(&self) -> Arc<Json> {
        match self {
            Self::Json(json) => Arc::clone(json),
            Self::Stream(text) => Arc::new(Json::String(text.so_far())),
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
            (Self::Json(_), Self::Stream(_)) | (Self::Stream(_), Self::Json(_)) => false,
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Json(json) => json.serialize(serializer),
            Self::Stream(text) => serializer.serialize_str(&text.so_far()),
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

    /// One output.
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
        let map = serde_json::Map::deserialize(deserializer)?;
        Ok(map.into_iter().collect())
    }
}

/// The text form used wherever a value is put into text: null is empty, a string is itself,
/// everything else is JSON with its characters kept.
pub fn to_text(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Walks from a value along `path`: a string is parsed as JSON first, an object gives a member, a
/// list takes an index (negative from the end). Whatever cannot be followed is null.
pub fn walk<'a>(start: &'a Json, path: impl IntoIterator<Item = &'a str>) -> Json {
    let mut current = std::borrow::Cow::Borrowed(start);
    for step in path {
        let next = match current.as_ref() {
            Json::String(text) => match serde_json::from_str::<Json>(text) {
                Ok(parsed) => member(&parsed, step).cloned(),
                Err(_) => None,
            },
            other => member(other, step).cloned(),
        };
        current = std::borrow::Cow::Owned(next.unwrap_or(Json::Null));
    }
    current.into_owned()
}

fn member<'a>(json: &'a Json, step: &str) -> Option<&'a Json> {
    match json {
        Json::Object(map) => map.get(step),
        Json::Array(items) => {
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
    fn walking_follows_objects_lists_and_json_in_text() {
        let value = json!({"a": [{"b": 1}, {"b": 2}], "t": "{\"x\": [3]}"});
        let check = |path: &[&str], expected: Json| assert_eq!(walk(&value, path.iter().copied()), expected);
        check(&["a", "0", "b"], json!(1));
        check(&["a", "-1", "b"], json!(2));
        check(&["a", "9", "b"], Json::Null);
        check(&["a", "x"], Json::Null);
        check(&["t", "x", "0"], json!(3));
        check(&["t", "nope", "0"], Json::Null);
        check(&[], value.clone());
    }

    #[test]
    fn text_of_values() {
        assert_eq!(to_text(&Json::Null), "");
        assert_eq!(to_text(&json!("a b")), "a b");
        assert_eq!(to_text(&json!(["汉", 1, true])), r#"["汉",1,true]"#);
    }
}
