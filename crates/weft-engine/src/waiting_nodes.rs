//! Nodes that wait for a person before they start: which they are, what they are given, and how they
//! continue. Nodes that wait in the middle of their work are in [`crate::suspend`].

use serde_json::Map;
use weft_core::Json;
use weft_core::component::Form;
use weft_core::journal::WaitingForm;
use weft_core::reference::Inputs;
use weft_core::seam::task_store::TaskStatus;
use weft_dsl::plan::NodeIx;

use crate::form::satisfied;
use crate::machine::Machine;
use crate::scope::{Filled, ScopeId, ScopedNode, Status};

impl Machine {
    /// Suspends a node until its form is answered, before it starts.
    pub(crate) fn wait_for_form(&mut self, scope: ScopeId, ix: NodeIx) {
        let local = self.plan.nodes[ix].local;
        self.newly_waiting = true;
        if let Some(run) = self.scopes.get_mut(&scope) {
            run.change(local, |node| {
                node.status = Status::Suspended;
                node.asked = None;
            });
        }
    }

    /// Returns the form of a waiting node, with current values. Of a form that is answered in parts, only
    /// what is still open.
    pub fn form(&self, scope: ScopeId, ix: NodeIx) -> WaitingForm {
        let node = &self.plan.nodes[ix];
        let form = match self.suspended_node(scope, ix) {
            Some(suspended) => suspended.open(),
            None => {
                let reads = node.reads.iter();
                let values = reads.map(|read| (read.reference.clone(), self.value(scope, read)));
                node.component.form(&Inputs::from_iter(values))
            }
        };
        WaitingForm::new(node.id.clone(), self.path(scope), form)
    }

    /// Lets a waiting node start if these answers are all that its form needs. Answers under one address are
    /// used once per run: a form that comes up again asks again. Returns whether the node starts.
    pub fn answer(
        &mut self,
        place: ScopedNode,
        form: &Form,
        address: &str,
        answers: Map<String, Json>,
    ) -> bool {
        // In this order: incomplete answers do not use up their address.
        if !satisfied(form, &answers) || !self.answered.insert(address.to_owned()) {
            return false;
        }
        self.end_task(place, None, TaskStatus::Answered);
        self.go_on(place, Filled { values: answers, timed_out: false });
        true
    }

    /// Lets a node start that waited for a person.
    pub(crate) fn go_on(&mut self, place: ScopedNode, filled: Filled) {
        let (scope, ix) = place;
        self.filled.insert(place, filled);
        let local = self.plan.nodes[ix].local;
        if let Some(run) = self.scopes.get_mut(&scope) {
            run.change(local, |state| {
                state.status = Status::Waiting;
                state.pending = true;
            });
        }
        self.work.push_back(place);
        self.settle();
    }

    /// Returns the nodes that wait for a person.
    pub fn waiting_nodes(&self) -> Vec<(ScopeId, NodeIx)> {
        let mut waiting = Vec::new();
        for (&scope, run) in &self.scopes {
            let nodes = self.plan.scopes[run.plan_scope].nodes.iter();
            let suspended = nodes.zip(&run.nodes).filter(|(_, state)| state.status == Status::Suspended);
            waiting.extend(suspended.map(|(&ix, _)| (scope, ix)));
        }
        waiting
    }
}
