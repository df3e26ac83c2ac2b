//! A node that does its work again when what came out is not what was wanted.
//!
//! `retry_if` is a list of conditions on the node's outputs; one that holds is enough. The operators are those of Switch,
//! and `json`, `not json` and `matches`, which takes a regular expression. A node that does this shows nothing while it
//! works: what is not wanted must not have been seen. A model that answers without a word has given outputs without a
//! value; any other failure is none that a condition could hold for.

use std::sync::Arc;

use async_trait::async_trait;
use regex::Regex;

use crate::component::{Component, Finished, Form, NodeSource, ParamProblem, Shape};
use crate::context::{NodeContext, Signal};
use crate::error::Result;
use crate::operators::{Operator, holds};
use crate::pattern;
use crate::reference::Inputs;
use crate::value::{Json, Outputs, described, to_text};

/// How often the work is done again when nobody says.
pub const RETRIES: usize = 2;
/// How often it may be done again.
pub const RETRIES_MAX: usize = 10;
/// Where they stand.
const POINTER: &str = "/retry_if";
/// Conditions of one node, at most.
// Each looks through the whole of an output after every try.
const CONDITIONS_MAX: usize = 20;

/// What is looked for in an output.
#[derive(Debug)]
enum Test {
    /// A comparison with a value.
    Compare(Operator, Json),
    /// Whether it is JSON, or whether it is not.
    Json(bool),
    /// A regular expression.
    Matches(Regex),
}

/// One condition.
#[derive(Debug)]
struct RetryCondition {
    /// Its place in the parameters.
    pointer: String,
    /// Which output; the main one when it is empty.
    output: String,
    test: Test,
}

impl RetryCondition {
    fn read(given: &Json, pointer: &str) -> std::result::Result<Self, ParamProblem> {
        let Some(members) = given.as_object() else {
            // One condition may stand alone; whoever writes something else at its place means the list.
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
                        format!("is no regular expression: {cause}"),
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

/// Whether a value is JSON: a text that can be read as such, or anything that is no text. A fence of code around it makes it
/// none, as for whoever reads the output.
fn is_json(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::String(text) => serde_json::from_str::<serde::de::IgnoredAny>(text.trim()).is_ok(),
        _ => true,
    }
}

/// When a node does its work again.
#[derive(Debug)]
pub struct RetryIf {
    conditions: Vec<RetryCondition>,
    retries: usize,
}

impl RetryIf {
    /// Reads `retry_if`; none when it is absent or empty.
    ///
    /// # Errors
    /// The first condition that is none.
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

    /// A component that does its work again.
    ///
    /// # Errors
    /// For one that says something: that cannot be taken back.
    pub fn around(
        self,
        component: Arc<dyn Component>,
        source: &NodeSource<'_>,
    ) -> std::result::Result<Arc<dyn Component>, ParamProblem> {
        if component.shape().listens || source.kind.eq_ignore_ascii_case("message") {
            let problem = ParamProblem::new("/retry_if", "has no effect on a message: what was said is said");
            return Err(problem.help("set it at the node that the message shows"));
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
        // What a listener has heard of a try that is not wanted could not be taken back.
        Shape { streams: false, retry_outputs: retry_outputs.collect(), ..self.component.shape() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let main = self.component.shape().main_output;
        let mut left = self.retry.retries;
        let mut result = self.component.run(ctx).await;
        loop {
            let nothing = Outputs::default();
            let outputs = match &result {
                // Nothing is over yet: the work goes on when the person has answered, and is looked at then.
                Ok(finished) if finished.suspended.is_some() => return result,
                Ok(finished) => &finished.outputs,
                // Outputs without a value are what came out.
                Err(error) if error.gave_nothing => &nothing,
                Err(_) => return result,
            };
            let mut met = false;
            for condition in &self.retry.conditions {
                // Each is asked although one is enough: an output that is still being written is waited for
                // by all alike, and its failure is never passed over.
                met |= condition.holds(outputs, main).await?;
            }
            if !met {
                return result;
            }
            if left == 0 {
                let tries = self.retry.retries + 1;
                let told = format!("after {tries} tries the result still is what `retry_if` names");
                ctx.signal(Signal::Warn(told)).await?;
                return result;
            }
            left -= 1;
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

/// The work from its beginning: what a person has answered was for work that is over.
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
    async fn conditions_look_at_outputs() {
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
    fn what_is_wrong_is_named_with_its_place() {
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
