//! The LoopItem component: the first node of every round of a Loop. Decides whether there is another round.

use weft_core::context::Signal;
use weft_core::operators::holds_typed;
use weft_core::value::plural;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, NodeSource, Outputs, ParamProblem, Reads,
    Result, Role, Route, Shape, async_trait,
};

use crate::control::loop_end::{EndOperand, LoopEnd};
use crate::params::Params;

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "LoopItem",
    role: Role::RoundStart,
    summary: "Starts a round of a Loop, unless its conditions end it.",
    fields: &[],
    outputs: &[weft_core::OutputSpec::new("index", "integer", "the number of the round, starting at 0")],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let end = match source.parent {
            // Problems with the Loop's parameters are reported at the Loop.
            Some((id, outer)) => LoopEnd::read(&mut Params::of(&NodeSource { id, params: outer, ..*source })),
            None => {
                let problem = ParamProblem::new("", "a LoopItem is outside of a Loop");
                params.problem(problem.help("put it inside a Loop"));
                LoopEnd::default()
            }
        };
        params.finish(LoopItem { end })
    },
};

struct LoopItem {
    end: LoopEnd,
}

/// The warning that a loop ended although its conditions did not end it.
fn cut_short(rounds: usize) -> String {
    let rounds = plural(rounds, "round");
    format!("the loop stopped after {rounds}, its `maximum_loop_count`, and its condition never held")
}

impl LoopItem {
    /// Whether the conditions end the loop. Without conditions, only the maximum does.
    fn is_over(&self, ctx: &NodeContext) -> Result<bool> {
        for condition in &self.end.conditions {
            let right = match &condition.right {
                EndOperand::Constant(value) => std::sync::Arc::new(value.clone()),
                EndOperand::Variable(reference) => ctx.inputs.json(reference),
            };
            let holds = holds_typed(&ctx.inputs.json(&condition.left), condition.operator, &right).map_err(
                |cause| {
                    Error::invalid(format!("cannot tell whether `{}` ends the loop", condition.left))
                        .because(cause)
                },
            )?;
            if holds == self.end.any {
                return Ok(self.end.any);
            }
        }
        // Without this, a loop without conditions would end at once: all of no conditions hold.
        Ok(!self.end.any && !self.end.conditions.is_empty())
    }
}

#[async_trait]
impl Component for LoopItem {
    fn shape(&self) -> Shape {
        let reads = self.end.conditions.iter().flat_map(|condition| {
            let right = match &condition.right {
                EndOperand::Constant(_) => None,
                EndOperand::Variable(reference) => Some(reference.clone()),
            };
            std::iter::once(condition.left.clone()).chain(right)
        });
        Shape { reads: Reads::always(reads), main_output: "index", ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let Some(round) = &ctx.round else {
            return Err(Error::invalid("a LoopItem ran outside a Loop").help("put the node inside a Loop"));
        };
        let held = self.is_over(ctx);
        let over = if round.index >= self.end.rounds_max {
            // Past the maximum, a condition that cannot be evaluated is not an error. Without conditions, the maximum is
            // what ends the loop.
            if !self.end.conditions.is_empty() && !held.unwrap_or(false) {
                ctx.signal(Signal::Warn(cut_short(round.index))).await?;
            }
            true
        } else {
            held?
        };
        Ok(Finished {
            outputs: Outputs::of("index", Json::from(round.index)),
            route: if over { Route::EndFrame } else { Route::Onward },
            ..Finished::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage, failure, run};
    use serde_json::{Value as Json, json};
    use weft_core::Route;
    use weft_core::context::Round;

    fn item(parent: Json) -> Node {
        Node::new("LoopItem", json!({})).inside("Loop:L", parent)
    }

    fn setting(index: usize, n: Json) -> Setting {
        let round = Some(Round { index, item: None });
        Setting { round, ..Setting::values([("Loop:L@n", n), ("Loop:L@done", json!(false))]) }
    }

    #[tokio::test]
    async fn rounds_repeat_until_a_condition_or_the_maximum() {
        let check = async |parent: Json, index: usize, n: Json, ends: bool| {
            let expected = if ends { Route::EndFrame } else { Route::Onward };
            let finished = run(&item(parent.clone()), setting(index, n)).await.unwrap();
            assert_eq!(finished.route, expected, "{parent} {index}");
        };
        let three = json!({"variable": "Loop:L@n", "operator": "≥", "value": "3"});
        let done = json!({"variable": "Loop:L@done", "operator": "is", "value": "true"});
        let loops = |logic: &str, conditions: &[&Json]| json!({"maximum_loop_count": 5, "logical_operator": logic, "loop_termination_condition": conditions});
        check(loops("and", &[]), 0, json!(0), false).await;
        check(loops("or", &[]), 4, json!(0), false).await;
        check(loops("or", &[]), 5, json!(0), true).await;
        check(loops("and", &[&three]), 0, json!(2), false).await;
        check(loops("and", &[&three]), 0, json!(3), true).await;
        check(loops("and", &[&three, &done]), 0, json!(3), false).await;
        check(loops("or", &[&three, &done]), 0, json!(3), true).await;
        check(loops("or", &[&done]), 0, json!(3), false).await;
        let itself =
            json!({"variable": "Loop:L@n", "operator": "=", "value": "Loop:L@n", "input_mode": "Variable"});
        check(loops("and", &[&itself]), 0, json!(3), true).await;
        check(json!({}), 9, json!(0), false).await;
        check(json!({}), 10, json!(0), true).await;
    }

    #[tokio::test]
    async fn a_loop_whose_condition_never_held_warns() {
        let check = async |parent: Json, index: usize, n: Json, expected: &[&str]| {
            let node = item(parent);
            let component = node.build();
            let mut stage = Stage::new(&node, &*component, setting(index, n));
            component.run(&stage.ctx).await.unwrap();
            let told: Vec<String> = stage.signals().iter().map(|signal| format!("{signal:?}")).collect();
            assert_eq!(told.len(), expected.len(), "{told:?}");
            assert!(told.iter().zip(expected).all(|(told, part)| told.contains(part)), "{told:?}");
        };
        let three = |operator: &str| json!({"maximum_loop_count": 2, "loop_termination_condition": [{"variable": "Loop:L@n", "operator": operator, "value": "3"}]});
        let stopped = ["after 2 rounds, its `maximum_loop_count`"];
        check(three("≥"), 1, json!(1), &[]).await;
        check(three("≥"), 2, json!(2), &stopped).await;
        check(three("≥"), 2, json!(3), &[]).await;
        check(three("contains"), 2, json!(2), &stopped).await;
        check(json!({"maximum_loop_count": 2}), 2, json!(2), &[]).await;
    }

    #[tokio::test]
    async fn an_invalid_condition_is_an_error_of_this_node() {
        let parent = json!({"loop_termination_condition": [{"variable": "Loop:L@n", "operator": "contains", "value": "x"}]});
        let error = failure(&item(parent), setting(0, json!(1))).await;
        assert!(error.full().contains("`contains` cannot be applied to the number `1`"), "{}", error.full());
    }

    #[test]
    fn a_loop_item_must_be_inside_a_loop() {
        assert_eq!(Node::new("LoopItem", json!({})).problems(), [""]);
        // Errors in the Loop are reported there, once.
        assert!(item(json!({"maximum_loop_count": 0})).problems().is_empty());
    }
}
