//! A JSON value that preserves duplicate names in objects.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A value and everything in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JsonPart {
    /// Members in the order of the file.
    Object(Vec<(String, Self)>),
    /// Elements of an array.
    Array(Vec<Self>),
    /// Anything else.
    Plain(Value),
}

impl JsonPart {
    /// Whether it contains other values.
    pub(super) fn has_parts(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Returns the value if it is a scalar.
    pub(super) fn plain(&self) -> Option<&Value> {
        match self {
            Self::Plain(value) => Some(value),
            Self::Object(_) | Self::Array(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for JsonPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = JsonPart;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<JsonPart, E> {
        Ok(JsonPart::Plain(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonPart, E> {
        Ok(JsonPart::Plain(Value::from(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonPart, E> {
        Ok(JsonPart::Plain(Value::from(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonPart, E> {
        Ok(JsonPart::Plain(Value::from(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<JsonPart, E> {
        Ok(JsonPart::Plain(Value::from(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<JsonPart, E> {
        Ok(JsonPart::Plain(Value::from(value)))
    }

    fn visit_string<E>(self, value: String) -> Result<JsonPart, E> {
        Ok(JsonPart::Plain(Value::from(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<JsonPart, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element()? {
            parts.push(part);
        }
        Ok(JsonPart::Array(parts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<JsonPart, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = object.next_entry()? {
            members.push(member);
        }
        Ok(JsonPart::Object(members))
    }
}
