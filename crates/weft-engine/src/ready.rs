//! Decides whether a node that has been reached may start, with which of its texts, and with what values.

use std::sync::Arc;

use weft_core::context::mix;
use weft_core::masking::MASK;
use weft_core::value::OrderedMap;
use weft_core::{Outputs, Reference, Value};
use weft_dsl::plan::{NodeIx, PlanNode, PlannedRead};

use crate::machine::Machine;
use crate::scope::{ScopeId, ScopeRun, Status};

impl Machine {
    /// Returns whether a pending node may start and, if so, which of its alternative texts it uses.
    pub(crate) fn can_start(&self, scope: ScopeId, node: &PlanNode) -> Option<usize> {
        let run = self.scopes.get(&scope)?;
        let state = &run.nodes[node.local];
        if let (Status::Resuming, Some(suspended)) = (state.status, &state.suspended) {
            return Some(suspended.alternative);
        }
        if !state.pending || matches!(state.status, Status::Running(_) | Status::Suspended) {
            return None;
        }
        let held = node.ins.iter().any(|&edge| run.edges[edge].holds());
        if held {
            return None;
        }
        if state.excused {
            return Some(self.choose(run, node).unwrap_or(0));
        }
        let there = node.waits.iter().all(|&source| self.can_read(run, node, source));
        there.then(|| self.choose(run, node)).flatten()
    }

    fn can_read(&self, run: &ScopeRun, reader: &PlanNode, source: NodeIx) -> bool {
        let source_node = &self.plan.nodes[source];
        let state = &run.nodes[source_node.local];
        let listens = source_node.listeners.iter().any(|&l| self.plan.nodes[l].id == reader.id);
        state.is_settled() || (listens && state.published.is_some())
    }

    /// Picks one of several texts: at random by the run's seed, but not one that refers to a skipped node
    /// while there is another, and only once everything the chosen text reads is available.
    fn choose(&self, run: &ScopeRun, node: &PlanNode) -> Option<usize> {
        let count = node.alternative_waits.len();
        if count <= 1 && node.alternative_waits.iter().all(Vec::is_empty) {
            return Some(0);
        }
        let skipped = |source: NodeIx| {
            let state = &run.nodes[self.plan.nodes[source].local];
            state.status == Status::Skipped && !state.pending
        };
        // The round is mixed in; otherwise every item of an Iteration would get the same text.
        let pass = run.round.as_ref().map_or(0, |round| (round.index as u64 + 1).rotate_left(32));
        let first = usize::try_from(mix(self.seed ^ node.local as u64 ^ pass) % count as u64).unwrap_or(0);
        let order = (0..count).map(|i| (first + i) % count);
        for alternative in order {
            let waits = &node.alternative_waits[alternative];
            if waits.iter().any(|&source| skipped(source)) && count > 1 {
                continue;
            }
            // Only for the chosen text: waiting for what another text reads might never end.
            let there = waits.iter().all(|&source| self.can_read(run, node, source));
            return there.then_some(alternative);
        }
        // Every text refers to something that was skipped: one is used all the same, with that part empty.
        Some(first)
    }

    pub(crate) fn inputs(
        &self,
        scope: ScopeId,
        node: &PlanNode,
        alternative: usize,
    ) -> (OrderedMap<Reference, Value>, Arc<Outputs>) {
        let chosen = node.alternative_reads.get(alternative).map_or(&[][..], Vec::as_slice);
        let count = node.reads.len() + chosen.len();
        let mut inputs = OrderedMap::with_capacity(count);
        let mut named = Outputs(OrderedMap::with_capacity(count));
        // What a node changes is not one of its inputs: the journal would hold every state of a list that a
        // loop appends to.
        let is_input = |read: &&PlannedRead| !node.shape.changes.contains(&read.reference);
        for read in node.reads.iter().chain(chosen).filter(is_input) {
            // All other nodes get complete texts: a component that reads half a text would work with that half.
            let value = if node.shape.listens {
                crate::values::read_early(self, scope, read)
            } else {
                Value::Json(self.value(scope, read).snapshot())
            };
            // Masked here and not in the journal: what clients are shown comes from the same place.
            let hidden = read.reference.secret().is_some() || node.shape.secrets.contains(&read.reference);
            let shown = if hidden { Value::text(MASK) } else { value.clone() };
            named.0.insert(Arc::clone(&read.key), shown);
            inputs.insert(read.reference.clone(), value);
        }
        (inputs, Arc::new(named))
    }
}
