//! What budgets in the configuration mean.

use serde::Deserialize as _;
use weft_core::budget::BudgetLimits;
use weft_engine::EngineLimits;

/// A run has a budget of model calls, also where others of its budgets are set and this one is not.
pub(super) fn run_budget<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BudgetLimits, D::Error> {
    let set = BudgetLimits::deserialize(deserializer)?;
    let model_calls = set.model_calls.or(EngineLimits::default().budget.model_calls);
    Ok(BudgetLimits { model_calls, ..set })
}

/// The names of limits with which no model could be asked.
pub(super) fn useless(limits: BudgetLimits) -> impl Iterator<Item = &'static str> {
    let BudgetLimits { model_calls, tokens, money, seconds, rounds: _, tool_calls: _ } = limits;
    let positive = |number: f64| number.is_finite() && number > 0.0;
    let useless = [
        ("model_calls", model_calls == Some(0)),
        ("tokens", tokens == Some(0)),
        ("money", money.is_some_and(|money| !positive(money))),
        ("seconds", seconds.is_some_and(|seconds| !positive(seconds))),
    ];
    useless.into_iter().filter_map(|(name, useless)| useless.then_some(name))
}
