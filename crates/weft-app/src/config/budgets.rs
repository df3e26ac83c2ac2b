//! Validation of budgets in the configuration.

use serde::Deserialize as _;
use weft_core::budget::BudgetLimits;
use weft_engine::EngineLimits;
use weft_models::ModelsConfig;

/// Applies the default budget of model calls when other budgets of runs are set and this one is not.
pub(super) fn run_budget<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BudgetLimits, D::Error> {
    let set = BudgetLimits::deserialize(deserializer)?;
    let model_calls = set.model_calls.or(EngineLimits::default().budget.model_calls);
    Ok(BudgetLimits { model_calls, ..set })
}

/// Returns the names of limits with which no model could be called.
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

/// Returns the models whose prices are not valid. Such a price counts as nothing, so that a budget of money would
/// never be used up.
pub(super) fn impossible_prices(models: &ModelsConfig) -> impl Iterator<Item = &str> {
    let possible = |price: f64| price.is_finite() && price >= 0.0;
    let entries = models.entries.iter().filter(move |entry| {
        entry.prices.is_some_and(|of| {
            let cached = [of.cache_read, of.cache_write].into_iter().flatten();
            ![of.prompt, of.completion].into_iter().chain(cached).all(possible)
        })
    });
    entries.map(|entry| entry.name.as_str())
}
