//! When a Loop ends: the parameters that say so, as the Loop and its LoopItem read them.

use weft_core::operators::{Operator, holds_typed};
use weft_core::{Json, ParamProblem, Reference};

use crate::params::{Choice, Field, Kind, Params, choice, described, pointer};

/// Default number of rounds: the value that the editor fills in.
const ROUNDS_DEFAULT: usize = 10;
/// Maximum number of rounds of a Loop.
// Each round has records of its own in the journal.
const ROUNDS_MAX: usize = 10_000;
/// How a value is written.
pub(super) const MODES: [Choice; 2] = [choice("constant", "a value"), choice("variable", "a reference")];

/// How the conditions are joined.
pub(super) static LOGICAL_OPERATOR: Field<&str> = Field::choice(
    "logical_operator",
    "and",
    &[choice("and", "ends when all hold"), choice("or", "ends when any holds")],
    "how the conditions are combined",
);
/// The conditions that end the loop.
pub(super) static LOOP_TERMINATION_CONDITION: Field = Field::raw(
    "loop_termination_condition",
    Kind::Objects(&[
        Field::raw("variable", Kind::Reference, "what to check"),
        Field::raw("operator", Kind::Text, "the operator"),
        Field::raw("value", Kind::Any, "the value to compare with"),
        Field::raw("input_mode", Kind::Choice(&MODES), "what `value` is"),
    ]),
    "the conditions that end the loop",
);
/// The maximum number of rounds.
pub(super) static MAXIMUM_LOOP_COUNT: Field<usize> =
    Field::count("maximum_loop_count", ROUNDS_DEFAULT, &(1..=ROUNDS_MAX), "the maximum number of rounds")
        .elsewhere(&["max_iterations", "max_loop_count", "max_rounds"]);

/// When a Loop ends.
#[derive(Default)]
pub(super) struct LoopEnd {
    pub(super) conditions: Vec<EndCondition>,
    pub(super) any: bool,
    pub(super) rounds_max: usize,
}

impl LoopEnd {
    /// Reads the parameters of the Loop.
    pub(super) fn read(params: &mut Params<'_>) -> Self {
        let rounds_max = params.take(&MAXIMUM_LOOP_COUNT);
        let logic = params.take(&LOGICAL_OPERATOR);
        let conditions = params
            .rows(&LOOP_TERMINATION_CONDITION, &["variable", "value"])
            .into_iter()
            .filter_map(|(place, object)| condition(params, place, object))
            .collect();
        Self { conditions, any: logic == "or", rounds_max }
    }

    /// Warns of conditions that do not fit the initial values of the loop's own variables: they are evaluated before
    /// the first round.
    pub(super) fn check<'v>(
        &self,
        params: &mut Params<'_>,
        begins_with: impl Fn(&Reference) -> Option<&'v Json>,
    ) {
        for EndCondition { place, left, operator, right } in &self.conditions {
            let (Some(value), EndOperand::Constant(right)) = (begins_with(left), right) else { continue };
            if holds_typed(value, *operator, right).is_ok() {
                continue;
            }
            // If the operator can compare the value with one of its own type, the right side is at fault.
            let key = if holds_typed(value, *operator, value).is_ok() { "value" } else { "operator" };
            let message = format!(
                "`{left}` starts as {}, which `{}` cannot compare with {}: the loop fails at this condition",
                described(value),
                operator.spelled(),
                described(right)
            );
            let at = pointer(&["loop_termination_condition", &place.to_string(), key]);
            params.warn(ParamProblem::new(at, message).help("choose one that fits the type of the variable"));
        }
    }
}

/// A condition that may end a Loop.
pub(super) struct EndCondition {
    /// Index of its row.
    place: usize,
    pub(super) left: Reference,
    pub(super) operator: Operator,
    pub(super) right: EndOperand,
}

/// What a variable is compared with.
pub(super) enum EndOperand {
    Constant(Json),
    Variable(Reference),
}

/// Maximum number of loop variables that a mistaken reference is compared with.
const COMPARED_MAX: usize = 256;

/// Parses a reference in a condition. The bare name of a variable of the loop gets a remedy of its own.
fn reference(params: &mut Params<'_>, pointer: String, text: &str) -> Option<Reference> {
    let (source, name) = (params.source, text.trim());
    let variables = source.params.get("loop_variables").and_then(Json::as_array).into_iter().flatten();
    let is_own = |own: &Json| own.get("variable").and_then(Json::as_str) == Some(name);
    let is_known = name.is_empty() || Reference::whole(text, source.names()).is_some();
    if is_known || !variables.take(COMPARED_MAX).any(is_own) {
        return params.reference_at(pointer, text);
    }
    let message = format!("`{name}` is not a reference to anything in this canvas");
    let problem = ParamProblem::new(pointer, message);
    params.problem(problem.help(format!("write `{}@{name}`", source.id)));
    None
}

fn condition(
    params: &mut Params<'_>,
    place: usize,
    object: &serde_json::Map<String, Json>,
) -> Option<EndCondition> {
    let text = |key: &str| object.get(key).and_then(Json::as_str).unwrap_or_default();
    let at = |key: &str| pointer(&["loop_termination_condition", &place.to_string(), key]);
    let left = reference(params, at("variable"), text("variable"));
    let operator = Operator::parse(text("operator"));
    if operator.is_none() {
        let problem = ParamProblem::new(at("operator"), format!("`{}` is not an operator", text("operator")))
            .help(format!("use one of {}", Operator::listed()));
        params.problem(problem);
    }
    // In any case, as the check reads it.
    let mode = text("input_mode").trim().to_ascii_lowercase();
    let right = match (mode.as_str(), object.get("value")) {
        ("variable", Some(Json::String(value))) => {
            EndOperand::Variable(reference(params, at("value"), value)?)
        }
        (_, value) => EndOperand::Constant(value.cloned().unwrap_or_default()),
    };
    Some(EndCondition { place, left: left?, operator: operator?, right })
}
