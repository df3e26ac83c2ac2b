//! The settings that a run begins with: the models that its canvas names, and its budgets.

use std::collections::{BTreeSet, HashSet};

use weft_core::journal::RunSettings;
use weft_core::{ComponentId, TenantId};
use weft_dsl::Plan;

use super::Engine;

impl Engine {
    /// Returns the settings that the results of a run of this plan depend on.
    pub(super) fn settings_of(&self, plan: &Plan, tenant: &TenantId) -> RunSettings {
        let named: BTreeSet<&str> =
            plan.nodes.iter().flat_map(|node| node.shape.models.iter().map(|(_, id)| id.as_str())).collect();
        let models = named.into_iter().filter_map(|id| {
            // A node that uses a model that does not exist fails by itself.
            let model = self.0.seams.models.resolve(tenant, id).ok()?;
            Some((id.to_owned(), model.info().clone()))
        });
        RunSettings {
            models: models.collect(),
            budget: self.0.limits.of(plan).budget,
            session_budget: self.0.allowances.session,
        }
    }

    /// Returns the models of a plan that are substituted by others, each with the first node that names it.
    pub(super) fn substitutions(&self, plan: &Plan, tenant: &TenantId) -> Vec<(ComponentId, String)> {
        let named = plan
            .nodes
            .iter()
            .flat_map(|node| node.shape.models.iter().map(move |(_, llm_id)| (&node.id, llm_id.as_str())));
        let mut seen = HashSet::new();
        named
            .filter(|(_, llm_id)| seen.insert(*llm_id))
            .filter_map(|(node, llm_id)| {
                Some((node.clone(), self.0.seams.models.substitution(tenant, llm_id)?))
            })
            .collect()
    }
}
