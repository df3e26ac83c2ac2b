//! Decides what starts next, what is finished, and what is skipped. Never waits and never calls anything
//! outside; the same inputs in the same order give the same state.
//!
//! An edge is open, fired or dead. A node becomes ready when an edge to it has fired, no edge that holds it
//! back is open, and everything that it reads has finished or been skipped. When all its edges are dead it is
//! skipped, and skipping spreads. A join therefore runs once, whether it is all-of or any-of.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::budget::Spent;
use weft_core::component::{Role, Route};
use weft_core::context::Round;
use weft_core::journal::{ActivationRef, NextEdges};
use weft_core::seam::task_store::TaskStatus;
use weft_core::value::OrderedMap;
use weft_core::{ComponentId, Error, Json, Outputs, Reference, RunId, TaskId, Value};
use weft_dsl::plan::{NodeIx, Plan, PlannedRead};

use crate::assign::VariableChanges;
use crate::frame::FrameRun;
use crate::loops::next_pass;
use crate::output_dedup::SaidSoFar;
use crate::scope::{EdgeState, Filled, ScopeId, ScopeRun, Status};
use crate::secrets::SecretValues;

/// The top-level scope of a canvas.
pub(crate) const TOP: ScopeId = 0;

/// An activation that may start now.
#[derive(Debug)]
pub struct ActivationStart {
    /// Its number and node.
    pub who: ActivationRef,
    /// The node's index in the plan.
    pub node: NodeIx,
    /// The values that it reads.
    pub inputs: OrderedMap<Reference, Value>,
    /// The same values by the names that events use.
    pub named: Arc<Outputs>,
    /// Which of its alternative texts was chosen.
    pub alternative: usize,
    /// The innermost round around it.
    pub round: Option<Round>,
    /// What a person filled in or decided.
    pub filled: serde_json::Map<String, Json>,
    /// The form was not answered in time.
    pub timed_out: bool,
    /// The state it saved when it stopped to wait for a person.
    pub resumed: Option<Json>,
    /// What its node had said before its work was suspended.
    pub spoken: SaidSoFar,
    /// Whether it has a listener.
    pub heard: bool,
}

/// A consequence of what has happened, for the driver to carry out.
#[derive(Debug, PartialEq)]
pub enum Consequence {
    /// A node can no longer run in its round.
    Skipped(ScopeId, NodeIx),
    /// An activation must stop: its frame is closed.
    Stop(u32, Closed),
    /// The frame of this activation is complete; these are its outputs.
    FrameDone(u32, Arc<Outputs>),
    /// Something in the frame of this activation has failed; the frame's exception settings determine what
    /// happens then.
    FrameFailed(u32, BrokenFrame),
}

/// Why a frame was closed early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// An ExitLoop has left it.
    Left,
    /// Something else in it has failed.
    Failed,
}

/// A frame that was closed by a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokenFrame {
    /// What failed, and why.
    pub reason: String,
    /// What the Iteration or Loop itself has produced so far.
    pub outputs: Arc<Outputs>,
}

/// The results of a finished activation.
#[derive(Debug)]
pub struct FinishedActivation {
    /// Its outputs.
    pub outputs: Arc<Outputs>,
    /// Which of its edges fire.
    pub onward: NextEdges,
    /// New values of globals and of other components' outputs.
    pub changes: VariableChanges,
}

/// An activation under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunningNode {
    /// The scope it is in.
    pub scope: ScopeId,
    /// Its node.
    pub node: NodeIx,
    /// Whether it takes one of the slots for concurrent nodes.
    pub works: bool,
    /// For a listener: the edges that its start used up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub took: Vec<usize>,
}

/// Limits of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineLimits {
    /// Maximum number of nodes that work concurrently.
    pub at_once: usize,
    /// Number of activations beyond the one that each node has, and that nodes in a body have in each round
    /// of an Iteration or Loop.
    pub activations: u64,
}

/// The state of one run.
#[derive(Debug)]
pub struct Machine {
    pub(crate) plan: Arc<Plan>,
    pub(crate) limits: MachineLimits,
    pub(crate) seed: u64,
    /// The run that the turn began with, when this run resumes it.
    pub(crate) turn: Option<RunId>,
    /// The top-level scope and the scope of each open round.
    pub(crate) scopes: BTreeMap<ScopeId, ScopeRun>,
    /// Iterations and Loops with open frames, by their activations.
    pub(crate) frames: BTreeMap<u32, FrameRun>,
    /// The activations under way, by number.
    pub(crate) running: BTreeMap<u32, RunningNode>,
    pub(crate) globals: serde_json::Map<String, Json>,
    /// What finished nodes have used.
    pub(crate) spent: Spent,
    /// The tenant's secrets that the plan names. They are not part of what is stored.
    pub(crate) secrets: SecretValues,
    pub(crate) filled: HashMap<(ScopeId, NodeIx), Filled>,
    /// The addresses whose answers have been used.
    pub(crate) answered: HashSet<String>,
    /// A node has started waiting since the driver last looked.
    pub(crate) newly_waiting: bool,
    /// How tasks have ended in this run.
    pub(crate) ended: Vec<(TaskId, TaskStatus)>,
    /// The node whose form mentions that some of the caller's answers had no effect, and the message.
    pub(crate) unused: Option<(ComponentId, String)>,
    pub(crate) next_activation: u32,
    pub(crate) next_scope: ScopeId,
    /// Number of activations that may still start.
    pub(crate) allowance: u64,
    /// Approximate size of its values, in bytes.
    pub(crate) held_bytes: usize,
    /// Number of slots for concurrent nodes that are taken.
    pub(crate) working: usize,
    /// Nodes that were ready when last examined, in the order in which they became ready.
    pub(crate) ready: VecDeque<(ScopeId, NodeIx)>,
    /// Nodes that are ready and wait for a slot.
    pub(crate) in_line: VecDeque<(ScopeId, NodeIx)>,
    /// Nodes to examine because something that they depend on has changed.
    pub(crate) work: VecDeque<(ScopeId, NodeIx)>,
    /// Consequences that the driver has not taken yet.
    pub(crate) consequences: VecDeque<Consequence>,
}

impl Machine {
    /// Creates the machine of a run that has not begun.
    pub fn new(
        plan: Arc<Plan>,
        globals: serde_json::Map<String, Json>,
        seed: u64,
        limits: MachineLimits,
    ) -> Self {
        let allowance = limits.activations.saturating_add(plan.nodes.len() as u64);
        let mut machine = Self {
            limits,
            seed,
            turn: None,
            scopes: BTreeMap::new(),
            frames: BTreeMap::new(),
            running: BTreeMap::new(),
            globals,
            spent: Spent::default(),
            secrets: SecretValues::default(),
            filled: HashMap::new(),
            answered: HashSet::new(),
            // A machine that is restored begins as this one, and may have nodes that wait.
            newly_waiting: true,
            ended: Vec::new(),
            unused: None,
            next_activation: 1,
            next_scope: TOP + 1,
            allowance,
            held_bytes: 0,
            working: 0,
            ready: VecDeque::new(),
            in_line: VecDeque::new(),
            work: VecDeque::new(),
            consequences: VecDeque::new(),
            plan,
        };
        let top = ScopeRun::new(0, &machine.plan.scopes[0], None, Arc::from([]));
        machine.scopes.insert(TOP, top);
        machine.weigh_all();
        machine.enter(TOP);
        machine
    }

    /// Makes the start node of a scope pending.
    pub(crate) fn enter(&mut self, scope: ScopeId) {
        let plan = Arc::clone(&self.plan);
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        let start = plan.scopes[run.plan_scope].start;
        run.change(plan.nodes[start].local, |node| node.pending = true);
        self.work.push_back((scope, start));
        self.settle();
    }

    /// Returns the next consequence of what has happened so far. Call until it returns `None`.
    pub fn consequence(&mut self) -> Option<Consequence> {
        self.consequences.pop_front()
    }

    /// Notes that a running node has begun to write a text: listeners may start.
    pub fn published(&mut self, activation: u32, output: &str, text: Value) {
        let Some(RunningNode { scope, node, .. }) = self.running.get(&activation).cloned() else { return };
        let plan = Arc::clone(&self.plan);
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        run.nodes[plan.nodes[node].local].published.get_or_insert_default().texts.set(output, text);
        for &edge in &plan.nodes[node].outs {
            let to = plan.scopes[run.plan_scope].edges[edge].to;
            if matches!(run.edges[edge], EdgeState::Open | EdgeState::Again)
                && plan.nodes[node].listeners.contains(&to)
            {
                run.edges[edge] = EdgeState::Early;
                run.change(plan.nodes[to].local, |state| state.pending = true);
                self.work.push_back((scope, to));
            }
        }
        self.settle();
    }

    /// Passes on the other outputs of a running node whose work has ended: nodes that started early can read
    /// them, although the node itself finishes later.
    pub fn produced(&self, activation: u32, produced: Result<&Outputs, &Error>) {
        let Some(RunningNode { scope, node, .. }) = self.running.get(&activation) else { return };
        let state = self.scopes.get(scope).map(|run| &run.nodes[self.plan.nodes[*node].local]);
        if let Some(published) = state.and_then(|state| state.published.as_ref()) {
            published.whole.settle(produced.map(|outputs| Arc::new(outputs.clone())));
        }
    }

    /// Returns the activations that are reading the text this one writes.
    pub fn listening_to(&self, activation: u32) -> Vec<u32> {
        let Some(RunningNode { scope, node, .. }) = self.running.get(&activation) else { return Vec::new() };
        let Some(run) = self.scopes.get(scope) else { return Vec::new() };
        let node = &self.plan.nodes[*node];
        let edges = &self.plan.scopes[run.plan_scope].edges;
        let taken = node.outs.iter().filter(|&&edge| run.edges[edge] == EdgeState::EarlyTaken);
        taken
            .filter_map(|&edge| match run.nodes[self.plan.nodes[edges[edge].to].local].status {
                Status::Running(listener) => Some(listener),
                _ => None,
            })
            .collect()
    }

    /// Notes that an activation has finished.
    pub fn finished(&mut self, activation: u32, done: FinishedActivation) {
        // While it is still among the running ones, from which its place within the frames is found.
        let caught = if done.onward == NextEdges::None { self.catching(activation) } else { None };
        let Some(RunningNode { scope, node, works, .. }) = self.running.remove(&activation) else { return };
        self.working -= usize::from(works);
        self.drop_frame(activation);
        let plan = Arc::clone(&self.plan);
        let broken = caught.map(|frame| (frame, self.broken(frame, node, &done.outputs)));
        if let Some(run) = self.scopes.get_mut(&scope) {
            run.change(plan.nodes[node].local, |state| {
                state.status = Status::Done;
                state.outputs = Some(done.outputs);
                state.published = None;
            });
        }
        self.weigh_node(scope, plan.nodes[node].local);
        self.commit(done.changes);
        if let Some((frame, broken)) = broken {
            return self.break_off(frame, broken);
        }
        self.work.extend(plan.nodes[node].dependents.iter().map(|&dependent| (scope, dependent)));
        self.work.push_back((scope, node));
        match (&done.onward, plan.nodes[node].role) {
            (NextEdges::Routed(Route::EndFrame), Role::RoundStart) => return self.end_frame(scope),
            (NextEdges::Routed(_), Role::Leave) => return self.leave(scope),
            _ => self.leave_node(scope, node, &done.onward),
        }
        self.settle();
    }

    /// Fires and kills the edges of a finished node.
    fn leave_node(&mut self, scope: ScopeId, node: NodeIx, onward: &NextEdges) {
        let plan = Arc::clone(&self.plan);
        let Some(plan_scope) = self.scopes.get(&scope).map(|run| run.plan_scope) else { return };
        let edges = &plan.scopes[plan_scope].edges;
        let taken = |edge: usize| match onward {
            NextEdges::Routed(Route::Onward) => edges[edge].ordinary,
            NextEdges::Routed(Route::To(ids)) => {
                edges[edge].ordinary && ids.contains(&plan.nodes[edges[edge].to].id)
            }
            NextEdges::Routed(Route::EndFrame) | NextEdges::None | NextEdges::Suspended => false,
            NextEdges::Exception => edges[edge].exception,
        };
        let outs = || plan.nodes[node].outs.iter().copied();
        // Edges not taken come first: a node that both kinds lead to must not start before it is known which
        // of them count.
        for edge in outs().filter(|&edge| !taken(edge)) {
            self.kill(scope, edge);
        }
        // Edges that close a loop come last: they begin the next pass, which reopens dying edges.
        let closes = |edge: usize| edges[edge].closes.is_some();
        for edge in outs().filter(|&edge| taken(edge) && !closes(edge)) {
            self.fire(scope, edge);
        }
        for edge in outs().filter(|&edge| taken(edge) && closes(edge)) {
            self.fire(scope, edge);
        }
    }

    /// Fires an edge: its target may run.
    fn fire(&mut self, scope: ScopeId, edge: usize) {
        let plan = &*self.plan;
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        let Some(shape) = plan.scopes[run.plan_scope].edges.get(edge) else { return };
        // Before the edge fires: the next pass opens the edges of the loop, this one among them.
        if let Some(region) = shape.closes {
            next_pass(run, plan, region);
        }
        let local = plan.nodes[shape.to].local;
        if run.edges[edge] == EdgeState::EarlyTaken {
            // The target has already started with the text that is now complete.
            run.edges[edge] = EdgeState::Fired;
        } else {
            run.edges[edge] = EdgeState::Fresh;
            run.change(local, |state| state.pending = true);
        }
        self.work.push_back((scope, shape.to));
    }

    /// Kills an edge that is not taken. An edge that leaves a cycle dies only when the cycle no longer comes round.
    fn kill(&mut self, scope: ScopeId, edge: usize) {
        let plan = Arc::clone(&self.plan);
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        let shape = &plan.scopes[run.plan_scope].edges[edge];
        // It was taken before, and its target has not started yet: the target starts with that earlier result.
        if run.edges[edge] == EdgeState::Again {
            run.edges[edge] = EdgeState::Fresh;
            run.change(plan.nodes[shape.to].local, |state| state.pending = true);
            self.work.push_back((scope, shape.to));
            return;
        }
        // Nothing waits for an edge that closes a loop, so it need not die.
        if shape.closes.is_some() {
            return;
        }
        let was_early = run.edges[edge] == EdgeState::Early;
        if shape.leaves.is_empty() {
            run.edges[edge] = EdgeState::Dead;
        } else {
            run.edges[edge] = EdgeState::Dying;
            run.dying.push(edge);
        }
        if was_early {
            self.recount_pending(scope, shape.to);
        }
        self.work.push_back((scope, shape.to));
    }

    pub(crate) fn recount_pending(&mut self, scope: ScopeId, ix: NodeIx) {
        let plan = &*self.plan;
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        let edges = &plan.scopes[run.plan_scope].edges;
        let pending = (0..edges.len())
            .any(|e| edges[e].to == ix && matches!(run.edges[e], EdgeState::Fresh | EdgeState::Early));
        run.change(plan.nodes[ix].local, |state| state.pending = pending);
    }

    /// Works out everything that follows from what has changed.
    pub(crate) fn settle(&mut self) {
        loop {
            while let Some((scope, node)) = self.work.pop_front() {
                self.examine(scope, node);
            }
            if !self.bury() && !self.close_rounds() {
                return;
            }
        }
    }

    /// Determines whether a node is ready or can no longer run.
    fn examine(&mut self, scope: ScopeId, ix: NodeIx) {
        let node = &self.plan.nodes[ix];
        let Some(run) = self.scopes.get(&scope) else { return };
        let state = &run.nodes[node.local];
        if matches!(state.status, Status::Running(_) | Status::Suspended) {
            return;
        }
        if state.pending || state.status == Status::Resuming {
            if !state.queued && self.can_start(scope, node).is_some() {
                let local = node.local;
                self.mark_queued(scope, local);
                self.ready.push_back((scope, ix));
            }
            return;
        }
        // In a later pass of a loop an edge from outside is used up: it counts as not taken.
        let used_up = |&edge: &usize| matches!(run.edges[edge], EdgeState::Dead | EdgeState::Fired);
        let dead = !node.ins.is_empty() && node.ins.iter().all(used_up);
        if state.status == Status::Waiting && dead {
            self.skip(scope, ix);
        }
    }

    /// Skips a node that can no longer run, and with it everything that only it leads to.
    fn skip(&mut self, scope: ScopeId, ix: NodeIx) {
        let plan = Arc::clone(&self.plan);
        if let Some(run) = self.scopes.get_mut(&scope) {
            run.change(plan.nodes[ix].local, |state| {
                state.status = Status::Skipped;
                state.spoken = None;
            });
        }
        self.consequences.push_back(Consequence::Skipped(scope, ix));
        for &edge in &plan.nodes[ix].outs {
            self.kill(scope, edge);
        }
        self.work.extend(plan.nodes[ix].dependents.iter().map(|&dependent| (scope, dependent)));
    }

    /// Returns the value of something that a node of this scope reads.
    pub fn value(&self, scope: ScopeId, read: &PlannedRead) -> Value {
        crate::values::read(self, scope, read)
    }

    /// Returns the frame path of a scope.
    pub fn path(&self, scope: ScopeId) -> weft_core::journal::FramePath {
        self.scopes.get(&scope).map_or_else(|| Arc::from([]), |run| Arc::clone(&run.path))
    }

    /// Returns the identity and the node of a running activation.
    pub fn who(&self, activation: u32) -> Option<(ActivationRef, NodeIx)> {
        let running = self.running.get(&activation)?;
        Some((self.name(activation, running.scope, running.node), running.node))
    }

    pub(crate) fn name(&self, activation: u32, scope: ScopeId, ix: NodeIx) -> ActivationRef {
        let node = &self.plan.nodes[ix];
        let frame = self.path(scope);
        ActivationRef {
            activation,
            node: node.id.clone(),
            name: node.name.clone(),
            kind: node.kind.clone(),
            frame,
        }
    }

    /// Returns nodes that have been reached and still cannot start. This is empty for every run at rest,
    /// unless the plan or this file has a defect.
    pub fn stuck(&self) -> Vec<ComponentId> {
        let mut stuck = Vec::new();
        for run in self.scopes.values() {
            let nodes = self.plan.scopes[run.plan_scope].nodes.iter().zip(&run.nodes);
            let pending = nodes.filter(|(_, state)| state.pending && state.status != Status::Suspended);
            stuck.extend(pending.map(|(&ix, _)| self.plan.nodes[ix].id.clone()));
        }
        stuck
    }
}
