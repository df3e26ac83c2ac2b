//! Assignments to variables: what a component requests, and the resulting value. The engine applies them to the then
//! current values when the node finishes, so concurrent assignments are not lost.

use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::error::{Error, Result};
use crate::reference::{Reference, Segment, Template};
use crate::value::{DEPTH_MAX, Json, depth, described, number, whole};

/// An assignment to a global or to another component's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Assignment {
    /// The target: a global, an output, or a member of one.
    pub target: Reference,
    /// The operation.
    pub operator: AssignOperator,
    /// The operand.
    pub operand: Operand,
}

/// What an assignment does to the current value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssignOperator {
    /// Replaces it with the operand.
    #[default]
    Overwrite,
    /// Like `Overwrite`, but assigning null to a text or to null yields an empty text.
    Set,
    /// Replaces it with the empty value of its type.
    Clear,
    /// Appends the operand to a list.
    Append,
    /// Appends the elements of the operand to a list.
    Extend,
    /// Removes the first element of a list.
    RemoveFirst,
    /// Removes the last element of a list.
    RemoveLast,
    /// `+=`
    Add,
    /// `-=`
    Subtract,
    /// `*=`
    Multiply,
    /// `/=`
    Divide,
}

/// The operand of an assignment. References are resolved when it is applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A value.
    Value(Json),
    /// The value of a reference, keeping its type.
    Reference(Reference),
    /// A text in which references are replaced by their values.
    Text(Template),
}

impl Operand {
    /// Returns the references that are resolved.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        let (alone, text) = match self {
            Self::Value(_) => (None, None),
            Self::Reference(reference) => (Some(reference), None),
            Self::Text(template) => (None, Some(template.references())),
        };
        alone.into_iter().chain(text.into_iter().flatten())
    }
}

impl AssignOperator {
    /// Returns whether the operation has an operand.
    pub fn takes_operand(self) -> bool {
        !matches!(self, Self::Clear | Self::RemoveFirst | Self::RemoveLast)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_overwrite(&self) -> bool {
        *self == Self::Overwrite
    }

    /// Returns the result of applying the operation to the value `old`.
    ///
    /// # Errors
    /// `Invalid` when the operation does not suit the value or the operand.
    pub fn apply(self, old: Json, operand: Json) -> Result<Json> {
        match self {
            Self::Overwrite => Ok(operand),
            Self::Set => Ok(match (operand, old) {
                // An unset variable, or a text that is set to null, becomes an empty text: prompts that use it do not
                // expect null.
                (Json::Null, Json::Null | Json::String(_)) => "".into(),
                (value, _) => value,
            }),
            Self::Clear => Ok(emptied(&old)),
            Self::Append => {
                let mut items = list(old)?;
                fits(&items, &operand)?;
                items.push(operand);
                Ok(Json::Array(items))
            }
            Self::Extend => {
                let mut items = list(old)?;
                let Json::Array(more) = operand else {
                    return Err(Error::invalid(format!(
                        "the parameter is {}, not a list",
                        described(&operand)
                    )));
                };
                for item in more {
                    fits(&items, &item)?;
                    items.push(item);
                }
                Ok(Json::Array(items))
            }
            Self::RemoveFirst => Ok(list(old)?.into_iter().skip(1).collect()),
            Self::RemoveLast => {
                let mut items = list(old)?;
                items.pop();
                Ok(Json::Array(items))
            }
            Self::Add | Self::Subtract | Self::Multiply | Self::Divide => self.calculate(&old, &operand),
        }
    }

    fn calculate(self, old: &Json, by: &Json) -> Result<Json> {
        let not_number = |value: &Json, what: &str| {
            Error::invalid(format!("the {what} is {}, not a number", described(value)))
        };
        let (Json::Number(_), Some(a)) = (old, number(old)) else { return Err(not_number(old, "variable")) };
        let b = number(by).ok_or_else(|| not_number(by, "parameter"))?;
        // The parameter may be a text, as typed into a form or produced by a template.
        let written = || by.as_str()?.trim().parse::<i64>().ok();
        let integers = old.as_i64().zip(by.as_i64().or_else(written).or_else(|| whole(b)));
        // Above 2⁵³, floating-point numbers cannot represent every integer.
        let exact = integers.and_then(|(a, b)| match self {
            Self::Add => a.checked_add(b),
            Self::Subtract => a.checked_sub(b),
            Self::Multiply => a.checked_mul(b),
            // Only if nothing remains; the remainder of a division by zero does not exist.
            _ => a.checked_rem(b).filter(|rest| *rest == 0).and_then(|_| a.checked_div(b)),
        });
        if let Some(exact) = exact {
            return Ok(exact.into());
        }
        let result = match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            // JSON cannot represent infinity.
            _ if b == 0.0 => return Err(Error::invalid("cannot divide by zero")),
            _ => a / b,
        };
        if let Some(whole) = whole(result) {
            return Ok(whole.into());
        }
        let number = serde_json::Number::from_f64(result).map(Json::Number);
        number.ok_or_else(|| Error::invalid("the result is too large for a number"))
    }
}

fn emptied(old: &Json) -> Json {
    match old {
        Json::Null => Json::Null,
        Json::Bool(_) => false.into(),
        Json::Number(_) => 0.into(),
        Json::String(_) => "".into(),
        Json::Array(_) => Json::Array(Vec::new()),
        Json::Object(_) => Json::Object(Map::new()),
    }
}

fn list(value: Json) -> Result<Vec<Json>> {
    match value {
        // A variable without a value: the first `append` starts its list.
        Json::Null => Ok(Vec::new()),
        Json::Array(items) => Ok(items),
        other => Err(Error::invalid(format!("the variable is {}, not a list", described(&other)))),
    }
}

/// All elements of a list must have the same type.
fn fits(items: &[Json], new: &Json) -> Result<()> {
    let same = |first: &Json| std::mem::discriminant(first) == std::mem::discriminant(new);
    if items.first().is_none_or(same) {
        return Ok(());
    }
    Err(Error::invalid(format!("{} doesn't fit the other elements of the list", described(new))))
}

/// Returns the place that a dotted path leads to, starting in the value of `name`. Along the way, null and the empty
/// text become objects, and missing members are added to objects.
///
/// # Errors
/// `Invalid` when a value on the way has no members, a list has no such element, or the path is too long; nothing has
/// changed then.
pub fn place<'a>(start: &'a mut Json, name: &str, path: &str) -> Result<&'a mut Json> {
    if path.is_empty() {
        return Ok(start);
    }
    // Checked before anything is created on the way, so that a rejected path changes nothing.
    if path.split('.').count() >= DEPTH_MAX {
        return Err(Error::invalid(format!(
            "`{name}` cannot have members more than {DEPTH_MAX} levels deep"
        )));
    }
    let mut at = start;
    let mut known = name.to_owned();
    for step in path.split('.') {
        // A text variable without a value starts as an empty text, but may still become an object.
        if at.is_null() || at.as_str() == Some("") {
            *at = Json::Object(Map::new());
        }
        at = match at {
            Json::Object(members) => members.entry(step.to_owned()).or_insert(Json::Null),
            Json::Array(items) => element(items, &known, step)?,
            other => {
                return Err(Error::invalid(format!(
                    "`{known}` is {}, which has no members",
                    described(other)
                ))
                .help("change the whole variable, or use a variable of type object"));
            }
        };
        known.push('.');
        known.push_str(step);
    }
    Ok(at)
}

fn element<'a>(items: &'a mut [Json], name: &str, step: &str) -> Result<&'a mut Json> {
    let count = items.len();
    let Ok(index) = step.parse::<i64>() else {
        let message = format!("`{name}` is a list of {count}: `{step}` is not an index");
        return Err(
            Error::invalid(message).help("use an index from 0, or a negative one to count from the end")
        );
    };
    // Negative indices count from the end, as they do when a list is read.
    let place =
        if index < 0 { i64::try_from(count).unwrap_or(i64::MAX).saturating_add(index) } else { index };
    let found = usize::try_from(place).ok().and_then(|place| items.get_mut(place));
    found.ok_or_else(|| {
        Error::invalid(format!("`{name}` is a list of {count}: there is no element {index}"))
            .help("`append` makes a list longer")
    })
}

/// Rejects a value that would be nested too deeply at `path`.
///
/// # Errors
/// `Invalid`.
pub fn check_depth(path: &str, value: &Json) -> Result<()> {
    let steps = if path.is_empty() { 0 } else { path.split('.').count() };
    // Counted from the variable itself: values that are each within the limit could exceed it combined.
    if steps + depth(value) > DEPTH_MAX {
        return Err(Error::invalid(format!("the value is nested more than {DEPTH_MAX} levels deep")));
    }
    Ok(())
}

/// The stored form of an assignment in journals. Older journals contain only the result, which replaces the previous
/// value.
#[derive(Serialize, Deserialize)]
struct Written {
    target: String,
    #[serde(default, skip_serializing_if = "AssignOperator::is_overwrite")]
    operator: AssignOperator,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    value: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Vec<StoredTextPart>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredTextPart {
    Text(String),
    Reference(String),
}

impl From<Written> for Assignment {
    fn from(Written { target, operator, value, reference, text }: Written) -> Self {
        let operand = match (reference, text) {
            // A journal contains at most one of them; an indirect operand takes precedence over a literal value.
            (Some(reference), _) => Operand::Reference(Reference::of_name(&reference)),
            (None, Some(parts)) => {
                let segments = parts.into_iter().map(|part| match part {
                    StoredTextPart::Text(text) => Segment::Literal(text.into()),
                    StoredTextPart::Reference(name) => Segment::Reference(Reference::of_name(&name)),
                });
                Operand::Text(Template::of(segments.collect()))
            }
            (None, None) => Operand::Value(value),
        };
        Self { target: Reference::of_name(&target), operator, operand }
    }
}

impl From<Assignment> for Written {
    fn from(Assignment { target, operator, operand }: Assignment) -> Self {
        let (mut value, mut reference, mut text) = (Json::Null, None, None);
        match operand {
            Operand::Value(json) => value = json,
            Operand::Reference(name) => reference = Some(name.to_string()),
            Operand::Text(template) => {
                let parts = template.segments().iter().map(|segment| match segment {
                    Segment::Literal(text) => StoredTextPart::Text(text.to_string()),
                    Segment::Reference(name) => StoredTextPart::Reference(name.to_string()),
                });
                text = Some(parts.collect());
            }
        }
        Self { target: target.to_string(), operator, value, reference, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations() {
        let check = |operator: AssignOperator, old: Json, operand: Json, expected: Json| {
            assert_eq!(operator.apply(old, operand).unwrap(), expected, "{operator:?}");
        };
        check(AssignOperator::Overwrite, json!("old"), json!(["b"]), json!(["b"]));
        check(AssignOperator::Set, json!(2), json!(7), json!(7));
        check(AssignOperator::Set, json!("old"), Json::Null, json!(""));
        check(AssignOperator::Set, json!(2), Json::Null, Json::Null);
        check(AssignOperator::Clear, json!(true), Json::Null, json!(false));
        check(AssignOperator::Clear, json!({"a": 1}), Json::Null, json!({}));
        check(AssignOperator::Append, json!(["a"]), json!("b"), json!(["a", "b"]));
        check(AssignOperator::Append, Json::Null, json!("x"), json!(["x"]));
        check(AssignOperator::Extend, json!(["a"]), json!(["b", "c"]), json!(["a", "b", "c"]));
        check(AssignOperator::RemoveFirst, json!([1, 2]), Json::Null, json!([2]));
        check(AssignOperator::RemoveLast, Json::Null, Json::Null, json!([]));
        check(AssignOperator::Add, json!(2), json!("3"), json!(5));
        let (one, next) = (9_007_199_254_740_992_i64, 9_007_199_254_740_993_i64);
        check(AssignOperator::Add, json!(one), json!(" 1 "), json!(next));
        check(AssignOperator::Add, json!(0), json!(next.to_string()), json!(next));
        check(AssignOperator::Add, json!(i64::MAX), json!(1), json!(9.223_372_036_854_776e18));
        check(AssignOperator::Add, json!(0), json!(i64::MAX), json!(i64::MAX));
        check(AssignOperator::Subtract, json!(2), json!(0.5), json!(1.5));
        check(AssignOperator::Divide, json!(2), json!(4), json!(0.5));
        check(AssignOperator::Divide, json!(2), json!(2), json!(1));
        check(AssignOperator::Divide, json!(next), json!(1), json!(next));
        check(AssignOperator::Divide, json!(next), json!(-1), json!(-next));
        check(AssignOperator::Divide, json!(i64::MIN), json!(-1), json!(9.223_372_036_854_776e18));
    }

    #[test]
    fn mismatched_operands_are_an_error() {
        let check = |operator: AssignOperator, old: Json, operand: Json, expected: &str| {
            let error = operator.apply(old, operand).unwrap_err().full();
            assert!(error.contains(expected), "{error}");
        };
        check(AssignOperator::Append, json!("old"), json!("x"), "not a list");
        check(AssignOperator::Append, json!(["a"]), json!(1), "doesn't fit");
        check(AssignOperator::Extend, json!(["a"]), json!("x"), "not a list");
        check(AssignOperator::Extend, json!([]), json!([1, "x"]), "doesn't fit");
        check(AssignOperator::Divide, json!(2), json!(0), "divide by zero");
        check(AssignOperator::Add, json!("old"), json!(1), "the variable is the text `old`");
        check(AssignOperator::Add, json!(2), json!("x"), "the parameter is the text `x`");
        check(AssignOperator::Multiply, json!(1e300), json!(1e300), "too large");
        check(AssignOperator::RemoveFirst, json!(2), Json::Null, "not a list");
    }

    #[test]
    fn members_are_set_only_on_values_that_can_have_them() {
        let set = |mut value: Json, path: &str| -> Result<Json> {
            *place(&mut value, "env.v", path)? = json!("x");
            Ok(value)
        };
        assert_eq!(set(json!({"a": {"b": 1}}), "a.c").unwrap(), json!({"a": {"b": 1, "c": "x"}}));
        assert_eq!(set(json!({}), "a.b").unwrap(), json!({"a": {"b": "x"}}));
        assert_eq!(set(Json::Null, "a").unwrap(), json!({"a": "x"}));
        assert_eq!(set(json!([1, {"a": 2}]), "1.a").unwrap(), json!([1, {"a": "x"}]));
        assert_eq!(set(json!([1, 2]), "0").unwrap(), json!(["x", 2]));
        assert_eq!(set(json!([1, 2]), "-1").unwrap(), json!([1, "x"]));
        let check = |value: Json, path: &str, expected: &str| {
            let error = set(value, path).unwrap_err().full();
            assert!(error.contains(expected), "{error}");
        };
        check(json!("precious"), "note", "`env.v` is the text `precious`, which has no members");
        check(json!({"a": 7}), "a.b", "`env.v.a` is the number `7`, which has no members");
        check(json!([1, 2]), "2", "`env.v` is a list of 2: there is no element 2");
        check(json!([1, 2]), "-3", "there is no element -3");
        check(json!([]), "99999999999999999999", "is not an index");
        check(json!([1, 2]), "name", "`name` is not an index");
        check(json!({}), &"a.".repeat(100_000), "levels deep");
    }

    #[test]
    fn a_value_cannot_grow_deeper_than_the_reader_allows() {
        let mut value = json!({});
        let result = (0..1_000).try_for_each(|_| {
            check_depth("a", &value)?;
            value = json!({"a": value});
            Ok::<_, Error>(())
        });
        assert!(result.unwrap_err().full().contains("levels deep"));
        assert!(serde_json::from_str::<Json>(&value.to_string()).is_ok());
    }

    #[test]
    fn assignments_in_journals() {
        let check = |json: Json| {
            let assignment: Assignment = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&assignment).unwrap(), json);
            assignment
        };
        let old = check(json!({"target": "env.n", "value": 3}));
        assert_eq!((old.operator, old.operand), (AssignOperator::Overwrite, Operand::Value(json!(3))));
        check(json!({"target": "A:x@l.0", "operator": "append", "reference": "A:y@content"}));
        check(json!({"target": "env.t", "operator": "set",
            "text": [{"reference": "env.t"}, {"text": ", "}, {"reference": "A:y@n"}]}));
        let empty: Assignment = serde_json::from_value(json!({"target": "env.n", "value": null})).unwrap();
        assert_eq!(empty.operand, Operand::Value(Json::Null));
    }
}
