//! Nodes that wait for a person: which they are, what they are told, and how they go on.

use weft_core::reference::Inputs;
use weft_core::{ComponentId, Json};
use weft_dsl::plan::NodeIx;

use crate::machine::Machine;
use crate::scope::{ScopeId, Status};

impl Machine {
    /// Values a person filled in, by Pause node.
    pub fn fill(&mut self, node: ComponentId, values: serde_json::Map<String, Json>) {
        self.filled.insert(node, values);
    }

    /// The values that a waiting form is filled in with.
    pub fn inputs_of(&self, scope: ScopeId, ix: NodeIx) -> Inputs {
        let reads = self.plan.nodes[ix].reads.iter();
        Inputs(reads.map(|read| (read.reference.clone(), self.value(scope, read))).collect())
    }

    /// Marks the answers that came with the run for this node as used. Whether they were unused.
    pub fn use_answers(&mut self, node: &ComponentId) -> bool {
        self.answered.insert(node.clone())
    }

    /// The nodes that wait for a person.
    pub fn parked(&self) -> Vec<(ScopeId, NodeIx)> {
        let mut parked = Vec::new();
        for (&scope, run) in &self.scopes {
            let nodes = self.plan.scopes[run.plan_scope].nodes.iter();
            let waiting = nodes.zip(&run.nodes).filter(|(_, state)| state.status == Status::Parked);
            parked.extend(waiting.map(|(&ix, _)| (scope, ix)));
        }
        parked
    }

    /// A person has answered: the node may start.
    pub fn unpark(&mut self, scope: ScopeId, ix: NodeIx) {
        let local = self.plan.nodes[ix].local;
        if let Some(run) = self.scopes.get_mut(&scope) {
            run.change(local, |state| {
                state.status = Status::Waiting;
                state.pending = true;
            });
        }
        self.work.push_back((scope, ix));
        self.settle();
    }
}
