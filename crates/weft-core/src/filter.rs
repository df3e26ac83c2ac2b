//! Conditions on the metadata of documents, with one meaning wherever they are looked at.
//!
//! A value may be a text, a number or a list of either; a list is the set of values that a document has
//! for a key. Positive conditions hold when one of the values fits; each negative condition is the exact
//! opposite of its positive one, so `≠` holds when no value is equal, and also for a document without the key.

use serde::{Deserialize, Serialize};

use crate::value::{Json, to_text};

/// Metadata of a document: a key, and a text, a number or a list of them.
pub type Metadata = serde_json::Map<String, Json>;

/// Conditions that are looked at together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    /// Whether all or one of them has to hold.
    #[serde(default)]
    pub logic: Logic,
    /// The conditions; without any, every document fits.
    pub conditions: Vec<Condition>,
}

/// How conditions are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Logic {
    /// All have to hold.
    #[default]
    And,
    /// One has to.
    Or,
}

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Which key.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what; of no interest to [`Operator::Empty`] and [`Operator::NotEmpty`].
    #[serde(default)]
    pub value: Json,
}

/// How a value is compared. Texts are compared without regard to case. Two values that both read as
/// numbers are compared as numbers, others as texts, which is right for dates in the ISO form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// Equal.
    #[serde(rename = "=")]
    Equal,
    /// Not equal.
    #[serde(rename = "≠")]
    NotEqual,
    /// Greater.
    #[serde(rename = ">")]
    Greater,
    /// Less.
    #[serde(rename = "<")]
    Less,
    /// Greater or equal.
    #[serde(rename = "≥")]
    AtLeast,
    /// Less or equal.
    #[serde(rename = "≤")]
    AtMost,
    /// The document's value holds the given text.
    #[serde(rename = "contains")]
    Contains,
    /// It does not.
    #[serde(rename = "not contains")]
    NotContains,
    /// The document's value is one of the given ones: a list, or a text separated by commas.
    #[serde(rename = "in")]
    In,
    /// It is none of them.
    #[serde(rename = "not in")]
    NotIn,
    /// The document's value begins with the given text.
    #[serde(rename = "start with")]
    StartsWith,
    /// It ends with it.
    #[serde(rename = "end with")]
    EndsWith,
    /// The document has no value for the key.
    #[serde(rename = "empty")]
    Empty,
    /// It has one.
    #[serde(rename = "not empty")]
    NotEmpty,
}

impl Operator {
    /// Every operator, in the order of the documentation.
    pub const ALL: [Self; 14] = [
        Self::Equal,
        Self::NotEqual,
        Self::Greater,
        Self::Less,
        Self::AtLeast,
        Self::AtMost,
        Self::Contains,
        Self::NotContains,
        Self::In,
        Self::NotIn,
        Self::StartsWith,
        Self::EndsWith,
        Self::Empty,
        Self::NotEmpty,
    ];

    /// Reads an operator in any of the spellings that clients use.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.trim().to_lowercase().as_str() {
            "=" | "==" | "is" => Self::Equal,
            "≠" | "!=" | "<>" | "not is" | "is not" => Self::NotEqual,
            ">" => Self::Greater,
            "<" => Self::Less,
            "≥" | ">=" => Self::AtLeast,
            "≤" | "<=" => Self::AtMost,
            "contains" => Self::Contains,
            "not contains" => Self::NotContains,
            "in" => Self::In,
            "not in" => Self::NotIn,
            "start with" | "starts with" => Self::StartsWith,
            "end with" | "ends with" => Self::EndsWith,
            "empty" => Self::Empty,
            "not empty" => Self::NotEmpty,
            _ => return None,
        })
    }

    /// The operator whose opposite this one is.
    fn opposite_of(self) -> Option<Self> {
        Some(match self {
            Self::NotEqual => Self::Equal,
            Self::NotContains => Self::Contains,
            Self::NotIn => Self::In,
            Self::Empty => Self::NotEmpty,
            _ => return None,
        })
    }
}

impl Filter {
    /// Whether a document with this metadata fits.
    pub fn matches(&self, metadata: &Metadata) -> bool {
        let mut holds = self.conditions.iter().map(|condition| condition.holds(metadata));
        match self.logic {
            Logic::And => holds.all(|holds| holds),
            Logic::Or => self.conditions.is_empty() || holds.any(|holds| holds),
        }
    }
}

impl Condition {
    /// Whether it holds for a document with this metadata.
    pub fn holds(&self, metadata: &Metadata) -> bool {
        if let Some(operator) = self.operator.opposite_of() {
            let positive = Self { operator, ..self.clone() };
            return !positive.holds(metadata);
        }
        let values = match metadata.get(&self.key) {
            None | Some(Json::Null) => return false,
            Some(Json::Array(values)) => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
        };
        values.iter().filter(|value| !is_blank(value)).any(|value| self.fits(value))
    }

    fn fits(&self, value: &Json) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let wanted = &self.value;
        let order = || compare(value, wanted);
        match self.operator {
            Operator::Equal => order() == Equal,
            Operator::Greater => order() == Greater,
            Operator::Less => order() == Less,
            Operator::AtLeast => order() != Less,
            Operator::AtMost => order() != Greater,
            Operator::Contains => folded(value).contains(&folded(wanted)),
            Operator::StartsWith => folded(value).starts_with(&folded(wanted)),
            Operator::EndsWith => folded(value).ends_with(&folded(wanted)),
            Operator::In => match wanted {
                Json::Array(list) => list.iter().any(|one| compare(value, one) == Equal),
                Json::String(list) => list
                    .split([',', '，'])
                    .any(|one| compare(value, &Json::String(one.trim().to_owned())) == Equal),
                one => compare(value, one) == Equal,
            },
            Operator::NotEmpty => true,
            Operator::NotEqual | Operator::NotContains | Operator::NotIn | Operator::Empty => false,
        }
    }
}

fn is_blank(value: &Json) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn folded(value: &Json) -> String {
    to_text(value).trim().to_lowercase()
}

fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

fn compare(one: &Json, other: &Json) -> std::cmp::Ordering {
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        _ => folded(one).cmp(&folded(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata() -> Metadata {
        let Json::Object(map) = json!({
            "author": ["Ada", "Grace"], "year": "1952", "pages": 12, "city": "New York", "blank": " ", "none": [],
        }) else {
            panic!()
        };
        map
    }

    #[test]
    fn each_operator_means_one_thing() {
        let check = |key: &str, operator: &str, value: Json, expected: bool| {
            let operator = Operator::parse(operator).unwrap();
            let condition = Condition { key: key.to_owned(), operator, value };
            assert_eq!(condition.holds(&metadata()), expected, "{condition:?}");
        };
        check("author", "is", json!("ada"), true);
        check("author", "=", json!("Alan"), false);
        // No value may be equal, and a document without the key has none that is.
        check("author", "≠", json!("ada"), false);
        check("author", "not is", json!("Alan"), true);
        check("nothing", "≠", json!("x"), true);
        check("nothing", "=", json!("x"), false);
        check("year", ">", json!(1900), true);
        check("year", "<", json!("2000"), true);
        check("pages", ">", json!("9"), true);
        check("pages", "≥", json!(12), true);
        check("pages", "<=", json!(11.5), false);
        // What the document says holds what is given, never the other way round.
        check("city", "contains", json!("york"), true);
        check("city", "contains", json!("New York City"), false);
        check("city", "not contains", json!("paris"), true);
        check("author", "in", json!(["grace", "alan"]), true);
        check("author", "in", json!("alan, ada"), true);
        check("pages", "in", json!([1, 12]), true);
        check("author", "not in", json!(["ada"]), false);
        check("city", "start with", json!("new"), true);
        check("city", "end with", json!("new"), false);
        check("blank", "empty", Json::Null, true);
        check("none", "empty", Json::Null, true);
        check("author", "not empty", Json::Null, true);
        check("nothing", "not empty", Json::Null, false);
    }

    #[test]
    fn conditions_are_put_together() {
        let condition =
            |key: &str, value: Json| Condition { key: key.to_owned(), operator: Operator::Equal, value };
        let check = |logic: Logic, conditions: Vec<Condition>, expected: bool| {
            assert_eq!(Filter { logic, conditions }.matches(&metadata()), expected);
        };
        let (right, wrong) = (condition("author", json!("ada")), condition("nothing", json!(1)));
        check(Logic::And, vec![right.clone(), wrong.clone()], false);
        check(Logic::Or, vec![wrong.clone(), right], true);
        check(Logic::Or, vec![wrong], false);
        check(Logic::And, vec![], true);
        check(Logic::Or, vec![], true);
    }

    #[test]
    fn operators_are_written_as_they_are_read() {
        for operator in Operator::ALL {
            let text = serde_json::to_value(operator).unwrap();
            assert_eq!(Operator::parse(text.as_str().unwrap()), Some(operator));
        }
        assert_eq!(Operator::parse("like"), None);
    }
}
