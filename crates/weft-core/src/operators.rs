//! The comparison operators that conditions and filters are built from. Nothing here evaluates code: an operator is
//! one of a fixed list.

use crate::error::{Error, Result};
use crate::exact::kept;
use crate::params::{asks_for_something, is_empty};
use crate::value::{self, Json, described, number, to_text, truth};

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The text contains the text, or the list contains the element.
    Contains,
    /// The negation of `Contains`.
    NotContains,
    /// The text starts with the text.
    StartsWith,
    /// The text ends with the text.
    EndsWith,
    /// The value is empty.
    Empty,
    /// The value is not empty.
    NotEmpty,
    /// Equal after coercion.
    Equal,
    /// Not equal after coercion.
    NotEqual,
    /// The left side is greater.
    Greater,
    /// The left side is less.
    Less,
    /// The left side is greater or equal.
    GreaterOrEqual,
    /// The left side is less or equal.
    LessOrEqual,
    /// The left side is an element of the list on the right, or a part of its text.
    In,
    /// The negation of `In`.
    NotIn,
}

/// Every operator with its spellings in canvases; the first spelling is the one displayed.
const SPELLINGS: [(Operator, &[&str]); 14] = [
    (Operator::Contains, &["contains"]),
    (Operator::NotContains, &["not contains"]),
    (Operator::StartsWith, &["start with", "starts with"]),
    (Operator::EndsWith, &["end with", "ends with"]),
    (Operator::Empty, &["empty"]),
    (Operator::NotEmpty, &["not empty"]),
    (Operator::Equal, &["=", "==", "is"]),
    (Operator::NotEqual, &["≠", "!=", "is not"]),
    (Operator::Greater, &[">"]),
    (Operator::Less, &["<"]),
    (Operator::GreaterOrEqual, &["≥", ">="]),
    (Operator::LessOrEqual, &["≤", "<="]),
    (Operator::In, &["in"]),
    (Operator::NotIn, &["not in"]),
];

impl Operator {
    /// Returns the operator with this spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        SPELLINGS.iter().find(|(_, names)| names.contains(&text)).map(|(operator, _)| *operator)
    }

    /// Lists every operator, for a message.
    pub fn listed() -> String {
        value::listed(SPELLINGS.iter().map(|(_, names)| names[0]))
    }

    /// Returns whether it ignores the right side.
    pub fn is_unary(self) -> bool {
        matches!(self, Self::Empty | Self::NotEmpty)
    }

    /// Returns the spelling to display.
    pub fn spelled(self) -> &'static str {
        SPELLINGS.iter().find(|(operator, _)| *operator == self).map_or("", |(_, names)| names[0])
    }
}

/// Compares with coercion: as numbers if both sides look like numbers, as booleans if both are words for one,
/// otherwise as text. Of two texts, one of digits with a leading zero is equal only to the same text. Searching in
/// texts ignores case; equality does not. Null, false, 0, and empty texts, lists and objects count as empty.
pub fn holds(left: &Json, operator: Operator, right: &Json) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = || order(left, right);
    match operator {
        Operator::Empty => !asks_for_something(left),
        Operator::NotEmpty => asks_for_something(left),
        Operator::Contains => contains(left, right),
        Operator::NotContains => !contains(left, right),
        Operator::In => is_in(left, right),
        Operator::NotIn => !is_in(left, right),
        Operator::StartsWith => folded(left).starts_with(&folded(right)),
        Operator::EndsWith => folded(left).ends_with(&folded(right)),
        Operator::Equal => equal(left, right),
        Operator::NotEqual => !equal(left, right),
        Operator::Greater => order() == Some(Greater),
        Operator::Less => order() == Some(Less),
        Operator::GreaterOrEqual => matches!(order(), Some(Greater | Equal)),
        Operator::LessOrEqual => matches!(order(), Some(Less | Equal)),
    }
}

/// Compares according to the type of the left side, for the conditions of a Loop. A constant is coerced to that type.
///
/// # Errors
/// Fails when the operator is not valid for the type, or the right side cannot be coerced.
pub fn holds_typed(left: &Json, operator: Operator, right: &Json) -> Result<bool> {
    if let Some(holds) = typed(left, operator, right) {
        return Ok(holds);
    }
    let (spelled, left_words) = (operator.spelled(), described(left));
    // If the operator can compare the value with one of its own type, the right side is at fault.
    if typed(left, operator, left).is_some() {
        let message =
            format!("the operator `{spelled}` cannot compare {left_words} with {}", described(right));
        return Err(Error::invalid(message).help("compare with a value of the variable's type"));
    }
    let message = format!("the operator `{spelled}` cannot be applied to {left_words}");
    Err(Error::invalid(message).help("choose an operator that fits the variable's type"))
}

/// Compares according to the type of the left side, if that is possible.
fn typed(left: &Json, operator: Operator, right: &Json) -> Option<bool> {
    match (left, operator) {
        // A variable without a value has no type yet: a Loop that waits for one must not fail in its first round.
        (Json::Null, operator) => Some(operator == Operator::Empty),
        // A number is never empty, not even 0, and neither is a boolean.
        (Json::Number(_) | Json::Bool(_), Operator::Empty) => Some(false),
        (Json::Number(_) | Json::Bool(_), Operator::NotEmpty) => Some(true),
        (_, operator) if operator.is_unary() => Some(holds(left, operator, right)),
        (Json::Number(_), Operator::Equal | Operator::NotEqual) if number(right).is_some() => {
            Some(holds(left, operator, right))
        }
        (
            Json::Number(_),
            Operator::Greater | Operator::Less | Operator::GreaterOrEqual | Operator::LessOrEqual,
        ) if number(right).is_some() => Some(holds(left, operator, right)),
        (Json::Bool(flag), Operator::Equal | Operator::NotEqual) => {
            Some((*flag == truth(right)?) == (operator == Operator::Equal))
        }
        (
            Json::String(_),
            Operator::Contains | Operator::NotContains | Operator::StartsWith | Operator::EndsWith,
        ) => Some(holds_as_text(left, operator, &to_text(right))),
        (Json::String(text), Operator::Equal) => Some(*text == to_text(right)),
        (Json::String(text), Operator::NotEqual) => Some(*text != to_text(right)),
        (Json::Array(_), Operator::Contains | Operator::NotContains) => Some(holds(left, operator, right)),
        (Json::Array(_), Operator::Equal | Operator::NotEqual) => {
            let right = parsed_list(right);
            Some((*left == right) == (operator == Operator::Equal))
        }
        _ => None,
    }
}

/// Compares text forms case-sensitively, for filters of lists and objects. Ordering and membership operators compare
/// as in [`holds`].
pub fn holds_as_text(value: &Json, operator: Operator, right: &str) -> bool {
    let left = to_text(value);
    match operator {
        Operator::Contains => left.contains(right),
        Operator::NotContains => !left.contains(right),
        Operator::StartsWith => left.starts_with(right),
        Operator::EndsWith => left.ends_with(right),
        Operator::Equal => left == right,
        Operator::NotEqual => left != right,
        // An empty list or object is empty, although its text form is not.
        Operator::Empty => is_empty(value),
        Operator::NotEmpty => !is_empty(value),
        Operator::Greater
        | Operator::Less
        | Operator::GreaterOrEqual
        | Operator::LessOrEqual
        | Operator::In
        | Operator::NotIn => holds(value, operator, &Json::from(right)),
    }
}

fn parsed_list(value: &Json) -> Json {
    match value {
        Json::String(text) => serde_json::from_str(&kept(text)).unwrap_or_else(|_| value.clone()),
        other => other.clone(),
    }
}

fn equal(left: &Json, right: &Json) -> bool {
    // Two postal codes or telephone numbers, of which only one has a leading zero, differ.
    if let (Json::String(left), Json::String(right)) = (left, right)
        && (is_code(left) || is_code(right))
    {
        return left.trim() == right.trim();
    }
    if let Some(order) = numeric_order(left, right) {
        return order.is_eq();
    }
    if let (Some(a), Some(b)) = (truth_word(left), truth_word(right)) {
        return a == b;
    }
    left == right || to_text(left) == to_text(right)
}

/// Whether a text consists of digits that begin with a superfluous zero, as those of codes do.
fn is_code(text: &str) -> bool {
    let digits = text.trim();
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Numbers are not words for booleans here, so 1 does not equal `true`.
fn truth_word(value: &Json) -> Option<bool> {
    if value.is_number() { None } else { truth(value) }
}

fn order(left: &Json, right: &Json) -> Option<std::cmp::Ordering> {
    // Null is neither less nor greater than anything: an unset variable satisfies no bound.
    if left.is_null() || right.is_null() {
        return None;
    }
    // ISO dates sort correctly as texts.
    numeric_order(left, right).or_else(|| Some(to_text(left).cmp(&to_text(right))))
}

/// Returns the order of two numbers, or of texts that are numbers. Integers are compared exactly: as floating-point
/// numbers, two long ids could be equal.
fn numeric_order(left: &Json, right: &Json) -> Option<std::cmp::Ordering> {
    if let (Some(a), Some(b)) = (integer(left), integer(right)) {
        return Some(a.cmp(&b));
    }
    number(left)?.partial_cmp(&number(right)?)
}

/// Returns a number that is written without a fraction.
fn integer(value: &Json) -> Option<i128> {
    match value {
        Json::Number(number) => number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn contains(whole: &Json, part: &Json) -> bool {
    match whole {
        Json::Array(items) => items.iter().any(|item| equal(item, part)),
        // A model that was asked for a list returns it as JSON text.
        Json::String(text) if text.trim_start().starts_with('[') => match parsed_list(whole) {
            Json::Array(items) => items.iter().any(|item| equal(item, part)),
            _ => folded(whole).contains(&folded(part)),
        },
        text => folded(text).contains(&folded(part)),
    }
}

/// An unset variable is not part of any text, although its text form, which is empty, is.
fn is_in(part: &Json, whole: &Json) -> bool {
    !(part.is_null() && whole.is_string()) && contains(whole, part)
}

fn folded(value: &Json) -> String {
    to_text(value).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comparisons_with_coercion() {
        let check = |left: Json, operator: &str, right: Json, expected: bool| {
            let operator = Operator::parse(operator).unwrap();
            assert_eq!(holds(&left, operator, &right), expected, "{left} {operator:?} {right}");
        };
        check(json!(1), "=", json!("1"), true);
        check(json!("1.0"), "=", json!(1), true);
        check(json!(true), "=", json!("True"), true);
        check(json!(1), "=", json!(true), false);
        check(json!("a"), "=", json!("A"), false);
        check(json!("01067"), "=", json!("1067"), false);
        check(json!("1067"), "in", json!(["01067"]), false);
        check(json!("01067"), "=", json!(" 01067 "), true);
        check(json!("007"), "=", json!(7), true);
        check(json!("0"), "=", json!("0.0"), true);
        check(json!("a"), "≠", json!("b"), true);
        check(json!(15), "contains", json!("5"), true);
        check(json!("Hello World"), "contains", json!("wORLD"), true);
        check(json!(null), "contains", json!("x"), false);
        check(json!("Hello"), "start with", json!("hE"), true);
        check(json!("Hello"), "end with", json!("LO"), true);
        check(json!(0), "empty", json!(null), true);
        check(json!([]), "empty", json!(""), true);
        check(json!(15), "not empty", json!(""), true);
        check(json!("10"), ">", json!("9"), true);
        check(json!("b"), ">", json!("a"), true);
        check(json!(null), ">", json!(1), false);
        check(json!(3), "≤", json!("3"), true);
        check(json!("b"), "in", json!(["a", "b"]), true);
        check(json!(2), "in", json!("[1, 2]"), true);
        check(json!("ell"), "in", json!("Hello"), true);
        check(json!("z"), "not in", json!(["a", "b"]), true);
        check(json!(null), "in", json!("Hello"), false);
        check(json!(null), "not in", json!("Hello"), true);
        check(json!(["a", 2]), "contains", json!("2"), true);
        check(json!({"a": 1}), "contains", json!("a"), true);
        check(json!({"value": "abc"}), "contains", json!("ABC"), true);
        check(json!({"value": "abc"}), "not contains", json!("abcd"), true);
    }

    #[test]
    fn long_ids_are_distinguished() {
        let check = |left: Json, operator: &str, right: Json, expected: bool| {
            let operator = Operator::parse(operator).unwrap();
            assert_eq!(holds(&left, operator, &right), expected, "{left} {operator:?} {right}");
        };
        let (one, next) = (9_007_199_254_740_992_u64, 9_007_199_254_740_993_u64);
        for (left, right) in [
            (json!(one), json!(next)),
            (json!(one.to_string()), json!(next)),
            (json!("98765432109876543210"), json!("98765432109876543211")),
        ] {
            check(left.clone(), "=", right.clone(), false);
            check(left.clone(), "≠", right.clone(), true);
            check(left.clone(), "<", right.clone(), true);
            check(left.clone(), "≥", right.clone(), false);
            check(left.clone(), "in", json!([right]), false);
            check(left.clone(), "=", json!(format!(" {} ", to_text(&left))), true);
        }
        check(json!("[98765432109876543210]"), "contains", json!("98765432109876543211"), false);
        check(json!("[98765432109876543210]"), "contains", json!("98765432109876543210"), true);
        check(json!(u64::MAX), ">", json!(i64::MIN), true);
        check(json!("1e20"), "=", json!("100000000000000000000"), true);
        check(json!("1.5"), ">", json!(1), true);
        assert!(!holds_typed(&json!(one), Operator::Equal, &json!(next.to_string())).unwrap());
    }

    #[test]
    fn filters_compare_as_text_and_by_order() {
        let check = |left: Json, operator: &str, right: &str, expected: bool| {
            let operator = Operator::parse(operator).unwrap();
            assert_eq!(holds_as_text(&left, operator, right), expected, "{left} {operator:?} {right}");
        };
        check(json!("Hello"), "contains", "hell", false);
        check(json!(7), "=", "7", true);
        check(json!(10), ">", "9", true);
        check(json!("10"), ">", "9", true);
        check(json!(9), ">", "9", false);
        check(json!(9), "≥", "9", true);
        check(json!(-1.5), "<", "0", true);
        check(json!("b"), "<=", "a", false);
        check(json!(null), ">", "0", false);
        check(json!(2), "in", "[1, 2]", true);
        check(json!("x"), "not in", "[\"a\"]", true);
        for (value, expected) in [
            (json!(null), true),
            (json!(""), true),
            (json!([]), true),
            (json!({}), true),
            (json!(0), false),
            (json!(false), false),
            (json!([null]), false),
        ] {
            check(value.clone(), "empty", "", expected);
            check(value, "not empty", "", !expected);
        }
    }

    #[test]
    fn an_impossible_comparison_blames_the_side_at_fault() {
        let check = |left: Json, operator: &str, right: Json, expected: &str| {
            let operator = Operator::parse(operator).unwrap();
            let error = holds_typed(&left, operator, &right).unwrap_err().full();
            assert!(error.contains(expected), "{left} {operator:?} {right}: {error}");
        };
        check(json!(0), "≥", json!("three"), "`≥` cannot compare the number `0` with the text `three`");
        check(json!(true), "is", json!("perhaps"), "compare with a value of the variable's type");
        check(json!(0), "contains", json!("three"), "`contains` cannot be applied to the number `0`");
        check(json!({"a": 1}), "=", json!({"a": 1}), "choose an operator that fits the variable's type");
    }

    #[test]
    fn loop_conditions_depend_on_the_variable_type() {
        let check = |left: Json, operator: &str, right: Json, expected: Option<bool>| {
            let operator = Operator::parse(operator).unwrap();
            assert_eq!(holds_typed(&left, operator, &right).ok(), expected, "{left} {operator:?} {right}");
        };
        check(json!(false), "is", json!("false"), Some(true));
        check(json!(false), "is not", json!(true), Some(true));
        check(json!(true), "contains", json!("t"), None);
        check(json!(0), "empty", json!(null), Some(false));
        check(json!(0), "not empty", json!(null), Some(true));
        check(json!(3), "≥", json!("3"), Some(true));
        check(json!(3), "=", json!("x"), None);
        check(json!("Done"), "contains", json!("done"), Some(false));
        check(json!("Done"), "is", json!("Done"), Some(true));
        check(json!([1, 2]), "contains", json!("2"), Some(true));
        check(json!([1]), "is", json!("[1]"), Some(true));
        check(json!({}), "empty", json!(null), Some(true));
        check(json!({"a": 1}), "contains", json!("a"), None);
        check(json!(null), "not empty", json!(null), Some(false));
        check(json!(null), "empty", json!(null), Some(true));
    }
}
