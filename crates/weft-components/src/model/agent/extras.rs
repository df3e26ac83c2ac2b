//! Parameters of an agent that are objects.

use weft_core::budget::BudgetLimits;
use weft_core::suggest::{did_you_mean, nearest};
use weft_core::{Json, ParamProblem};

use super::Drive;
use crate::params::{Field, Kind, Params, choice, described, number, pointer, whole};

/// How the planner works.
pub(super) static PLANNER: Field = Field::raw(
    "planner",
    Kind::Object(&[
        Field::raw(
            "analyse",
            Kind::Choice(&[choice("concat", ""), choice("llm", "")]),
            "who formulates the task",
        ),
        Field::raw(
            "reflect",
            Kind::Choice(&[choice("observation", ""), choice("llm", "")]),
            "who reviews each step",
        ),
        Field::raw("language", Kind::Text, "the language of the answer"),
    ]),
    "the settings of the planner",
);
/// Whether a person has to agree to the plan.
pub(super) static REVIEW_PLAN: Field<bool> =
    Field::flag("review_plan", "whether a person has to approve the plan; implies the planner");
/// The budget of the agent.
pub(super) static BUDGET: Field = Field::raw(
    "budget",
    Kind::Object(&[
        Field::raw("rounds", COUNT, "rounds"),
        Field::raw("tool_calls", COUNT, "tool calls"),
        Field::raw("model_calls", COUNT, "model calls"),
        Field::raw("tokens", COUNT, "tokens"),
        Field::raw("money", AMOUNT, "money, in the currency of the price list"),
        Field::raw("seconds", AMOUNT, "seconds"),
    ]),
    "limits on its usage",
);
const COUNT: Kind = Kind::Whole { min: 0, max: i64::MAX };
const AMOUNT: Kind = Kind::Number { min: 0.0, max: f64::INFINITY };

/// The settings in `planner`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PlannerWords {
    /// Whether the model analyses the task first.
    pub analyse: bool,
    /// Whether the model reflects on each step.
    pub reflect: bool,
    /// The language of the answer.
    pub language: Option<String>,
}

/// Reads `planner`; unknown keys cause a warning.
pub(super) fn planner(params: &mut Params<'_>) -> PlannerWords {
    const KEYS: [&str; 3] = ["analyse", "reflect", "language"];
    let Some(given) = params.object(&PLANNER) else { return PlannerWords::default() };
    for key in given.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        let problem =
            ParamProblem::new(pointer(&["planner", key]), "has no effect: a planner has no such key");
        params.warn(problem.help(help(key, &KEYS)));
    }
    let mut by_model = |key: &str, plain: &str| match given.get(key).filter(|value| !value.is_null()) {
        None => false,
        Some(Json::String(word)) if word == "llm" => true,
        Some(Json::String(word)) if word.is_empty() || word == plain => false,
        Some(other) => {
            let message = format!("must be `llm` or `{plain}`, and is {}", described(other));
            params.problem(ParamProblem::new(pointer(&["planner", key]), message));
            false
        }
    };
    let (analyse, reflect) = (by_model("analyse", "concat"), by_model("reflect", "observation"));
    let language = given.get("language").and_then(Json::as_str).filter(|language| !language.is_empty());
    PlannerWords { analyse, reflect, language: language.map(str::to_owned) }
}

/// Reads `review_plan`, which requires the planner.
pub(super) fn review(params: &mut Params<'_>, drive: Drive) -> bool {
    let review = params.take(&REVIEW_PLAN);
    if review && drive == Drive::Native {
        let problem = ParamProblem::new("/review_plan", "the driver `native` does not plan");
        params.problem(problem.help("use the driver `planner`"));
    }
    review
}

/// Reads `budget`; absent limits do not apply.
pub(super) fn budget(params: &mut Params<'_>) -> BudgetLimits {
    const KEYS: [&str; 6] = ["rounds", "tool_calls", "model_calls", "tokens", "money", "seconds"];
    let mut limits = BudgetLimits::default();
    let Some(given) = params.object(&BUDGET) else { return limits };
    for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        // NaN fails every comparison, so it is refused like a negative number.
        let amount = number(value).filter(|amount| *amount >= 0.0);
        if amount == Some(0.0) && matches!(key.as_str(), "model_calls" | "tokens" | "money" | "seconds") {
            let problem =
                ParamProblem::new(pointer(&["budget", key]), "is 0: no model is called, so the node fails");
            params.warn(problem.help("allow more, or remove the limit"));
        }
        let count = amount.and_then(whole).and_then(|count| u64::try_from(count).ok());
        let (place, kind) = match key.as_str() {
            "rounds" => (&mut limits.rounds, "a whole number"),
            "tool_calls" => (&mut limits.tool_calls, "a whole number"),
            "model_calls" => (&mut limits.model_calls, "a whole number"),
            "tokens" => (&mut limits.tokens, "a whole number"),
            "money" | "seconds" => {
                let place = if key == "money" { &mut limits.money } else { &mut limits.seconds };
                *place = amount;
                if amount.is_none() {
                    refuse(params, key, "a number", value);
                }
                continue;
            }
            _ => {
                let problem = ParamProblem::new(pointer(&["budget", key]), "is not a limit of a budget");
                params.problem(problem.help(help(key, &KEYS)));
                continue;
            }
        };
        *place = count;
        if count.is_none() {
            refuse(params, key, kind, value);
        }
    }
    limits
}

fn refuse(params: &mut Params<'_>, key: &str, kind: &str, value: &Json) {
    let message = format!("must be {kind} from 0, and is {}", described(value));
    params.problem(ParamProblem::new(pointer(&["budget", key]), message));
}

fn help(key: &str, known: &[&str]) -> String {
    let meant = nearest(key, known.iter().copied());
    meant.map_or_else(|| format!("use one of {}", known.join(", ")), did_you_mean)
}
