//! Conditions on the metadata of documents. They mean the same wherever they are evaluated.
//!
//! A value may be a text, a number, or a list of either; a list is the set of values that a document has for a key. A
//! positive condition holds if any of the values matches. A negative condition is the exact negation of its positive
//! counterpart: `≠` holds if no value is equal, and also for a document that lacks the key.

use serde::{Deserialize, Serialize};

use crate::value::{Json, to_text};

/// Metadata of a document: maps keys to a text, a number, or a list of them.
pub type Metadata = serde_json::Map<String, Json>;

/// A set of conditions and how they are combined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    /// Whether all conditions must hold or only one.
    #[serde(default)]
    pub logic: Logic,
    /// The conditions. Without any, every document matches.
    pub conditions: Vec<Condition>,
}

/// How conditions are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Logic {
    /// All must hold.
    #[default]
    And,
    /// At least one must hold.
    Or,
}

/// A condition on one metadata key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// The key.
    pub key: String,
    /// The comparison.
    pub operator: FilterOperator,
    /// The value to compare with; ignored by [`FilterOperator::Empty`] and [`FilterOperator::NotEmpty`].
    #[serde(default)]
    pub value: Json,
}

/// A comparison. Texts are compared case-insensitively. If both values can be read as numbers they are compared as
/// numbers, integers exactly; otherwise as texts, which orders ISO dates correctly. A text written like a code, with
/// leading zeros or an exponent (`007`, `1e3`), is read as a number for ordering but as a text for equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterOperator {
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
    /// The document's value contains the given text.
    #[serde(rename = "contains")]
    Contains,
    /// It does not contain it.
    #[serde(rename = "not contains")]
    NotContains,
    /// The document's value is one of the given values: a list, or a comma-separated text.
    #[serde(rename = "in")]
    In,
    /// It is not one of them.
    #[serde(rename = "not in")]
    NotIn,
    /// The document's value starts with the given text.
    #[serde(rename = "start with")]
    StartsWith,
    /// It ends with it.
    #[serde(rename = "end with")]
    EndsWith,
    /// The document has no value for the key.
    #[serde(rename = "empty")]
    Empty,
    /// The document has a value for the key.
    #[serde(rename = "not empty")]
    NotEmpty,
}

impl FilterOperator {
    /// Every operator, in the order used in the documentation.
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

    /// Parses an operator in any of the spellings that clients use.
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

    /// Returns the operator that this one negates.
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
    /// Returns whether a document with this metadata matches.
    pub fn matches(&self, metadata: &Metadata) -> bool {
        let mut holds = self.conditions.iter().map(|condition| condition.holds(metadata));
        match self.logic {
            Logic::And => holds.all(|holds| holds),
            // Without conditions everything matches, however they would be combined.
            Logic::Or => self.conditions.is_empty() || holds.any(|holds| holds),
        }
    }
}

impl Condition {
    /// Returns whether it holds for a document with this metadata.
    pub fn holds(&self, metadata: &Metadata) -> bool {
        if let Some(operator) = self.operator.opposite_of() {
            let positive = Self { operator, ..self.clone() };
            // Negates the whole condition, not the comparison with each value: `≠` holds only if no value is equal.
            return !positive.holds(metadata);
        }
        let values = match metadata.get(&self.key) {
            None | Some(Json::Null) => return false,
            Some(Json::Array(values)) => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
        };
        // A blank value counts as none, so that `empty` and its negation agree on it.
        values.iter().filter(|value| !is_blank(value)).any(|value| self.fits(value))
    }

    fn fits(&self, value: &Json) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let wanted = &self.value;
        let order = || compare(value, wanted, ComparisonKind::Order);
        let same = |one: &Json| compare(value, one, ComparisonKind::Equality) == Equal;
        match self.operator {
            FilterOperator::Equal => same(wanted),
            FilterOperator::Greater => order() == Greater,
            FilterOperator::Less => order() == Less,
            FilterOperator::AtLeast => order() != Less,
            FilterOperator::AtMost => order() != Greater,
            FilterOperator::Contains => folded(value).contains(&folded(wanted)),
            FilterOperator::StartsWith => folded(value).starts_with(&folded(wanted)),
            FilterOperator::EndsWith => folded(value).ends_with(&folded(wanted)),
            FilterOperator::In => match wanted {
                Json::Array(list) => list.iter().any(same),
                Json::String(list) => {
                    // People type such lists, and Chinese keyboards produce the full-width comma.
                    list.split([',', '，']).any(|one| same(&Json::String(one.trim().to_owned())))
                }
                one => same(one),
            },
            FilterOperator::NotEmpty => true,
            FilterOperator::NotEqual
            | FilterOperator::NotContains
            | FilterOperator::NotIn
            | FilterOperator::Empty => false,
        }
    }
}

fn is_blank(value: &Json) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn folded(value: &Json) -> String {
    to_text(value).trim().to_lowercase()
}

/// The purpose of a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ComparisonKind {
    Equality,
    Order,
}

/// A number, with the precision it was written in.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    fn of(value: &Json, asked: ComparisonKind) -> Option<Self> {
        match value {
            Json::Number(number) => {
                // `i128` covers both integer types of JSON. Large ids differ only in their last digits, so they must
                // not be rounded.
                let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
                whole.map(Self::Whole).or_else(|| number.as_f64().map(Self::Real))
            }
            Json::String(text) => Self::read(text.trim(), asked),
            _ => None,
        }
    }

    fn read(text: &str, asked: ComparisonKind) -> Option<Self> {
        if let Ok(whole) = text.parse() {
            return (asked == ComparisonKind::Order || !is_code(text)).then_some(Self::Whole(whole));
        }
        // With more digits than an integer can hold, distinct numbers would round to the same float.
        let exact = asked == ComparisonKind::Order || (!is_code(text) && text.contains('.'));
        text.parse().ok().filter(|real: &f64| exact && real.is_finite()).map(Self::Real)
    }

    fn real(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "beside a fraction")]
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }
}

/// Returns whether a number is written like a code: with leading zeros or an exponent.
fn is_code(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    let zeros = digits.strip_prefix('0').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    zeros || digits.contains(['e', 'E'])
}

fn compare(one: &Json, other: &Json, asked: ComparisonKind) -> std::cmp::Ordering {
    match (Number::of(one, asked), Number::of(other, asked)) {
        (Some(Number::Whole(one)), Some(Number::Whole(other))) => one.cmp(&other),
        (Some(one), Some(other)) => {
            one.real().partial_cmp(&other.real()).unwrap_or(std::cmp::Ordering::Equal)
        }
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
    fn each_operator_has_one_meaning() {
        let check = |key: &str, operator: &str, value: Json, expected: bool| {
            let operator = FilterOperator::parse(operator).unwrap();
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
        // The document's value contains the given one, never the other way round.
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
    fn numbers_compare_exactly_and_codes_as_text() {
        let check = |value: Json, operator: &str, wanted: Json, expected: bool| {
            let metadata = Metadata::from_iter([("k".to_owned(), value)]);
            let operator = FilterOperator::parse(operator).unwrap();
            let condition = Condition { key: "k".to_owned(), operator, value: wanted };
            assert_eq!(condition.holds(&metadata), expected, "{metadata:?} {condition:?}");
        };
        let id = json!("1234567890123456789");
        check(id.clone(), "=", json!("1234567890123456790"), false);
        check(id.clone(), "=", json!(1_234_567_890_123_456_789_i64), true);
        check(id.clone(), "≠", json!(1_234_567_890_123_456_790_i64), true);
        check(id.clone(), "in", json!("1234567890123456788, 1234567890123456789"), true);
        check(id.clone(), "in", json!([1_234_567_890_123_456_788_i64]), false);
        check(id, "<", json!("1234567890123456790"), true);
        let long = "9".repeat(50);
        check(json!(long), "=", json!(format!("{}8", "9".repeat(49))), false);
        check(json!(long), "=", json!(long), true);
        check(json!(long), ">", json!(7), true);
        // Codes are texts, unless their order is compared.
        check(json!("007"), "=", json!(7), false);
        check(json!("007"), "=", json!("007"), true);
        check(json!("1e3"), "=", json!("1000"), false);
        check(json!("1e3"), ">", json!("999"), true);
        check(json!("007"), "≤", json!(7), true);
        // Everything else is a number as before.
        check(json!("12.50"), "=", json!(12.5), true);
        check(json!("12.0"), "=", json!(12), true);
        check(json!(" 12 "), "=", json!(12), true);
        check(json!("-0"), "=", json!(0), true);
        check(json!("0.5"), "=", json!(0.5), true);
        check(json!(1e3), "=", json!("1000"), true);
        check(json!("inf"), ">", json!("abc"), true);
    }

    #[test]
    fn conditions_are_combined() {
        let condition = |key: &str, value: Json| Condition {
            key: key.to_owned(),
            operator: FilterOperator::Equal,
            value,
        };
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
    fn operators_round_trip() {
        for operator in FilterOperator::ALL {
            let text = serde_json::to_value(operator).unwrap();
            assert_eq!(FilterOperator::parse(text.as_str().unwrap()), Some(operator));
        }
        assert_eq!(FilterOperator::parse("like"), None);
    }
}
