//! What a journal stores of the settings at the start of its run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::BudgetLimits;
use crate::seam::chat_model::ModelInfo;

/// The settings at the start of a run that its results depend on, so that a replay gives the same results under other
/// settings. A process that resumes the run applies its own settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSettings {
    /// The budget of the run.
    #[serde(skip_serializing_if = "is_unlimited")]
    pub budget: BudgetLimits,
    /// The budget of its session: of all its turns combined.
    #[serde(skip_serializing_if = "is_unlimited")]
    pub session_budget: BudgetLimits,
    /// The chat models that its canvas names, by the ids there, as far as they existed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelInfo>,
}

fn is_unlimited(limits: &BudgetLimits) -> bool {
    *limits == BudgetLimits::default()
}
