//! Answers that are JSON of a given form: asked for, read leniently, checked strictly.

use serde_json::Map;
use weft_core::{Error, ErrorKind, Json, ParamProblem, Result};

use crate::params::Params;

const FORM: &str = include_str!("prompts/structured.md");
const REPAIR: &str = include_str!("prompts/repair.md");
/// Problems that a repair request lists, at most.
const PROBLEMS_MAX: usize = 10;

/// A JSON schema that answers are checked against.
#[derive(Debug)]
pub struct Schema {
    /// The schema as it is sent.
    pub json: Json,
    validator: jsonschema::Validator,
}

impl Schema {
    /// The schema at `outputs.structured`, or below it under `schema` or `structured`. Only one with
    /// properties counts.
    pub fn read(params: &mut Params<'_>) -> Option<Self> {
        let structured = params.get("outputs")?.get("structured")?.as_object()?;
        let (pointer, schema) = [("", Some(structured))]
            .into_iter()
            .chain(
                ["/schema", "/structured"]
                    .map(|key| (key, structured.get(&key[1..]).and_then(Json::as_object))),
            )
            .find_map(|(pointer, schema)| Some((pointer, schema.filter(|schema| has_properties(schema))?)))?;
        let mut schema = schema.clone();
        // A saved canvas may hold the last answer beside the schema.
        schema.remove("value");
        let json = Json::Object(schema);
        match jsonschema::validator_for(&json) {
            Ok(validator) => Some(Self { json, validator }),
            Err(error) => {
                let pointer = format!("/outputs/structured{pointer}");
                params.problem(ParamProblem::new(pointer, format!("is no valid JSON schema: {error}")));
                None
            }
        }
    }

    /// What tells the model about the form.
    pub fn instructions(&self) -> String {
        format!("{FORM}{}", self.json)
    }

    /// The value in an answer, if it is what was asked for.
    ///
    /// # Errors
    /// `Garbled`, saying what is wrong.
    pub fn check(&self, answer: &str) -> Result<Json> {
        let value = parse(answer)?;
        let problems: Vec<String> = self
            .validator
            .iter_errors(&value)
            .take(PROBLEMS_MAX)
            .map(|error| match error.instance_path().as_str() {
                "" => format!("- {error}"),
                path => format!("- at {path}: {error}"),
            })
            .collect();
        if problems.is_empty() { Ok(value) } else { Err(Error::new(ErrorKind::Garbled, problems.join("\n"))) }
    }

    /// What to say about an answer that could not be used.
    pub fn complaint(problem: &Error) -> String {
        REPAIR.replace("{problems}", &problem.full())
    }
}

fn has_properties(schema: &Map<String, Json>) -> bool {
    schema.get("properties").and_then(Json::as_object).is_some_and(|properties| !properties.is_empty())
}

/// The JSON in an answer: what stands after the reasoning, inside a code fence or between the outer
/// brackets.
///
/// # Errors
/// `Garbled` when there is none.
pub fn parse(answer: &str) -> Result<Json> {
    let text = cleaned(answer);
    let whole = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let between = |open: char, close: char| {
        let (from, to) = (text.find(open)?, text.rfind(close)?);
        serde_json::from_str(text.get(from..=to)?).ok()
    };
    // A trailing comma is the commonest slip that changes no meaning.
    let without_trailing_commas = || serde_json::from_str(&without_trailing_commas(text)).ok();
    between('{', '}')
        .or_else(|| between('[', ']'))
        .or_else(without_trailing_commas)
        .ok_or_else(|| Error::new(ErrorKind::Garbled, format!("- it is no JSON: {whole}")))
}

/// An answer without what models put around it: reasoning that ends in `</think>`, a code fence.
pub fn cleaned(answer: &str) -> &str {
    let text = answer.rsplit_once("</think>").map_or(answer, |(_, rest)| rest).trim();
    let Some((_, fenced)) = text.split_once("```") else { return text };
    let fenced = fenced.split_once('\n').map_or(fenced, |(_, rest)| rest);
    fenced.rsplit_once("```").map_or(fenced, |(inside, _)| inside).trim()
}

fn without_trailing_commas(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for (place, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted && text[place + 1..].trim_start().starts_with(['}', ']']) => continue,
            _ => {}
        }
        kept.push(c);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_read_leniently() {
        let check =
            |answer: &str, expected: Option<Json>| assert_eq!(parse(answer).ok(), expected, "{answer}");
        check("{\"a\": 1}", Some(json!({"a": 1})));
        check("<think>{\"a\": 0}</think>\n{\"a\": 1}", Some(json!({"a": 1})));
        check("Sure:\n```json\n{\"a\": 1}\n```\nDone.", Some(json!({"a": 1})));
        check("Here it is: {\"a\": [1, 2]} as asked", Some(json!({"a": [1, 2]})));
        check("{\"a\": [1, 2,],}", Some(json!({"a": [1, 2]})));
        check("{\"a\": \",]\",}", Some(json!({"a": ",]"})));
        check("no json", None);
        check("", None);
    }

    #[test]
    fn the_schema_is_found_at_three_places() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "value": 3});
        for outputs in [
            json!({"structured": schema}),
            json!({"structured": {"schema": schema}}),
            json!({"structured": {"structured": schema}}),
        ] {
            let node = crate::testing::Node::new("LLM", json!({"outputs": outputs}));
            let found = Schema::read(&mut Params::of(&node.source())).unwrap();
            assert_eq!(found.json.get("value"), None);
            assert!(found.check("{\"a\": 1}").is_ok());
            assert!(found.check("{\"a\": \"x\"}").unwrap_err().message.contains("/a"));
        }
        let node = crate::testing::Node::new(
            "LLM",
            json!({"outputs": {"content": {}, "structured": {"properties": {}}}}),
        );
        assert!(Schema::read(&mut Params::of(&node.source())).is_none());
        let node = crate::testing::Node::new(
            "LLM",
            json!({"outputs": {"structured": {"properties": {"a": {"type": 7}}}}}),
        );
        assert_eq!(node.problems(), ["/outputs/structured"]);
    }
}
