//! What a value has to be, by the kind of its field. As lenient as reading is: a number may be a text that
//! contains one, and a list of one text may be written as the text.

use weft_core::Json;
use weft_core::field::{AnyField as _, Field, FieldSpec, Kind};
use weft_core::suggest::{did_you_mean, misspelled};
use weft_core::value::{listed, number, truth, whole};

/// Returns what a value must be if it is of another kind; `None` for a valid one. A null or blank value is
/// always valid. Inside objects, a template that is compared, set or sent may be any value instead of a text;
/// references inside a list or an object are not resolved.
pub(super) fn mismatch(kind: Kind, value: &Json, others: UnlistedWords) -> Option<String> {
    if value.is_null() || is_blank(value) {
        return None;
    }
    let suits = match kind {
        Kind::Any => true,
        Kind::Template if others == UnlistedWords::AreWrong => value.is_string() || !has_braces(value),
        Kind::Text | Kind::Template | Kind::Choice(_) => value.is_string(),
        Kind::Reference => value.is_string(),
        Kind::Flag => truth(value).is_some(),
        Kind::Whole { min, max } => {
            number(value).and_then(whole).is_some_and(|number| (min..=max).contains(&number))
        }
        Kind::Number { min, max } => number(value).is_some_and(|number| (min..=max).contains(&number)),
        Kind::Texts => is_text_or_list(value),
        Kind::List => value.is_array() || value.is_string(),
        Kind::Targets => is_text_or_list(value),
        Kind::Objects(_) => value.is_array(),
        Kind::Object(_) | Kind::Values => is_object(value),
        Kind::Named(_) => value.is_object(),
    };
    (!suits).then(|| described(kind))
}

fn described(kind: Kind) -> String {
    match kind {
        Kind::Any => "a value".to_owned(),
        Kind::Text | Kind::Template | Kind::Choice(_) => "a text".to_owned(),
        Kind::Reference => "a reference, such as `Agent:Writer@content`".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Whole { min: i64::MIN, .. } | Kind::Whole { max: i64::MAX, .. } => "a whole number".to_owned(),
        Kind::Whole { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Number { min, max } if min.is_finite() && max.is_finite() => {
            format!("a number from {min} to {max}")
        }
        Kind::Number { .. } => "a number".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::List => "a list".to_owned(),
        Kind::Targets => "a list of ids of components".to_owned(),
        Kind::Objects([]) => "a list of objects".to_owned(),
        Kind::Objects(members) => format!("a list, each entry {}", of_members(members)),
        Kind::Object(members) => of_members(members),
        Kind::Named([]) | Kind::Values => "an object of names and values".to_owned(),
        Kind::Named(members) => format!("an object of names, each {}", of_members(members)),
    }
}

/// Maximum number of members listed in a message.
const LISTED_MAX: usize = 4;

/// Describes an object with these members, for messages.
pub(super) fn of_members(members: &[Field]) -> String {
    let names = listed(members.iter().take(LISTED_MAX).map(|member| member.spec().name));
    match members.len() {
        0 => "an object".to_owned(),
        1..=LISTED_MAX => format!("an object with {names}"),
        _ => format!("an object with {names} and others"),
    }
}

/// A value that is not one of the choices offered.
pub(super) struct NoChoice<'a> {
    /// The value.
    pub value: &'a str,
    /// Which choices there are.
    pub help: String,
}

/// How words other than the offered choices are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnlistedWords {
    /// They are wrong.
    AreWrong,
    /// They may be understood: only misspelled choices are wrong.
    MayBeRead,
}

/// Returns the value if it is not one of the choices.
pub(super) fn no_choice<'a>(
    spec: &FieldSpec,
    value: &'a Json,
    others: UnlistedWords,
) -> Option<NoChoice<'a>> {
    let (Kind::Choice(choices), Json::String(text)) = (spec.kind, value) else { return None };
    let text = text.trim();
    let values = || choices.iter().map(|choice| choice.value).filter(|value| !value.is_empty());
    let mut known = values().chain(spec.knows.iter().copied());
    // The value of a reference is known only when the node runs.
    if text.is_empty() || text.contains('{') || known.any(|value| value.eq_ignore_ascii_case(text)) {
        return None;
    }
    let meant = misspelled(text, values());
    if meant.is_none() && others == UnlistedWords::MayBeRead {
        return None;
    }
    let help = meant.map_or_else(|| format!("use one of {}", listed(values())), did_you_mean);
    Some(NoChoice { value: text, help })
}

fn is_blank(value: &Json) -> bool {
    value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// Whether the value is a text or a list of texts.
fn is_text_or_list(value: &Json) -> bool {
    value.is_string() || value.as_array().is_some_and(|items| items.iter().all(Json::is_string))
}

/// Whether a text inside the value may contain a reference.
fn has_braces(value: &Json) -> bool {
    match value {
        Json::String(text) => text.contains('{'),
        Json::Array(items) => items.iter().any(has_braces),
        Json::Object(members) => members.values().any(has_braces),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Whether the value is an object, possibly as JSON text.
fn is_object(value: &Json) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Json>(text).is_ok_and(|value| value.is_object());
    value.is_object() || value.as_str().is_some_and(parsed)
}
