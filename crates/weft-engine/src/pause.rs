//! A waiting run as plain data: everything the machine needs to resume in another process.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::budget::Spent;
use weft_core::citation::{Citations, Cited};
use weft_core::context::RunContext;
use weft_core::{Error, ErrorKind, Result, RunId, TaskId, TurnInput};
use weft_dsl::plan::Plan;

use crate::frame::FrameRun;
use crate::machine::{Machine, MachineLimits, RunningNode};
use crate::scope::{NodeState, ScopeId, ScopeRun, SuspendedSince};

/// The format of [`Paused`]. Earlier formats can still be read; format 2 added work that waits midway.
const FORMAT: u32 = 2;

/// A run that waits for a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Paused {
    /// The [`FORMAT`] of the writer.
    format: u32,
    /// The canvas version whose nodes the numbers below refer to.
    plan_version: Arc<str>,
    scopes: BTreeMap<ScopeId, ScopeRun>,
    frames: BTreeMap<u32, FrameRun>,
    running: BTreeMap<u32, RunningNode>,
    next_activation: u32,
    next_scope: ScopeId,
    allowance: u64,
    seed: u64,
    /// Number of fields that its forms have together.
    pub fields: usize,
    /// The run that waits.
    pub run: RunId,
    /// The run that the turn began with, when it has waited before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<RunId>,
    /// The caller's input.
    pub input: TurnInput,
    /// The sources it has found.
    pub cited: Vec<Cited>,
    /// Whether it has searched for sources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    searched: bool,
    /// What it has used.
    #[serde(default)]
    pub spent: Spent,
}

impl Paused {
    /// Captures a machine at rest whose forms have `fields` fields together.
    pub fn take(machine: &Machine, context: &RunContext, fields: usize) -> Self {
        Self {
            format: FORMAT,
            plan_version: Arc::clone(&machine.plan.version),
            scopes: machine.scopes.clone(),
            frames: machine.frames.clone(),
            running: machine.running.clone(),
            next_activation: machine.next_activation,
            next_scope: machine.next_scope,
            allowance: machine.allowance,
            seed: machine.seed,
            fields,
            run: context.run.clone(),
            began: machine.turn.clone(),
            input: context.input.clone(),
            cited: context.citations.all(),
            searched: context.citations.was_searched(),
            spent: context.budget.spent(),
        }
    }

    /// Returns its sources, with the numbers that they had.
    pub fn citations(&self) -> Citations {
        let citations = Citations::restore(self.cited.iter().cloned());
        if self.searched {
            citations.note_search();
        }
        citations
    }

    /// Restores the machine.
    ///
    /// # Errors
    /// `Conflict` when the plan is not the one that was paused.
    pub fn restore(
        self,
        plan: Arc<Plan>,
        globals: serde_json::Map<String, weft_core::Json>,
        limits: MachineLimits,
    ) -> Result<Machine> {
        // Node numbers are positions in one plan; in another plan they would refer to the wrong nodes.
        if self.format > FORMAT || self.plan_version != plan.version || !self.fits(&plan) {
            let message = format!("run {} waits on another version of its canvas", self.run);
            return Err(Error::new(ErrorKind::Conflict, message).help("start a new turn"));
        }
        let mut machine = Machine::new(plan, globals, self.seed, limits);
        machine.turn = Some(self.turn().clone());
        machine.scopes = self.scopes;
        machine.frames = self.frames;
        machine.running = self.running;
        machine.next_activation = self.next_activation;
        machine.next_scope = self.next_scope;
        machine.allowance = self.allowance;
        // A person may take days to answer; that time is not work.
        machine.spent = self.spent.without_time();
        // A new machine has entered its first node, as at the start of a run; this one resumes at its own places.
        machine.ready.clear();
        machine.work.clear();
        machine.consequences.clear();
        // What still counts as running are frames, which take no slot.
        machine.working = 0;
        // Weights are not stored.
        machine.weigh_all();
        Ok(machine)
    }

    /// Returns the run that the turn began with.
    pub fn turn(&self) -> &RunId {
        self.began.as_ref().unwrap_or(&self.run)
    }

    /// Whether a caller's input may answer this run. A bare question may when the form has at most one field, which has
    /// to suit it; otherwise it begins a new turn, except that work waiting midway is not abandoned for it.
    pub fn is_answered_by(&self, input: &TurnInput) -> bool {
        // An empty turn resumes it too: the wait may have timed out.
        !input.inputs.is_empty() || input.query.is_empty() || self.fields <= 1 || self.waits_within()
    }

    /// Completes an answer with what its turn began with, where the answer brings no replacement, and returns
    /// the answer's own text.
    pub(crate) fn complete(&self, answer: &mut TurnInput) -> String {
        if answer.files.is_empty() {
            answer.files.clone_from(&self.input.files);
        }
        if answer.pins.is_empty() {
            answer.pins.clone_from(&self.input.pins);
        }
        std::mem::replace(&mut answer.query, self.input.query.clone())
    }

    /// Returns the tasks of suspended nodes that have not been answered yet.
    pub fn open_tasks(&self) -> impl Iterator<Item = TaskId> {
        self.scopes.values().flat_map(|run| &run.nodes).flat_map(NodeState::open_tasks)
    }

    /// Whether a task is open.
    pub fn waits_for(&self, task: &TaskId) -> bool {
        self.open_tasks().any(|open| open == *task)
    }

    /// Clears the times at which forms were asked: what is open when the next run ends counts as new. Nodes
    /// with a task among `over` keep theirs, with tasks of their own.
    pub fn forget_asked(&mut self, over: &[TaskId]) {
        for node in self.scopes.values_mut().flat_map(|run| &mut run.nodes) {
            let ended = node.open_tasks().any(|task| over.contains(&task));
            // Under another run's name, because the ids of tasks follow from it.
            let own = |asked: SuspendedSince| SuspendedSince { run: RunId::generate(), ..asked };
            node.asked = node.asked.take().filter(|_| ended).map(own);
        }
    }

    /// Whether a node waits in the middle of its work.
    pub fn waits_within(&self) -> bool {
        self.scopes.values().flat_map(|run| &run.nodes).any(|node| node.suspended.is_some())
    }

    fn fits(&self, plan: &Plan) -> bool {
        let scopes = self.scopes.values().all(|run| {
            plan.scopes.get(run.plan_scope).is_some_and(|scope| {
                scope.nodes.len() == run.nodes.len() && scope.edges.len() == run.edges.len()
            })
        });
        let past = self.scopes.values().flat_map(|run| run.past.keys().copied());
        let nodes = self.frames.values().map(|f| f.node).chain(self.running.values().map(|r| r.node));
        scopes && nodes.chain(past).all(|ix| ix < plan.nodes.len())
    }
}
