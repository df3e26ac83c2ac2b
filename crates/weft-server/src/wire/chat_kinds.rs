//! The kinds of the values that the prompt settings of an assistant may have. A value of another kind would count as
//! absent or as off wherever it is used, so it is refused when it is set.

use serde_json::{Map, Value as Json};
use weft_knowledge::retrieve::LANGUAGES_MAX;

use crate::body::flag_of;
use crate::error::ApiError;

/// The accepted values for deep research.
const DEPTHS: &str = "a boolean, a depth from 0 to 4, or `iterative`, `tree` or `agentic`";
/// Maximum depth of deep research.
const DEPTH_MAX: u64 = 4;

/// Checks the prompt settings that a request gives, under the names of either generation of the API. Null and an empty
/// string count as absent.
///
/// # Errors
/// 102 naming the first setting of another kind.
pub(super) fn check_prompt(given: &Map<String, Json>) -> Result<(), ApiError> {
    for (key, value) in given.iter().filter(|(_, value)| !value.is_null() && **value != "") {
        let expected = match key.as_str() {
            "system" | "prompt" | "prologue" | "opener" | "empty_response" if !value.is_string() => {
                "a string"
            }
            "quote" | "show_quote" | "tts" | "refine_multiturn" | "keyword" | "use_kg" | "toc_enhance"
                if flag_of(value).is_none() =>
            {
                "a boolean"
            }
            "tavily_api_key" if !value.is_string() => "a string",
            "cross_languages" if !is_list_of(value, Json::is_string) => "a list of strings",
            "parameters" | "variables" if value.is_array() && !is_list_of(value, is_parameter) => {
                "a list of objects with `key` and `optional`"
            }
            "reasoning" if !is_depth(value) => DEPTHS,
            "cross_languages" => {
                few_languages(value)?;
                continue;
            }
            _ => continue,
        };
        return Err(ApiError::data(format!("`{key}` should be {expected}.")));
    }
    Ok(())
}

fn few_languages(value: &Json) -> Result<(), ApiError> {
    let count = value.as_array().map_or(0, Vec::len);
    if count <= LANGUAGES_MAX {
        return Ok(());
    }
    let message = format!("`cross_languages` can name at most {LANGUAGES_MAX} languages, and names {count}");
    Err(ApiError::data(message))
}

/// Checks the setting for deep research of a question.
///
/// # Errors
/// 101 for a value of another kind.
pub(super) fn check_depth(value: &Json) -> Result<(), ApiError> {
    if is_depth(value) || value == "" {
        return Ok(());
    }
    Err(ApiError::argument(format!("`reasoning` should be {DEPTHS}.")))
}

fn is_depth(value: &Json) -> bool {
    let is_within = |depth: u64| depth <= DEPTH_MAX;
    match value {
        Json::Number(number) => number.as_u64().is_some_and(is_within),
        Json::String(text) => {
            let text = text.trim();
            let named = matches!(text, "iterative" | "tree" | "agentic");
            named || text.parse::<u64>().is_ok_and(is_within) || flag_of(value).is_some()
        }
        other => flag_of(other).is_some(),
    }
}

fn is_parameter(value: &Json) -> bool {
    let optional = value.get("optional");
    value.get("key").is_some_and(Json::is_string)
        && optional.is_none_or(|optional| optional.is_null() || flag_of(optional).is_some())
}

fn is_list_of(value: &Json, fits: impl Fn(&Json) -> bool) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(fits))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(given: &Json) -> Option<String> {
        let outcome = check_prompt(given.as_object().unwrap());
        outcome.err().map(|error| error.message().to_owned())
    }

    #[test]
    fn what_clients_send_is_taken() {
        for reasoning in [
            json!(true),
            json!(false),
            json!("true"),
            json!("False"),
            json!(0),
            json!(4),
            json!("2"),
            json!(" tree "),
            json!(""),
            json!(null),
        ] {
            assert_eq!(told(&json!({"reasoning": reasoning})), None, "{reasoning}");
        }
        let all = json!({"quote": true, "show_quote": "1", "tts": 0, "keyword": 1, "use_kg": null, "system": "x",
            "toc_enhance": "", "cross_languages": ["English"], "tavily_api_key": "k", "unknown": {"a": [1]},
            "parameters": [{"key": "a", "optional": false}, {"key": "b"}], "variables": []});
        assert_eq!(told(&all), None);
    }

    #[test]
    fn what_would_count_as_absent_is_refused_by_its_name() {
        for reasoning in
            [json!(9), json!(-1), json!(1.5), json!("deep"), json!("9"), json!([]), json!({"depth": 1})]
        {
            let expected = format!("`reasoning` should be {DEPTHS}.");
            assert_eq!(told(&json!({"reasoning": reasoning})), Some(expected), "{reasoning}");
            assert!(check_depth(&reasoning).is_err(), "{reasoning}");
        }
        for (given, expected) in [
            (json!({"quote": "maybe"}), "`quote` should be a boolean."),
            (json!({"show_quote": 5}), "`show_quote` should be a boolean."),
            (json!({"use_kg": []}), "`use_kg` should be a boolean."),
            (json!({"cross_languages": "English"}), "`cross_languages` should be a list of strings."),
            (json!({"cross_languages": [1]}), "`cross_languages` should be a list of strings."),
            (
                json!({"cross_languages": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]}),
                "`cross_languages` can name at most 8 languages, and names 9",
            ),
            (json!({"tavily_api_key": 5}), "`tavily_api_key` should be a string."),
            (json!({"system": 5}), "`system` should be a string."),
            (json!({"prompt": ["x"]}), "`prompt` should be a string."),
            (json!({"empty_response": false}), "`empty_response` should be a string."),
            (json!({"opener": {}}), "`opener` should be a string."),
            (
                json!({"parameters": ["a"]}),
                "`parameters` should be a list of objects with `key` and `optional`.",
            ),
            (
                json!({"variables": [{"key": 5}]}),
                "`variables` should be a list of objects with `key` and `optional`.",
            ),
            (
                json!({"parameters": [{"key": "a", "optional": "x"}]}),
                "`parameters` should be a list of objects with `key` and `optional`.",
            ),
        ] {
            assert_eq!(told(&given).as_deref(), Some(expected), "{given}");
        }
    }
}
