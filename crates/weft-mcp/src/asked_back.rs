//! Automatic answers to questions of a server, if the operator allows default values. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, json};
use weft_core::Json;

use crate::config::ElicitationMode;

/// Maximum number of rounds of questions in one call.
// A server that always asks again would otherwise keep a call until its time limit.
pub(crate) const ROUNDS_MAX: usize = 8;

/// Additional data for repeating a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FilledIn {
    /// The answers, by the server's names of its questions.
    pub(crate) responses: Option<BTreeMap<String, Json>>,
    /// State that the server wants returned unchanged.
    pub(crate) state: Option<String>,
}

/// Returns the answers for a result that asks questions; `None` for one that is complete, or whose questions cannot
/// be answered.
pub(crate) fn filled_in(result: &Json, mode: ElicitationMode) -> Option<FilledIn> {
    if mode == ElicitationMode::Decline || result.get("resultType")?.as_str() != Some("input_required") {
        return None;
    }
    let asked = result.get("inputRequests").and_then(Json::as_object);
    let state = result.get("requestState").and_then(Json::as_str).map(str::to_owned);
    if asked.is_none_or(Map::is_empty) && state.is_none() {
        return None;
    }
    let mut responses = BTreeMap::new();
    for (name, request) in asked.into_iter().flatten() {
        if request.get("method")?.as_str() != Some("elicitation/create") {
            return None;
        }
        let form = request.get("params").and_then(|params| params.get("requestedSchema"));
        let answer = match form.and_then(by_defaults) {
            Some(content) => json!({"action": "accept", "content": content}),
            None => json!({"action": "decline"}),
        };
        responses.insert(name.clone(), answer);
    }
    Some(FilledIn { responses: (!responses.is_empty()).then_some(responses), state })
}

/// Returns the default values of a form; `None` if a required field has none.
pub(crate) fn by_defaults(schema: &Json) -> Option<Map<String, Json>> {
    let fields = schema.get("properties").and_then(Json::as_object);
    let default = |(name, field): (&String, &Json)| Some((name.clone(), field.get("default")?.clone()));
    let content: Map<String, Json> = fields.into_iter().flatten().filter_map(default).collect();
    let required = schema.get("required").and_then(Json::as_array);
    let is_given = |name: &Json| name.as_str().is_some_and(|name| content.contains_key(name));
    required.into_iter().flatten().all(is_given).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_filled_in_from_their_defaults_only() {
        let form =
            json!({"properties": {"name": {"type": "string", "default": "Ada"}, "age": {"type": "integer"}}});
        assert_eq!(by_defaults(&form), json!({"name": "Ada"}).as_object().cloned());
        let mut strict = form;
        strict["required"] = json!(["name"]);
        assert_eq!(by_defaults(&strict), json!({"name": "Ada"}).as_object().cloned());
        strict["required"] = json!(["age"]);
        assert_eq!(by_defaults(&strict), None);
        assert_eq!(by_defaults(&json!({})), Some(Map::new()));
    }

    #[test]
    fn questions_of_a_server_are_answered_if_the_operator_allows_it() {
        let asks = |form: Json| json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": form}});
        let form = json!({"properties": {"n": {"type": "integer", "default": 3}}});
        let result = json!({"resultType": "input_required", "requestState": "s",
            "inputRequests": {"a": asks(form), "b": asks(json!({"properties": {"n": {}}, "required": ["n"]}))}});
        let answered = filled_in(&result, ElicitationMode::Defaults).unwrap();
        assert_eq!(answered.state.as_deref(), Some("s"));
        let expected = [
            ("a".to_owned(), json!({"action": "accept", "content": {"n": 3}})),
            ("b".to_owned(), json!({"action": "decline"})),
        ];
        assert_eq!(answered.responses, Some(expected.into()));
        assert_eq!(filled_in(&result, ElicitationMode::Decline), None);
        let check =
            |result: Json| assert_eq!(filled_in(&result, ElicitationMode::Defaults), None, "{result}");
        check(json!({"content": []}));
        check(json!({"resultType": "complete", "requestState": "s"}));
        check(json!({"resultType": "input_required"}));
        check(
            json!({"resultType": "input_required", "inputRequests": {"a": {"method": "sampling/createMessage"}}}),
        );
    }
}
