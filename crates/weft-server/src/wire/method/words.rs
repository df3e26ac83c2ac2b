//! Describes invalid settings in plain words, for callers that send no request: the messages of the API are about the
//! fields of its requests.

use serde_json::Value as Json;
use weft_core::seam::dataset_store::Settings;
use weft_core::suggest::nearest;
use weft_core::value::shortened;

use crate::wire::rules::{Problems, Rule};

/// Maximum number of characters of an invalid value that a message repeats.
const VALUE_CHARS: usize = 60;

/// What is wrong with a setting.
pub(super) struct Mistake {
    /// A clause that names the setting.
    pub what: String,
    /// The name that was probably meant.
    pub meant: Option<&'static str>,
}

/// Returns a mistake for each unknown setting and for each value that is not possible. `path` is the setting whose
/// members these are; empty for all settings.
pub(super) fn mistakes(path: &str, settings: &Settings, rules: &[(&'static str, Rule)]) -> Vec<Mistake> {
    let mut found = Vec::new();
    for (key, value) in settings {
        let name = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let rule = rules.iter().find(|(known, _)| known == key).map(|(_, rule)| *rule);
        match (rule, value) {
            (Some(Rule::Fields(inner)), Json::Object(members)) => {
                found.extend(mistakes(&name, members, inner));
            }
            (Some(rule), value) if is_wrong(rule, value) => {
                let shown = shortened(&value.to_string(), VALUE_CHARS);
                let what = format!("`{name}` must be {}, but is {shown}", wanted(rule));
                found.push(Mistake { what, meant: None });
            }
            (Some(_), _) => {}
            (None, _) => {
                let meant = nearest(key, rules.iter().map(|(known, _)| *known));
                found.push(Mistake { what: format!("there is no setting `{name}`"), meant });
            }
        }
    }
    found
}

fn is_wrong(rule: Rule, value: &Json) -> bool {
    // As in requests: null counts as absent, unless the setting is a choice.
    if value.is_null() && !matches!(rule, Rule::OneOf(_)) {
        return false;
    }
    let mut problems = Problems::default();
    problems.value("", value, rule);
    !problems.is_empty()
}

fn wanted(rule: Rule) -> String {
    match rule {
        Rule::Text(min, max) | Rule::Trimmed(min, max) => format!("a text of {min} to {max} characters"),
        Rule::Integer(min, i64::MAX) => format!("a whole number from {min} on"),
        Rule::Integer(min, max) => format!("a whole number from {min} to {max}"),
        Rule::Number(min, max) => format!("a number from {min} to {max}"),
        Rule::Flag => "true or false".to_owned(),
        Rule::OneOf(words) => format!("one of {}", words.join(", ")),
        Rule::Texts => "a list of texts, such as [\"a\", \"b\"]".to_owned(),
        Rule::Pages => "a list of page ranges, such as [[1, 5], [8, 8]]".to_owned(),
        Rule::Object | Rule::Fields(_) => "a JSON object".to_owned(),
        Rule::Any => "any value".to_owned(),
    }
}
