//! Repeats the work of a node while its result is not acceptable.
//!
//! `retry_if` is a list of conditions on the node's outputs; one that holds is enough. The operators are those of
//! Switch, plus `json`, `not json` and `matches`, which takes a regular expression. A node with `retry_if` shows
//! nothing while it works: an unacceptable result must not have been seen. A model that returns an empty answer
//! counts as a node with empty outputs. No condition can hold for any other failure.

use std::sync::Arc;

use regex::Regex;
use weft_macros::async_trait;

use crate::component::{Component, Finished, Form, NodeSource, ParamProblem, Shape};
use crate::context::{NodeContext, Signal};
use crate::error::Result;
use crate::operators::{Operator, holds};
use crate::pattern;
use crate::reference::Inputs;
use crate::value::{Json, Outputs, described, to_text};

/// Default maximum number of repetitions.
pub const RETRIES: usize = 2;
/// Upper limit for the number of repetitions.
pub const RETRIES_MAX: usize = 10;
/// Where the conditions are located.
const POINTER: &str = "/retry_if";
/// Maximum number of conditions of one node.
// Each of them searches a whole output after every attempt.
const CONDITIONS_MAX: usize = 20;

/// The test applied to an output.
#[derive(Debug)]
enum Test {
    /// A comparison with a value.
    Compare(Operator, Json),
    /// Whether it is JSON, or is not JSON.
    Json(bool),
    /// A regular expression.
    Matches(Regex),
}

/// One condition.
#[derive(Debug)]
struct RetryCondition {
    /// Its location in the parameters.
    pointer: String,
    /// The output to test; the main one if empty.
    output: String,
    test: Test,
}

impl RetryCondition {
    fn read(given: &Json, pointer: &str) -> std::result::Result<Self, ParamProblem> {
        let Some(members) = given.as_object() else {
            // A single condition need not be in a list. If something other than an object is given in its place, a
            // list was expected.
            let wanted = if pointer == POINTER { "a list of conditions" } else { "an object" };
            let problem =
                ParamProblem::new(pointer, format!("must be {wanted}, and is {}", described(given)));
            return Err(problem.help("write a condition as {\"operator\": \"empty\"} or {\"output\": \"content\", \"operator\": \"contains\", \"value\": \"sorry\"}"));
        };
        let text = |name: &str| members.get(name).map(to_text).unwrap_or_default();
        let value = members.get("value").cloned().unwrap_or_default();
        let name = text("operator").trim().to_lowercase();
        let test = match name.as_str() {
            "json" => Test::Json(true),
            "not json" => Test::Json(false),
            "matches" => {
                let built = pattern::compile(&to_text(&value));
                Test::Matches(built.map_err(|cause| {
                    ParamProblem::new(
                        format!("{pointer}/value"),
                        format!("is not a valid regular expression: {cause}"),
                    )
                })?)
            }
            name => match Operator::parse(name) {
                Some(operator) => Test::Compare(operator, value),
                None => {
                    let problem = ParamProblem::new(
                        format!("{pointer}/operator"),
                        format!("`{name}` is not an operator"),
                    );
                    let help = format!("use one of {}, `json`, `not json` and `matches`", Operator::listed());
                    return Err(problem.help(help));
                }
            },
        };
        Ok(Self { pointer: pointer.to_owned(), output: text("output").trim().to_owned(), test })
    }

    async fn holds(&self, outputs: &Outputs, main: &str) -> Result<bool> {
        let name = if self.output.is_empty() { main } else { &self.output };
        let value = match outputs.get(name) {
            Some(value) => value.settled().await?,
            None => Arc::new(Json::Null),
        };
        Ok(match &self.test {
            Test::Compare(operator, right) => holds(&value, *operator, right),
            Test::Json(wanted) => is_json(&value) == *wanted,
            Test::Matches(pattern) => pattern.is_match(&to_text(&value)),
        })
    }
}

/// Returns whether a value is JSON: either a text that parses as JSON, or any value that is not a text. A surrounding
/// code fence makes a text invalid, because readers of the output would fail on it as well.
fn is_json(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::String(text) => serde_json::from_str::<serde::de::IgnoredAny>(text.trim()).is_ok(),
        _ => true,
    }
}

/// When a node repeats its work, and how often.
#[derive(Debug)]
pub struct RetryIf {
    conditions: Vec<RetryCondition>,
    retries: usize,
}

impl RetryIf {
    /// Reads `retry_if`; `None` when it is absent or empty.
    ///
    /// # Errors
    /// The first invalid condition.
    pub fn read(given: &Json, retries: usize) -> std::result::Result<Option<Self>, ParamProblem> {
        let conditions = match given {
            Json::Null => return Ok(None),
            Json::Array(items) if items.len() > CONDITIONS_MAX => {
                return Err(ParamProblem::new(POINTER, format!("has more than {CONDITIONS_MAX} conditions")));
            }
            Json::Array(items) => {
                let read = |(place, item)| RetryCondition::read(item, &format!("{POINTER}/{place}"));
                items.iter().enumerate().map(read).collect::<std::result::Result<Vec<_>, _>>()?
            }
            one => vec![RetryCondition::read(one, POINTER)?],
        };
        Ok((!conditions.is_empty()).then_some(Self { conditions, retries }))
    }

    /// Wraps a component so that it repeats its work.
    ///
    /// # Errors
    /// Fails for a component that speaks, because that cannot be taken back.
    pub fn around(
        self,
        component: Arc<dyn Component>,
        source: &NodeSource<'_>,
    ) -> std::result::Result<Arc<dyn Component>, ParamProblem> {
        if component.shape().listens || source.kind.eq_ignore_ascii_case("message") {
            let problem =
                ParamProblem::new("/retry_if", "has no effect on a message: its text is sent already");
            return Err(problem.help("set it at the node whose output the message shows"));
        }
        Ok(Arc::new(RetryingComponent { component, retry: self }))
    }
}

struct RetryingComponent {
    component: Arc<dyn Component>,
    retry: RetryIf,
}

#[async_trait]
impl Component for RetryingComponent {
    fn shape(&self) -> Shape {
        let named = self.retry.conditions.iter().filter(|condition| !condition.output.is_empty());
        let retry_outputs =
            named.map(|condition| (format!("{}/output", condition.pointer), condition.output.clone()));
        // What a listener has received from an unacceptable attempt could not be taken back.
        Shape { streams: false, retry_outputs: retry_outputs.collect(), ..self.component.shape() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let main = self.component.shape().main_output;
        let mut left = self.retry.retries;
        let mut result = self.component.run(ctx).await;
        loop {
            let nothing = Outputs::default();
            let outputs = match &result {
                // The work has only stopped to wait for a person; its result is tested once it has resumed and
                // finished.
                Ok(finished) if finished.suspended.is_some() => return result,
                Ok(finished) => &finished.outputs,
                // An empty answer is tested like empty outputs.
                Err(error) if error.gave_nothing => &nothing,
                Err(_) => return result,
            };
            let mut met = false;
            for condition in &self.retry.conditions {
                // All are evaluated although one is enough: an output that is still being written is then always
                // waited for, and its failure is never missed.
                met |= condition.holds(outputs, main).await?;
            }
            if !met {
                return result;
            }
            if left == 0 {
                let tries = self.retry.retries + 1;
                let told = format!("after {tries} tries the result still meets a condition of `retry_if`");
                ctx.signal(Signal::Warn(told)).await?;
                return result;
            }
            left -= 1;
            // The places of its effects follow those of the attempt before: no recorded result answers it by
            // mistake.
            result = self.component.run(&anew(ctx)).await;
        }
    }

    fn form(&self, inputs: &Inputs) -> Form {
        self.component.form(inputs)
    }

    fn default_outputs(&self, default: &Json) -> Option<Outputs> {
        self.component.default_outputs(default)
    }
}

/// Restarts the work: what a person answered belonged to the previous attempt.
fn anew(ctx: &NodeContext) -> NodeContext {
    let mut ctx = ctx.clone();
    if ctx.resumed.take().is_some() {
        ctx.filled.clear();
    }
    ctx
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;
    use serde_json::json;

    async fn met(condition: Json, output: Json) -> bool {
        let outputs = Outputs::of("content", Value::from(output));
        RetryCondition::read(&condition, "").unwrap().holds(&outputs, "content").await.unwrap()
    }

    #[tokio::test]
    async fn conditions_test_outputs() {
        for (condition, output, expected) in [
            (json!({"operator": "empty"}), json!(""), true),
            (json!({"operator": "empty"}), json!("x"), false),
            (json!({"operator": "empty", "output": "other"}), json!("x"), true),
            (json!({"operator": "not json"}), json!("{\"a\": 1"), true),
            (json!({"operator": "not json"}), json!(" {\"a\": 1} "), false),
            (json!({"operator": "not json"}), json!({"a": 1}), false),
            (json!({"operator": "JSON"}), json!("3"), true),
            (json!({"operator": "json"}), json!("```json\n{}\n```"), false),
            (json!({"operator": "matches", "value": "^I (cannot|am unable)"}), json!("I cannot say"), true),
            (json!({"operator": "matches", "value": "^I (cannot|am unable)"}), json!("You cannot"), false),
            (json!({"operator": "contains", "value": "sorry"}), json!("I am Sorry"), true),
        ] {
            assert_eq!(met(condition.clone(), output.clone()).await, expected, "{condition} {output}");
        }
    }

    #[test]
    fn errors_are_reported_with_their_place() {
        let check = |given: Json, pointer: &str| {
            assert_eq!(RetryIf::read(&given, 1).unwrap_err().pointer, pointer, "{given}");
        };
        check(json!("empty"), "/retry_if");
        let told = |given: Json| RetryIf::read(&given, 1).unwrap_err().message;
        assert!(told(json!("empty")).starts_with("must be a list of conditions, and is"));
        assert!(told(json!(["empty"])).starts_with("must be an object, and is"));
        check(json!([{"operator": "empty"}, {"operator": "odd"}]), "/retry_if/1/operator");
        check(json!({"operator": "matches", "value": "("}), "/retry_if/value");
        check(json!({"operator": "matches", "value": "(a{1000}){1000}"}), "/retry_if/value");
        check(json!(vec![json!({"operator": "empty"}); 21]), "/retry_if");
        assert!(RetryIf::read(&json!([]), 1).unwrap().is_none());
        assert!(RetryIf::read(&Json::Null, 1).unwrap().is_none());
    }
}
