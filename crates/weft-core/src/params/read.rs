//! Reads the values of fields by their types. Canvases are written by many editors and by hand: differing spellings
//! are coerced, and values that cannot be coerced are reported with their location.

use crate::field::{FieldSpec, Kind, Preset};
use crate::params::{ParamProblem, Params, is_empty};
use crate::reference::{Reference, Template};
use crate::value::{Json, described, number as numeric, shortened, to_text, truth, whole};

/// Maximum number of characters of a component id in a message.
const COMPONENT_CHARS_MAX: usize = 100;

fn preset_text(spec: &FieldSpec) -> &'static str {
    match spec.default {
        Preset::Text(text) => text,
        Preset::Nothing | Preset::Flag(_) | Preset::Whole(_) | Preset::Number(_) => "",
    }
}

fn given_text(params: &mut Params<'_>, spec: &FieldSpec) -> Option<String> {
    let (pointer, value) = params.found(spec)?;
    match value {
        // Some editors write an empty object or list for a field that was not filled in.
        Json::Object(_) | Json::Array(_) if is_empty(value) => None,
        Json::Object(_) | Json::Array(_) => {
            let message = format!("must be a text, and is {}", described(value));
            let help = match value {
                Json::Array(items) => instead_of_list(items),
                _ => "write one text; refer to the output of a component in braces, such as `{begin@name}`"
                    .to_owned(),
            };
            params.problem(ParamProblem::new(pointer, message).help(help));
            None
        }
        value => Some(to_text(value)),
    }
}

/// Suggests what to write instead of a list where a text is needed.
fn instead_of_list(items: &[Json]) -> String {
    if let [Json::String(_)] = items {
        return "write the text alone, without the brackets of a list".to_owned();
    }
    // Older canvases list the components whose results are read; those results had no names.
    let Some(component) = items.iter().find_map(|item| item.get("component_id")?.as_str()) else {
        return "write one text in place of the list".to_owned();
    };
    let component = shortened(component, COMPONENT_CHARS_MAX);
    let output = if component.contains('@') { "" } else { "@content" };
    format!(
        "a list of components is the form used before v0.20: refer to an output in braces, such as \
         `{{{component}{output}}}`, or `{{sys.query}}` for the question"
    )
}

pub(crate) fn text(params: &mut Params<'_>, spec: &FieldSpec) -> String {
    given_text(params, spec).unwrap_or_else(|| preset_text(spec).to_owned())
}

pub(crate) fn template(params: &mut Params<'_>, spec: &FieldSpec) -> Template {
    let text = given_text(params, spec).filter(|text| !text.is_empty());
    Template::parse_value(text.as_deref().unwrap_or(preset_text(spec)), params.source.names())
}

pub(crate) fn reference(params: &mut Params<'_>, spec: &FieldSpec) -> Option<Reference> {
    let (pointer, _) = params.found(spec)?;
    let text = given_text(params, spec).filter(|text| !text.trim().is_empty())?;
    params.reference_at(pointer, &text)
}

pub(crate) fn needed_reference(params: &mut Params<'_>, spec: &FieldSpec) -> Option<Reference> {
    let found = params.found(spec).map(|(_, value)| value);
    if found.is_none_or(|value| value.as_str().is_some_and(|text| text.trim().is_empty())) {
        let problem = ParamProblem::new(Params::pointer_of(spec), "is missing");
        params.problem(
            problem.help("refer to an output of an earlier component or to a global, such as `sys.query`"),
        );
        return None;
    }
    reference(params, spec)
}

pub(crate) fn optional_flag(params: &mut Params<'_>, spec: &FieldSpec) -> Option<bool> {
    let (pointer, value) = params.found(spec)?;
    // As for numbers: an editor's empty field.
    if value.as_str().is_some_and(|text| text.trim().is_empty()) {
        return None;
    }
    let flag = truth(value);
    if flag.is_none() {
        params.problem(ParamProblem::new(
            pointer,
            format!("must be true or false, and is {}", described(value)),
        ));
    }
    flag
}

pub(crate) fn flag(params: &mut Params<'_>, spec: &FieldSpec) -> bool {
    optional_flag(params, spec).unwrap_or(spec.default == Preset::Flag(true))
}

/// Returns a number, also if it is written as text; an empty text counts as absent.
fn given_number(params: &mut Params<'_>, spec: &FieldSpec) -> Option<(String, f64)> {
    let (pointer, value) = params.found(spec)?;
    // Editors clear a number field by writing an empty text.
    if value.as_str().is_some_and(|text| text.trim().is_empty()) {
        return None;
    }
    match numeric(value) {
        Some(number) => Some((pointer, number)),
        None => {
            let message = format!("must be {}, and is {}", number_of(spec.kind), described(value));
            params.problem(ParamProblem::new(pointer, message));
            None
        }
    }
}

/// Names the numbers that a field accepts.
fn number_of(kind: Kind) -> String {
    match kind {
        Kind::Number { min, max } if min.is_finite() && max.is_finite() => {
            format!("a number from {min} to {max}")
        }
        Kind::Whole { min, max } if min > i64::MIN && max < i64::MAX => {
            format!("a number from {min} to {max}")
        }
        _ => "a number".to_owned(),
    }
}

pub(crate) fn number(params: &mut Params<'_>, spec: &FieldSpec) -> Option<f64> {
    let (pointer, number) = given_number(params, spec)?;
    let Kind::Number { min, max } = spec.kind else { return Some(number) };
    // NaN is in no range, so it is rejected as well.
    if (min..=max).contains(&number) {
        return Some(number);
    }
    params.problem(ParamProblem::new(pointer, format!("must be from {min} to {max}, and is {number}")));
    None
}

pub(crate) fn number_or(params: &mut Params<'_>, spec: &FieldSpec) -> f64 {
    let default = match spec.default {
        Preset::Number(default) => default,
        Preset::Nothing | Preset::Flag(_) | Preset::Whole(_) | Preset::Text(_) => 0.0,
    };
    number(params, spec).unwrap_or(default)
}

pub(crate) fn seconds(params: &mut Params<'_>, spec: &FieldSpec) -> Option<u64> {
    let seconds = number(params, spec)?;
    // Fractions of a second make no difference to a person.
    whole(seconds.ceil()).and_then(|seconds| u64::try_from(seconds).ok())
}

pub(crate) fn any_whole(params: &mut Params<'_>, spec: &FieldSpec) -> Option<i64> {
    given_number(params, spec).and_then(|(_, number)| whole(number))
}

pub(crate) fn optional_count(params: &mut Params<'_>, spec: &FieldSpec) -> Option<usize> {
    let (pointer, number) = given_number(params, spec)?;
    let Kind::Whole { min, max } = spec.kind else { return None };
    let within = whole(number).filter(|number| (min..=max).contains(number));
    let count = within.and_then(|number| usize::try_from(number).ok());
    if count.is_none() {
        let message = format!("must be a whole number from {min} to {max}, and is {number}");
        params.problem(ParamProblem::new(pointer, message));
    }
    count
}

pub(crate) fn count(params: &mut Params<'_>, spec: &FieldSpec) -> usize {
    let default = match spec.default {
        Preset::Whole(default) => usize::try_from(default).unwrap_or_default(),
        Preset::Nothing | Preset::Flag(_) | Preset::Number(_) | Preset::Text(_) => 0,
    };
    optional_count(params, spec).unwrap_or(default)
}

pub(crate) fn texts(params: &mut Params<'_>, spec: &FieldSpec) -> Vec<String> {
    let Some((pointer, value)) = params.found(spec) else { return Vec::new() };
    match value {
        Json::Array(items) => items.iter().map(to_text).collect(),
        Json::Object(_) => {
            params.problem(ParamProblem::new(pointer, "must be a list of texts"));
            Vec::new()
        }
        // Some editors write a single entry without a list.
        value => vec![to_text(value)],
    }
}

pub(crate) fn choice(params: &mut Params<'_>, spec: &FieldSpec) -> &'static str {
    let default = preset_text(spec);
    let Kind::Choice(choices) = spec.kind else { return default };
    let Some(text) = given_text(params, spec).filter(|text| !text.trim().is_empty()) else { return default };
    let meant = choices.iter().find(|choice| choice.value.eq_ignore_ascii_case(text.trim()));
    if let Some(choice) = meant {
        return choice.value;
    }
    // The canvas may use an older name of the field.
    let pointer = params.found(spec).map_or_else(|| Params::pointer_of(spec), |(pointer, _)| pointer);
    let values: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice.value)).collect();
    let help = match values.split_last() {
        Some((last, others)) if !others.is_empty() => format!("use {} or {last}", others.join(", ")),
        _ => format!("use {}", values.concat()),
    };
    let message = format!("`{}` is not a valid value", text.trim());
    params.problem(ParamProblem::new(pointer, message).help(help));
    default
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_in_place_of_a_text_gets_a_remedy() {
        let check = |list: Json, part: &str| {
            let help = instead_of_list(list.as_array().unwrap());
            assert!(help.contains(part), "{help}");
        };
        check(json!(["a"]), "without the brackets");
        check(json!(["a", "b"]), "one text in place of the list");
        check(json!([{"component_id": "Retrieval:0", "type": "reference"}]), "`{Retrieval:0@content}`");
        check(json!([{"type": "input"}, {"component_id": "begin@town"}]), "`{begin@town}`");
        check(json!([{"component_id": 7}, null]), "one text in place of the list");
    }
}
