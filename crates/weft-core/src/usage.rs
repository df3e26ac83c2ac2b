//! Usage of models: by which node of a run, how much, and at what cost.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Json;
use crate::budget::Spent;
use crate::id::{ComponentId, DatasetKey, MemoryKey, SessionKey, TenantId};
use crate::tokens::{Prices, Usage};

/// A model call that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedModel {
    /// The name, in the settings, of the model that answered.
    pub model: Arc<str>,
    /// The tokens it read and wrote.
    pub usage: Usage,
    /// The cost, in millionths of the currency of the prices; 0 if the price is unknown.
    pub micros: u64,
}

/// The result of a model, with its usage.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted<T> {
    /// The result.
    pub given: T,
    /// The tokens it read and wrote, as far as its provider reports them.
    pub usage: Usage,
    /// The prices, if known.
    pub prices: Option<Prices>,
}

impl<T> Counted<T> {
    /// Creates the result of one call whose usage is not reported.
    pub fn untold(given: T) -> Self {
        Self { given, usage: Usage { calls: 1, ..Usage::default() }, prices: None }
    }
}

/// What used a model outside of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageOwner {
    /// Work on a dataset.
    Dataset(DatasetKey),
    /// Extraction of memories from turns.
    Memory(MemoryKey),
    /// Reading of files that people add to a conversation, before the run starts.
    Conversation(SessionKey),
}

impl UsageOwner {
    /// Returns the tenant it belongs to.
    pub fn tenant(&self) -> &TenantId {
        match self {
            Self::Dataset(key) => &key.tenant,
            Self::Memory(key) => &key.tenant,
            Self::Conversation(key) => &key.tenant,
        }
    }

    /// Returns an id that stands in for a node and tells what the model was used for.
    pub fn node(&self) -> ComponentId {
        ComponentId::new(match self {
            Self::Dataset(key) => format!("dataset:{}", key.id),
            Self::Memory(key) => format!("memory:{}", key.id),
            // The conversation that is stored with the usage tells whose files they are.
            Self::Conversation(_) => "files".to_owned(),
        })
    }
}

/// The usage of one model by one node of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUse {
    /// The node.
    pub node: ComponentId,
    /// The name of the model in the settings; empty in older data.
    pub model: Arc<str>,
    /// The tokens it read and wrote, in all calls together.
    pub usage: Usage,
    /// The cost, in millionths.
    pub micros: u64,
}

/// Adds a call to the usage of a run, which has one entry per node and model.
pub fn add(uses: &mut Vec<ModelUse>, node: &ComponentId, used: &UsedModel) {
    match uses.iter_mut().find(|one| one.node == *node && one.model == used.model) {
        Some(known) => {
            known.usage += used.usage;
            known.micros = known.micros.saturating_add(used.micros);
        }
        None => {
            let UsedModel { model, usage, micros } = used.clone();
            uses.push(ModelUse { node: node.clone(), model, usage, micros });
        }
    }
}

/// The global variable with the usage of the run so far, for nodes that have finished. Its members are those of
/// [`run_usage`].
pub const RUN_USAGE: &str = "sys.usage";

/// Returns whether a global variable is the usage of the run, or a member of it.
pub fn is_run_usage(name: &str) -> bool {
    name.strip_prefix(RUN_USAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the usage of a run as canvases read it. Money is in the currency of the prices.
pub fn run_usage(spent: Spent) -> Json {
    json!({
        "model_calls": spent.model_calls,
        "tool_calls": spent.tool_calls,
        "total_tokens": spent.tokens,
        "money": spent.micros as f64 / 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_up_by_node_and_model() {
        let mut uses = Vec::new();
        for (node, model, calls) in [("a", "m", 1), ("a", "m", 2), ("a", "n", 4), ("b", "m", 8)] {
            let usage = Usage { calls, ..Usage::default() };
            add(&mut uses, &node.into(), &UsedModel { model: model.into(), usage, micros: u64::MAX / 2 });
        }
        let seen: Vec<_> = uses.iter().map(|one| (one.node.as_str(), &*one.model, one.usage.calls)).collect();
        assert_eq!(seen, [("a", "m", 3), ("a", "n", 4), ("b", "m", 8)]);
        assert_eq!(uses[0].micros, u64::MAX - 1);
    }
}
