//! What models were used for: by which node of a run, how much, and what it cost.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Json;
use crate::budget::Spent;
use crate::id::{ComponentId, DatasetKey, MemoryKey, SessionKey, TenantId};
use crate::seam::chat_model::{Prices, Usage};

/// A call of a model that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedModel {
    /// The model that has answered, by its name in the settings.
    pub model: Arc<str>,
    /// What it has read and written.
    pub usage: Usage,
    /// What that cost, in millionths of the currency of the prices; 0 when nobody said what it costs.
    pub micros: u64,
}

/// What a model has given, with what it has used for that.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted<T> {
    /// What it has given.
    pub given: T,
    /// What it has read and written, as far as its provider tells.
    pub usage: Usage,
    /// What that costs, if it is known.
    pub prices: Option<Prices>,
}

impl<T> Counted<T> {
    /// What was given in one call of which nobody tells what it has used.
    pub fn untold(given: T) -> Self {
        Self { given, usage: Usage { calls: 1, ..Usage::default() }, prices: None }
    }
}

/// What uses models outside of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageOwner {
    /// Work on a dataset.
    Dataset(DatasetKey),
    /// What is found in turns for a memory.
    Memory(MemoryKey),
    /// Files that people bring to a conversation, which are read before the run begins.
    Conversation(SessionKey),
}

impl UsageOwner {
    /// Whose it is.
    pub fn tenant(&self) -> &TenantId {
        match self {
            Self::Dataset(key) => &key.tenant,
            Self::Memory(key) => &key.tenant,
            Self::Conversation(key) => &key.tenant,
        }
    }

    /// In place of a node: what the use was for.
    pub fn node(&self) -> ComponentId {
        ComponentId::new(match self {
            Self::Dataset(key) => format!("dataset:{}", key.id),
            Self::Memory(key) => format!("memory:{}", key.id),
            // Whose they are says the conversation that is noted with it.
            Self::Conversation(_) => "files".to_owned(),
        })
    }
}

/// What one node of a run has used of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUse {
    /// The node.
    pub node: ComponentId,
    /// The model, by its name in the settings; empty in what was written before this was known.
    pub model: Arc<str>,
    /// What it has read and written, in all calls together.
    pub usage: Usage,
    /// What that cost, in millionths.
    pub micros: u64,
}

/// Adds a call to what a run has used: there is one entry for each node and model.
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

/// The global variable that has what a run has used so far: of its nodes that are over. Its members are those of
/// [`run_usage`].
pub const RUN_USAGE: &str = "sys.usage";

/// Whether a global variable, or a member of one, is of what the run has used.
pub fn is_run_usage(name: &str) -> bool {
    name.strip_prefix(RUN_USAGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What a run has used, as canvases read it. Money is in the currency of the prices.
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
