//! Nodes that wait for a person: which they are, what they are told, and how they go on.

use serde_json::Map;
use weft_core::Json;
use weft_core::component::Form;
use weft_core::reference::Inputs;
use weft_dsl::plan::NodeIx;

use crate::form::satisfied;
use crate::machine::Machine;
use crate::scope::{ScopeId, Status};

impl Machine {
    /// What a waiting node asks, with the values of this moment.
    pub fn form(&self, scope: ScopeId, ix: NodeIx) -> Form {
        let node = &self.plan.nodes[ix];
        let reads = node.reads.iter();
        let inputs = Inputs(reads.map(|read| (read.reference.clone(), self.value(scope, read))).collect());
        node.component.form(&inputs)
    }

    /// Lets a waiting node go on when these answers are all that its form needs. Answers are used once
    /// in a run: a form that comes up again asks again. Whether it goes on.
    pub fn answer(
        &mut self,
        (scope, ix): (ScopeId, NodeIx),
        form: &Form,
        answers: Map<String, Json>,
    ) -> bool {
        let node = self.plan.nodes[ix].id.clone();
        if !satisfied(form, &answers) || !self.answered.insert(node.clone()) {
            return false;
        }
        self.filled.insert(node, answers);
        self.unpark(scope, ix);
        true
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
    fn unpark(&mut self, scope: ScopeId, ix: NodeIx) {
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
