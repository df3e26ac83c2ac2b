//! Decides: what starts next, what is finished, what is skipped. Never waits, never calls out; the
//! same inputs in the same order give the same state.
//!
//! An edge is open, fired or dead. A node becomes ready when an edge to it has fired, no edge that
//! holds it back is open, and everything that it reads has finished or been skipped. When all its
//! edges are dead it is skipped, and that spreads. So a join runs once, all-of and any-of alike.

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

/// The scope at the top of a canvas.
pub(crate) const TOP: ScopeId = 0;

/// An activation that may begin now.
#[derive(Debug)]
pub struct ActivationStart {
    /// Its number and node.
    pub who: ActivationRef,
    /// Place of the node in the plan.
    pub node: NodeIx,
    /// The values of what it reads.
    pub inputs: OrderedMap<Reference, Value>,
    /// The same by the names that events use.
    pub named: Arc<Outputs>,
    /// Which of its alternative texts was chosen.
    pub alternative: usize,
    /// The innermost round around it.
    pub round: Option<Round>,
    /// What a person filled in or decided.
    pub filled: serde_json::Map<String, Json>,
    /// Nobody filled in anything in time.
    pub timed_out: bool,
    /// What it had to remember when it stopped to wait for a person.
    pub resumed: Option<Json>,
    /// What its node had said before its work was put off.
    pub spoken: SaidSoFar,
    /// Whether a listener follows.
    pub heard: bool,
}

/// Something that follows from what happened, for the driver to carry out.
#[derive(Debug, PartialEq)]
pub enum Consequence {
    /// A node can no longer run in its round.
    Skipped(ScopeId, NodeIx),
    /// An activation must stop: its frame is closed.
    Stop(u32, Closed),
    /// The frame of this activation is complete; these are its outputs.
    FrameDone(u32, Arc<Outputs>),
    /// Something in the frame of this activation has failed, and the frame's exception settings say what
    /// happens then.
    FrameFailed(u32, BrokenFrame),
}

/// Why a frame was closed before its end.
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

/// What a finished activation brings.
#[derive(Debug)]
pub struct FinishedActivation {
    /// Its outputs.
    pub outputs: Arc<Outputs>,
    /// Which of its edges fire.
    pub onward: NextEdges,
    /// New values of globals and of outputs of other components.
    pub changes: VariableChanges,
}

/// An activation under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunningNode {
    /// The round it is in.
    pub scope: ScopeId,
    /// Which node.
    pub node: NodeIx,
    /// Whether it takes one of the places for nodes at once.
    pub works: bool,
    /// For a listener: the edges that its start used up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub took: Vec<usize>,
}

/// How much a run may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineLimits {
    /// Nodes that work at the same time.
    pub at_once: usize,
    /// Activations, beyond one for each node, in each round of an Iteration or a Loop as well.
    pub activations: u64,
}

/// The state of one run.
#[derive(Debug)]
pub struct Machine {
    pub(crate) plan: Arc<Plan>,
    pub(crate) limits: MachineLimits,
    pub(crate) seed: u64,
    /// The run that the turn began with, when this one goes on with it.
    pub(crate) turn: Option<RunId>,
    /// The top and each round that is open.
    pub(crate) scopes: BTreeMap<ScopeId, ScopeRun>,
    /// Iterations and Loops whose rounds are at work, by their activations.
    pub(crate) frames: BTreeMap<u32, FrameRun>,
    /// The activations under way, by number.
    pub(crate) running: BTreeMap<u32, RunningNode>,
    pub(crate) globals: serde_json::Map<String, Json>,
    /// What nodes that are over have used.
    pub(crate) spent: Spent,
    /// What the plan names of the tenant's secrets. No part of what is stored.
    pub(crate) secrets: SecretValues,
    pub(crate) filled: HashMap<(ScopeId, NodeIx), Filled>,
    /// The addresses whose answers have been used.
    pub(crate) answered: HashSet<String>,
    /// A node has been waiting since the driver last looked.
    pub(crate) newly_waiting: bool,
    /// How tasks have ended in this run.
    pub(crate) ended: Vec<(TaskId, TaskStatus)>,
    /// What the caller gave to no effect, and the node that waits instead.
    pub(crate) unused: Option<(ComponentId, String)>,
    pub(crate) next_activation: u32,
    pub(crate) next_scope: ScopeId,
    /// Activations that may still begin.
    pub(crate) allowance: u64,
    /// About how many bytes its values take.
    pub(crate) held_bytes: usize,
    /// How many of the places for nodes at once are taken.
    pub(crate) working: usize,
    /// What was ready when it was last examined, in the order in which it became so.
    pub(crate) ready: VecDeque<(ScopeId, NodeIx)>,
    /// What is ready and waits for one of the places for nodes at once.
    pub(crate) in_line: VecDeque<(ScopeId, NodeIx)>,
    /// What has to be examined, since something that it depends on has changed.
    pub(crate) work: VecDeque<(ScopeId, NodeIx)>,
    /// What the driver has not asked for yet.
    pub(crate) consequences: VecDeque<Consequence>,
}

impl Machine {
    /// A run that has not begun.
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

    /// What follows from what has happened so far. Call until it returns nothing.
    pub fn consequence(&mut self) -> Option<Consequence> {
        self.consequences.pop_front()
    }

    /// A running node has begun to write a text: listeners may begin.
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

    /// The work of a running node has ended: whoever has begun early comes by its other outputs, although
    /// the node itself finishes later.
    pub fn produced(&self, activation: u32, produced: Result<&Outputs, &Error>) {
        let Some(RunningNode { scope, node, .. }) = self.running.get(&activation) else { return };
        let state = self.scopes.get(scope).map(|run| &run.nodes[self.plan.nodes[*node].local]);
        if let Some(published) = state.and_then(|state| state.published.as_ref()) {
            published.whole.settle(produced.map(|outputs| Arc::new(outputs.clone())));
        }
    }

    /// Activations that are reading the text this one writes, by number.
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

    /// An activation is over.
    pub fn finished(&mut self, activation: u32, done: FinishedActivation) {
        // While it is still among those that run: by that its place within the frames is found.
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
        // What is not taken first: a node that both kinds lead to must not start before it is known which of
        // them count.
        for edge in outs().filter(|&edge| !taken(edge)) {
            self.kill(scope, edge);
        }
        // Edges that close a loop come last: they begin the next pass and open again what was dying.
        let closes = |edge: usize| edges[edge].closes.is_some();
        for edge in outs().filter(|&edge| taken(edge) && !closes(edge)) {
            self.fire(scope, edge);
        }
        for edge in outs().filter(|&edge| taken(edge) && closes(edge)) {
            self.fire(scope, edge);
        }
    }

    /// An edge is taken: its target may run.
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
            // The target has begun with the text that is now complete.
            run.edges[edge] = EdgeState::Fired;
        } else {
            run.edges[edge] = EdgeState::Fresh;
            run.change(local, |state| state.pending = true);
        }
        self.work.push_back((scope, shape.to));
    }

    /// An edge is not taken. One that leaves a cycle dies only when that no longer comes round.
    fn kill(&mut self, scope: ScopeId, edge: usize) {
        let plan = Arc::clone(&self.plan);
        let Some(run) = self.scopes.get_mut(&scope) else { return };
        let shape = &plan.scopes[run.plan_scope].edges[edge];
        // It was taken before, and its target has not begun: the result of that time is what it begins with.
        if run.edges[edge] == EdgeState::Again {
            run.edges[edge] = EdgeState::Fresh;
            run.change(plan.nodes[shape.to].local, |state| state.pending = true);
            self.work.push_back((scope, shape.to));
            return;
        }
        // Nobody waits for an edge that closes a loop, so it has no need to die.
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

    /// Draws every conclusion from what has changed.
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

    /// Finds out whether a node is ready or can no longer run.
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
        // In a later pass of a loop a way in from outside is used up: it counts like one not taken.
        let used_up = |&edge: &usize| matches!(run.edges[edge], EdgeState::Dead | EdgeState::Fired);
        let dead = !node.ins.is_empty() && node.ins.iter().all(used_up);
        if state.status == Status::Waiting && dead {
            self.skip(scope, ix);
        }
    }

    /// A node can no longer run, and neither can what only it leads to.
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

    /// The value of something that a node of this scope reads.
    pub fn value(&self, scope: ScopeId, read: &PlannedRead) -> Value {
        crate::values::read(self, scope, read)
    }

    /// The way to a scope.
    pub fn path(&self, scope: ScopeId) -> weft_core::journal::FramePath {
        self.scopes.get(&scope).map_or_else(|| Arc::from([]), |run| Arc::clone(&run.path))
    }

    /// Who a running activation is.
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

    /// Nodes that have been reached and still cannot start. Empty in every run that is at rest, unless
    /// the plan or this file has a defect.
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
