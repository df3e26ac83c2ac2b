//! The memory that a run's values take, counted where it changes: outputs of nodes and of finished rounds,
//! items and collected results of Iterations, saved state of waiting nodes, and globals.

use weft_core::value::weight;
use weft_core::{Json, Outputs, Value};

use crate::machine::{Machine, RunningNode};
use crate::scope::{NodeState, ScopeId, ScopeRun, SuspendedNode};

/// Approximate size of some values, in bytes.
pub(crate) fn weight_of<'a>(values: impl IntoIterator<Item = &'a Json>) -> usize {
    values.into_iter().map(|value| weight(value).unwrap_or_default()).sum()
}

/// Approximate size of outputs, in bytes.
pub(crate) fn outputs_weight(outputs: &Outputs) -> usize {
    let each = outputs.0.iter().map(|(name, value)| match value {
        Value::Json(json) => name.len() + weight_of([&**json]),
        Value::Stream(text) => name.len() + text.bytes(),
        // Counted where it is produced.
        Value::Pending(_) => name.len(),
    });
    each.sum()
}

fn suspended_weight(suspended: &SuspendedNode) -> usize {
    weight_of(suspended.form.fields.values().chain([&suspended.state]))
}

fn weight_of_node(node: &NodeState) -> usize {
    node.outputs.as_deref().map_or(0, outputs_weight) + node.suspended.as_deref().map_or(0, suspended_weight)
}

fn weight_of_scope(run: &ScopeRun) -> usize {
    run.nodes.iter().map(|node| node.bytes).chain(run.past.values().map(|past| past.bytes)).sum()
}

impl Machine {
    /// Approximate size of the values of the run, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Approximate number of those bytes that the outputs of a running activation will replace.
    pub fn replaced_bytes(&self, activation: u32) -> usize {
        let Some(&RunningNode { scope, node, .. }) = self.running.get(&activation) else { return 0 };
        self.scopes.get(&scope).map_or(0, |run| run.nodes[self.plan.nodes[node].local].bytes)
    }

    /// Replaces `old` bytes by `new` in the count.
    pub(crate) fn replace_bytes(&mut self, old: usize, new: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(old).saturating_add(new);
    }

    /// Recounts a node that has changed.
    pub(crate) fn weigh_node(&mut self, scope: ScopeId, local: usize) {
        let Some(node) = self.scopes.get_mut(&scope).and_then(|run| run.nodes.get_mut(local)) else { return };
        let new = weight_of_node(node);
        let old = std::mem::replace(&mut node.bytes, new);
        self.replace_bytes(old, new);
    }

    /// Subtracts a scope that was removed.
    pub(crate) fn forget_scope(&mut self, run: &ScopeRun) {
        self.replace_bytes(weight_of_scope(run), 0);
    }

    /// Removes a frame that is over.
    pub(crate) fn drop_frame(&mut self, activation: u32) {
        if let Some(frame) = self.frames.remove(&activation) {
            self.replace_bytes(frame.bytes, 0);
        }
    }

    /// Recounts everything.
    pub(crate) fn weigh_all(&mut self) {
        let mut sum = weight_of(self.globals.values());
        for run in self.scopes.values_mut() {
            run.nodes.iter_mut().for_each(|node| node.bytes = weight_of_node(node));
            run.past.values_mut().for_each(|past| past.bytes = outputs_weight(&past.outputs));
            sum += weight_of_scope(run);
        }
        for frame in self.frames.values_mut() {
            let items = frame.items.as_deref().map_or(0, weight_of);
            frame.bytes = items + weight_of(frame.collected.values().flatten());
            sum += frame.bytes;
        }
        self.held_bytes = sum;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::scope::Past;
    use serde_json::json;

    #[test]
    fn outputs_weigh_as_much_as_their_texts() {
        let (writer, text) = weft_core::SharedText::new();
        writer.push(weft_core::Piece::Text("12345".into()));
        let outputs = Outputs::from_iter([("a", Value::text("xyz")), ("b", Value::Stream(text))]);
        assert_eq!(outputs_weight(&outputs), 1 + 3 + 1 + 5);
        assert_eq!(weight_of(&[json!("ab"), json!([1])]), 2 + 9);
    }

    #[test]
    fn a_newer_round_replaces_the_remembered_one() {
        let past = |round, bytes| Past { frame: 1, round, outputs: Arc::default(), bytes };
        let mut run = ScopeRun::new(0, &weft_dsl::plan::PlanScope::default(), None, Arc::from([]));
        assert_eq!(run.remember(0, past(0, 10)), 0);
        assert_eq!(run.remember(0, past(2, 20)), 10);
        // A round that ends late is not the last one.
        assert_eq!(run.remember(0, past(1, 30)), 30);
        assert_eq!(weight_of_scope(&run), 20);
    }
}
