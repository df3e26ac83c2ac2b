//! The Calculator component: evaluates an expression.
//!
//! Whole numbers and fractions are exact, up to some 1,200 digits, and so are `+ - * / % ^ !`, the roots of squares,
//! and whatever rounds or compares. Everything else (`sin`, `ln`, fractional powers, larger numbers) is computed in
//! 64-bit floating point and shown with 15 digits; `exact` says which of the two the result is. A non-terminating
//! fraction is shown with 20 digits.
//!
//! The expression is read by a small parser of our own, since the libraries that were tried either misread invalid text
//! (`(1+2` as 3), compute without an end, or give no position in their errors.

mod expression;
mod functions;
mod number;

use weft_core::{
    Component, ComponentSpec, Finished, Json, NodeContext, Outputs, ParamProblem, Reads, Result, Role, Shape,
    Template, ToolSpec, Value, async_trait, blocking,
};

use crate::params::{self, Field, Params, fields};

/// Maximum length in bytes of an expression that is evaluated in place. A longer one with large numbers could take long
/// enough to delay other tasks.
const SHORT_MAX: usize = 200;

static EXPRESSION: Field<Template> = Field::template(
    "expression",
    "the expression to evaluate, such as `2 * (3 + {Agent:A@n})`; `log` is to base 10, `ln` to base e",
)
.by_model("an expression such as (3 + 4.5) * 2^10 / sqrt(2); numbers without separators between thousands");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Calculator",
    role: Role::Step,
    summary: "Works out an arithmetic expression: + - * / % ^ !, parentheses, functions such as sqrt, round, \
              min, max, log, sin (radians), and the constants pi, e and tau. Whole numbers and fractions are exact.",
    fields: &[fields(&[&EXPRESSION])],
    outputs: &[
        weft_core::OutputSpec::new("result", "string", "the result as text"),
        weft_core::OutputSpec::new("exact", "boolean", "whether the result is exact"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "calculator", idempotent: true, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let expression = params.take(&EXPRESSION);
        params.finish(Calculator { expression })
    },
};

struct Calculator {
    expression: Template,
}

impl Calculator {
    /// Returns why it fails whenever it runs, if the whole expression is literal.
    fn mistake(&self) -> Option<ParamProblem> {
        let written = params::written_out(&self.expression).filter(|written| written.len() <= SHORT_MAX)?;
        let (message, help) = expression::evaluate(written).err()?.for_operator();
        let problem = ParamProblem::new(params::pointer(&[EXPRESSION.name()]), message);
        Some(match help {
            Some(help) => problem.help(help),
            None => problem,
        })
    }
}

#[async_trait]
impl Component for Calculator {
    fn shape(&self) -> Shape {
        let reads = Reads::always(self.expression.references().cloned());
        let so = "there is nothing to calculate, and the node fails";
        let help = "write an expression, such as `2 * {Agent:A@n}`";
        let unfilled = params::unfilled(&EXPRESSION, &self.expression, so, help);
        let unfilled = unfilled.or_else(|| self.mistake()).into_iter().collect();
        Shape { reads, main_output: "result", unfilled, ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let expression = self.expression.render(&ctx.inputs)?;
        let number = if expression.len() <= SHORT_MAX {
            expression::evaluate(&expression)?
        } else {
            blocking("the calculation", move || expression::evaluate(&expression)).await?
        };
        let (text, exact) = number.told();
        let mut outputs = Outputs::of("result", Value::text(text));
        outputs.set("exact", Json::from(exact));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, failure, outputs};
    use serde_json::json;

    #[test]
    fn an_invalid_expression_is_reported_before_it_runs() {
        let check = |expression: &str, expected: &str| {
            let unfilled =
                Node::new("Calculator", json!({"expression": expression})).build().shape().unfilled;
            let told = unfilled.first().map(|problem| problem.message.as_str()).unwrap_or_default();
            assert!(
                told.contains(expected) && told.is_empty() == expected.is_empty(),
                "{expression}: {told}"
            );
        };
        check("2 * (3 + 4)", "");
        check("{Agent:A@n} +", "");
        check("1 +", "a number is missing");
        check("foo(1)", "there is no function `foo`");
    }

    #[tokio::test]
    async fn an_expression_with_references_is_evaluated() {
        let node = Node::new("Calculator", json!({"expression": "{Agent:A@n} * 1.1"}));
        let found = outputs(&node, Setting::values([("Agent:A@n", json!(3))])).await;
        assert_eq!(found, json!({"result": "3.3", "exact": true}));
        let long = format!("0{}", "+1".repeat(500));
        let found = outputs(&node, Setting::values([("Agent:A@n", json!(long))])).await;
        assert_eq!(found, json!({"result": "500.1", "exact": true}));
        let error = failure(&node, Setting::values([("Agent:A@n", json!("1 +"))])).await;
        assert!(error.full().contains("at character 5"), "{}", error.full());
    }
}
