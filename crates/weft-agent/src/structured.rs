//! Answers that are JSON of a given schema: requested, parsed leniently, validated strictly.

use weft_core::{Error, ErrorKind, Json, Result};

use crate::arguments;

const FORM: &str = include_str!("prompts/structured.md");
const REPAIR: &str = include_str!("prompts/repair.md");
/// Maximum number of problems that a repair request lists.
// An answer that is wrong throughout has the same problem many times over.
const PROBLEMS_MAX: usize = 10;

/// A JSON schema that answers are checked against.
#[derive(Debug)]
pub struct Schema {
    /// The schema as it is sent.
    pub json: Json,
    validator: jsonschema::Validator,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// `Invalid` when it is not a valid schema, or one that would take too long to check.
    pub fn new(json: Json) -> Result<Self> {
        match arguments::validator(&json) {
            Ok(validator) => Ok(Self { json, validator }),
            Err(fault) => Err(Error::invalid(format!("is not a valid JSON schema: {fault}"))),
        }
    }

    /// Instructions that tell the model to follow the schema.
    pub fn instructions(&self) -> String {
        format!("{FORM}{}", self.json)
    }

    /// Parses an answer and checks it against the schema.
    ///
    /// # Errors
    /// `Garbled`, with the problems.
    pub fn check(&self, answer: &str) -> Result<Json> {
        let value = arguments::parse(answer)?.value;
        if !arguments::affordable(&self.json, &value) {
            let message = "it is too long or too deeply nested to be checked: use a shorter one";
            return Err(Error::new(ErrorKind::Garbled, message));
        }
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

    /// The message to the model about an answer that could not be used.
    pub fn complaint(problem: &Error) -> String {
        REPAIR.replace("{problems}", &problem.full())
    }

    /// The error of a model that never followed the schema.
    pub fn given_up(problem: Error) -> Error {
        Error::new(ErrorKind::Garbled, "the model's answer doesn't follow the schema of `outputs.structured`")
            .because(problem)
            .help("simplify the schema, raise `max_retries` or try another model")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_parsed_leniently_and_validated_strictly() {
        let schema = Schema::new(
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        );
        let schema = schema.unwrap();
        let check = |answer: &str, expected: Option<Json>| {
            assert_eq!(schema.check(answer).ok(), expected, "{answer}");
        };
        check("{\"a\": 1}", Some(json!({"a": 1})));
        check("<think>{\"a\": 0}</think>\n{\"a\": 1}", Some(json!({"a": 1})));
        check("Sure:\n```json\n{\"a\": 1}\n```\nDone.", Some(json!({"a": 1})));
        check("{\"a\": \"x\"}", None);
        check("{}", None);
        check("no json", None);
        assert!(schema.check("{\"a\": \"x\"}").unwrap_err().message.contains("/a"));
        assert!(Schema::new(json!({"type": 7})).is_err());
        // A canvas may come from anybody: its schema resolves no remote references, and its cost is limited.
        assert!(Schema::new(json!({"$ref": "file:///etc/passwd"})).is_err());
        assert!(Schema::new(json!({"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}})).is_err());
        let costly = |depth: i32| {
            let defs = (0..depth).map(|n| {
                (format!("d{n}"), json!({"allOf": vec![json!({"$ref": format!("#/$defs/d{}", n + 1)}); 10]}))
            });
            let mut defs: serde_json::Map<_, _> = defs.collect();
            defs.insert(format!("d{depth}"), json!({"type": "integer"}));
            Schema::new(json!({"$defs": defs, "$ref": "#/$defs/d0"})).unwrap()
        };
        assert!(costly(2).check("4").is_ok());
        assert!(costly(12).check("4").unwrap_err().message.contains("too long"));
        let slow = Schema::new(json!({"type": "string", "pattern": "^(a+)+$"})).unwrap();
        assert!(slow.check(&format!("\"{}!\"", "a".repeat(5_000))).is_err());
    }
}
