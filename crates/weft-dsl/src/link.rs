//! Drafts of nodes → a linked graph: edges, scopes, loops, and which nodes wait for which.

mod waits;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use weft_core::component::{Component, ComponentSpec, Role, Shape};
use weft_core::usage::is_run_usage;
use weft_core::{ComponentId, Reference};

use crate::graph;
use crate::plan::{Exception, LoopRegion, NodeIx, PlanEdge, PlanNode, PlanScope, PlannedRead};

/// A built node that is not linked yet. Ids that name nothing are ignored: the caller reports them.
pub struct NodeDraft {
    /// Its id.
    pub id: ComponentId,
    /// Its display name.
    pub name: Arc<str>,
    /// Its component type.
    pub spec: &'static ComponentSpec,
    /// The component that does the work.
    pub component: Arc<dyn Component>,
    /// Its declared properties.
    pub shape: Shape,
    /// The enclosing Iteration or Loop.
    pub parent: Option<ComponentId>,
    /// Its ordinary successors, unless its shape has branches.
    pub downstream: Vec<ComponentId>,
    /// What happens when it fails.
    pub exception: Exception,
    /// Time limit of one activation.
    pub time_limit: Option<Duration>,
}

/// A fact about the graph that the author should know.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// No edge leads to this node.
    Unreachable(NodeIx),
    /// No edge leads to this node, but a node that runs calls it as a tool.
    OnlyCalled(NodeIx),
    /// These nodes form a cycle that never ends: no branch leads out.
    EndlessCycle(Vec<NodeIx>),
    /// An Iteration or Loop without an item node.
    NoStart(NodeIx),
    /// An Iteration or Loop with several item nodes: the first one counts.
    SeveralStarts(NodeIx),
    /// An ExitLoop outside of any Loop.
    LeavesNothing(NodeIx),
    /// An edge between two levels: such an edge is not possible.
    CrossesFrame(NodeIx, NodeIx, Way),
    /// A node reads the output of a node that only runs after it: the value is empty.
    ReadsLater(NodeIx, Reference),
}

/// How a node leads to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Always.
    Always,
    /// Through one of its branches.
    Branch,
    /// After a failure.
    Failure,
}

/// A linked graph.
pub struct Linked {
    /// Nodes, in the order of the drafts.
    pub nodes: Vec<PlanNode>,
    /// Scopes, the top level first.
    pub scopes: Vec<PlanScope>,
    /// Node index by id.
    pub by_id: HashMap<ComponentId, NodeIx>,
    /// What the author should know.
    pub findings: Vec<Finding>,
}

/// Links drafts. `entry` is the id of the node where a run starts; it must be among the drafts and
/// at the top level.
pub fn link(drafts: Vec<NodeDraft>, entry: &ComponentId) -> Linked {
    let by_id: HashMap<_, _> = drafts.iter().enumerate().map(|(ix, d)| (d.id.clone(), ix)).collect();
    let wiring: Vec<_> = drafts.iter().map(Wiring::of).collect();
    let mut linked = Linked { nodes: Vec::new(), scopes: Vec::new(), by_id, findings: Vec::new() };
    linked.nodes = drafts.into_iter().map(|draft| plan_node(draft, &linked.by_id)).collect();
    linked.lay_out_scopes(&wiring, entry);
    for scope in 0..linked.scopes.len() {
        linked.connect(scope, &wiring);
    }
    linked.note_calls();
    linked.note_messages();
    linked.note_passes();
    linked.wait();
    linked
}

struct Wiring {
    parent: Option<ComponentId>,
    ordinary: Vec<ComponentId>,
    exception: Vec<ComponentId>,
}

impl Wiring {
    fn of(draft: &NodeDraft) -> Self {
        let ordinary = match &draft.shape.branches {
            Some(branches) => branches.iter().flat_map(|(_, ids)| ids.iter().cloned()).collect(),
            None => draft.downstream.clone(),
        };
        // Editors leave the targets in place when the setting is turned off.
        let exception = if draft.exception.armed { draft.exception.goto.clone() } else { Vec::new() };
        Self { parent: draft.parent.clone(), ordinary, exception }
    }
}

fn plan_node(draft: NodeDraft, by_id: &HashMap<ComponentId, NodeIx>) -> PlanNode {
    let read = |reference: &Reference| PlannedRead {
        reference: reference.clone(),
        key: reference.to_string().into(),
        node: reference.component().and_then(|id| by_id.get(id)).copied(),
        same_pass: false,
    };
    let unique = |references: &[Reference]| {
        let mut seen = HashSet::new();
        references.iter().filter(|r| seen.insert((*r).clone())).map(read).collect::<Vec<_>>()
    };
    PlanNode {
        reads: unique(&draft.shape.reads.always),
        alternative_reads: draft.shape.reads.alternatives.iter().map(|a| unique(a)).collect(),
        id: draft.id,
        name: draft.name,
        kind: draft.spec.kind.into(),
        role: draft.spec.role,
        component: draft.component,
        shape: draft.shape,
        scope: 0,
        local: 0,
        body: None,
        outs: Vec::new(),
        ins: Vec::new(),
        waits: Vec::new(),
        alternative_waits: Vec::new(),
        dependents: Vec::new(),
        listeners: Vec::new(),
        message_follows: false,
        exception: draft.exception,
        out_of_reach: Vec::new(),
        time_limit: draft.time_limit,
    }
}

impl Linked {
    /// Returns the frames that a node is in, innermost first.
    pub(crate) fn frames_around(&self, ix: NodeIx) -> impl Iterator<Item = NodeIx> {
        let owner = |ix: NodeIx| self.scopes[self.nodes[ix].scope].owner;
        // A canvas may name parents in a cycle; no chain is longer than the canvas.
        std::iter::successors(owner(ix), move |&owner_ix| owner(owner_ix)).take(self.nodes.len())
    }

    fn lay_out_scopes(&mut self, wiring: &[Wiring], entry: &ComponentId) {
        // The caller has taken the entry from the drafts, so it is always found.
        let start = self.by_id.get(entry).copied().unwrap_or_default();
        self.scopes.push(PlanScope { start, ..PlanScope::default() });
        for ix in 0..self.nodes.len() {
            if matches!(self.nodes[ix].role, Role::Each | Role::Repeat) {
                self.nodes[ix].body = Some(self.scopes.len());
                self.scopes.push(PlanScope { owner: Some(ix), start: NodeIx::MAX, ..PlanScope::default() });
            }
        }
        for (ix, wiring) in wiring.iter().enumerate() {
            let parent = wiring.parent.as_ref().and_then(|id| self.by_id.get(id));
            let scope = parent.and_then(|&parent| self.nodes[parent].body).unwrap_or(0);
            self.nodes[ix].scope = scope;
            self.nodes[ix].local = self.scopes[scope].nodes.len();
            self.scopes[scope].nodes.push(ix);
            self.note_start(ix, scope);
        }
        for scope in &self.scopes {
            if let (Some(owner), NodeIx::MAX) = (scope.owner, scope.start) {
                self.findings.push(Finding::NoStart(owner));
            }
        }
        for ix in 0..self.nodes.len() {
            if self.nodes[ix].role == Role::Leave && self.enclosing_repeat(ix).is_none() {
                self.findings.push(Finding::LeavesNothing(ix));
            }
        }
    }

    fn note_start(&mut self, ix: NodeIx, scope: usize) {
        let level = &mut self.scopes[scope];
        let Some(owner) = level.owner.filter(|_| self.nodes[ix].role == Role::RoundStart) else { return };
        if level.start == NodeIx::MAX {
            level.start = ix;
        } else {
            self.findings.push(Finding::SeveralStarts(owner));
        }
    }

    fn owner(&self, ix: NodeIx) -> Option<NodeIx> {
        self.scopes[self.nodes[ix].scope].owner
    }

    fn enclosing_repeat(&self, ix: NodeIx) -> Option<NodeIx> {
        // A canvas may name parents in a cycle; no chain is longer than the canvas.
        std::iter::successors(self.owner(ix), |&owner| self.owner(owner))
            .take(self.nodes.len())
            .find(|&owner| self.nodes[owner].role == Role::Repeat)
    }

    /// Creates the edges of one scope and finds its loops.
    fn connect(&mut self, scope: usize, wiring: &[Wiring]) {
        let start = self.scopes[scope].start;
        if start == NodeIx::MAX {
            return;
        }
        let members = self.scopes[scope].nodes.clone();
        let edges = self.edges_of(scope, &members, wiring);
        let mut successors = vec![Vec::new(); members.len()];
        for edge in &edges {
            successors[self.nodes[edge.from].local].push(self.nodes[edge.to].local);
        }
        let (back, seen) = graph::back_edges(&successors, self.nodes[start].local);
        for (&node, seen) in members.iter().zip(&seen) {
            if !seen {
                self.findings.push(Finding::Unreachable(node));
            }
        }
        self.report_endless_cycles(&members, &successors, &seen);
        let back: HashSet<_> = back.into_iter().collect();
        // Nodes that cannot be reached lead nowhere: their edges would hold others back for ever.
        let edges: Vec<_> = edges.into_iter().filter(|e| seen[self.nodes[e.from].local]).collect();
        self.scopes[scope].edges = edges;
        self.find_loops(scope, &members, &successors, &back);
        self.attach(scope);
    }

    fn edges_of(&mut self, scope: usize, members: &[NodeIx], wiring: &[Wiring]) -> Vec<PlanEdge> {
        let mut edges: Vec<PlanEdge> = Vec::new();
        let mut known = HashMap::new();
        for &from in members {
            let ordinary = wiring[from].ordinary.iter().map(|id| (id, false));
            let exception = wiring[from].exception.iter().map(|id| (id, true));
            for (id, exception) in ordinary.chain(exception) {
                let Some(&to) = self.by_id.get(id) else { continue };
                // An edge from the end of a body to its own item node, or from a frame to its item node,
                // describes what happens anyway: the next round.
                let into_own_body = self.owner(to) == Some(from) && !exception;
                if to == self.scopes[scope].start && scope != 0 || into_own_body {
                    continue;
                }
                if self.nodes[to].scope != scope {
                    let way = if exception { Way::Failure } else { self.ordinary_way(from) };
                    self.cut(from, to, way);
                    continue;
                }
                // One edge for each pair of nodes, whatever leads along it: its target waits for it once and
                // runs once.
                let place = *known.entry((from, to)).or_insert_with(|| {
                    let (closes, leaves) = (None, Vec::new());
                    edges.push(PlanEdge { from, to, ordinary: false, exception: false, closes, leaves });
                    edges.len() - 1
                });
                let edge = &mut edges[place];
                if exception { edge.exception = true } else { edge.ordinary = true }
            }
        }
        edges
    }

    /// Drops an edge between two levels: it cannot be taken, and a failure that would take it is not caught by it.
    fn cut(&mut self, from: NodeIx, to: NodeIx, way: Way) {
        let target = self.nodes[to].id.clone();
        let node = &mut self.nodes[from];
        match way {
            Way::Failure => node.exception.goto.retain(|id| *id != target),
            // Kept with the node: if it chooses this branch at run time, its activation fails instead of
            // ending as if all were well.
            Way::Branch if !node.out_of_reach.contains(&target) => node.out_of_reach.push(target),
            Way::Branch | Way::Always => {}
        }
        self.findings.push(Finding::CrossesFrame(from, to, way));
    }

    /// Returns how a node continues when it has not failed.
    pub(crate) fn ordinary_way(&self, from: NodeIx) -> Way {
        if self.nodes[from].shape.branches.is_some() { Way::Branch } else { Way::Always }
    }

    fn report_endless_cycles(&mut self, members: &[NodeIx], successors: &[Vec<usize>], seen: &[bool]) {
        let component = graph::components(successors);
        let mut cycles: HashMap<usize, Vec<usize>> = HashMap::new();
        for local in (0..members.len()).filter(|&local| seen[local]) {
            cycles.entry(component[local]).or_default().push(local);
        }
        let mut cycles: Vec<_> = cycles.into_iter().collect();
        // The order of a hash map is random; the findings should be the same every time.
        cycles.sort();
        for (number, cycle) in cycles {
            let round = cycle.len() > 1 || successors[cycle[0]].contains(&cycle[0]);
            let leaves = |local: usize| {
                let node = &self.nodes[members[local]];
                let chooses = node.shape.branches.is_some() || !node.exception.goto.is_empty();
                chooses && successors[local].iter().any(|&to| component[to] != number)
                    || node.role == Role::Leave
            };
            if round && !cycle.iter().any(|&local| leaves(local)) {
                let nodes = cycle.iter().map(|&local| members[local]).collect();
                self.findings.push(Finding::EndlessCycle(nodes));
            }
        }
    }

    fn find_loops(
        &mut self,
        scope: usize,
        members: &[NodeIx],
        successors: &[Vec<usize>],
        back: &HashSet<(usize, usize)>,
    ) {
        // With closing edges, a path from header to tail could lead through other loops and add their nodes.
        let mut forward = successors.to_vec();
        for (from, targets) in forward.iter_mut().enumerate() {
            targets.retain(|&to| !back.contains(&(from, to)));
        }
        let backward = graph::reversed(&forward);
        let mut regions: Vec<(usize, HashSet<usize>)> = Vec::new();
        let mut tails: Vec<_> = back.iter().copied().collect();
        // The order of a hash set is random; the regions of a plan should be numbered the same every time.
        tails.sort_unstable();
        for (tail, header) in tails {
            let body = graph::loop_body(&forward, &backward, header, tail);
            // Several edges back to one header are one loop: each of them begins the same next pass.
            match regions.iter_mut().find(|(h, _)| *h == header) {
                Some((_, nodes)) => nodes.extend(body),
                None => regions.push((header, body.into_iter().collect())),
            }
        }
        let local = |ix: NodeIx| self.nodes[ix].local;
        // Taken out while they are changed, since the nodes that they lead to are looked up in `self`.
        let mut edges = std::mem::take(&mut self.scopes[scope].edges);
        for edge in &mut edges {
            let (from, to) = (local(edge.from), local(edge.to));
            if back.contains(&(from, to)) {
                edge.closes = regions.iter().position(|(header, _)| *header == to);
            }
            edge.leaves = (0..regions.len())
                .filter(|&r| regions[r].1.contains(&from) && !regions[r].1.contains(&to))
                .collect();
        }
        let loops = regions.into_iter().map(|(header, nodes)| {
            let inside = |ix: NodeIx| nodes.contains(&local(ix));
            let entries = (0..edges.len()).filter(|&e| inside(edges[e].to) && !inside(edges[e].from));
            let entries = entries.collect();
            let mut nodes: Vec<_> = nodes.iter().map(|&n| members[n]).collect();
            // `LoopRegion::holds` searches them by bisection.
            nodes.sort_unstable();
            LoopRegion { header: members[header], nodes, entries }
        });
        self.scopes[scope].loops = loops.collect();
        self.scopes[scope].edges = edges;
    }

    /// Sets the edges and listeners of a scope's nodes.
    fn attach(&mut self, scope: usize) {
        for (place, edge) in self.scopes[scope].edges.iter().enumerate() {
            self.nodes[edge.from].outs.push(place);
            // A closing edge holds nothing back: its target would wait for itself.
            if edge.closes.is_none() {
                self.nodes[edge.to].ins.push(place);
            }
            let to = &self.nodes[edge.to];
            // What a run has used is known only when the nodes before it have ended: such a listener must not
            // start earlier.
            let listens = to.shape.listens && !reads_run_usage(to);
            // Along a closing edge the text belongs to the next pass.
            let hears = listens && reads_from(to, edge.from) && edge.closes.is_none();
            // A node with branches shows only at its end where it leads, so nobody can listen before that.
            let from = &mut self.nodes[edge.from];
            if hears && edge.ordinary && from.shape.streams && from.shape.branches.is_none() {
                from.listeners.push(edge.to);
            }
        }
    }

    /// Marks the nodes after which a Message may run, at any distance. What follows a frame also follows the
    /// nodes of its body, and a Message in a body follows what leads to its frame. A Message shows its own
    /// text, so no further one follows it.
    fn note_messages(&mut self) {
        let says = |node: &PlanNode| node.shape.listens || &*node.kind == "Message";
        let mut shows: Vec<bool> = self.nodes.iter().map(says).collect();
        for ix in (0..self.nodes.len()).filter(|&ix| says(&self.nodes[ix])) {
            let around = std::iter::successors(self.owner(ix), |&owner| self.owner(owner));
            around.take(self.nodes.len()).for_each(|owner| shows[owner] = true);
        }
        let mut before = vec![Vec::new(); self.nodes.len()];
        for edge in self.scopes.iter().flat_map(|scope| &scope.edges).filter(|edge| edge.ordinary) {
            before[edge.to].push(edge.from);
        }
        let mut follows = vec![false; self.nodes.len()];
        let mut open: Vec<_> =
            (0..shows.len()).filter(|&ix| shows[ix]).flat_map(|ix| before[ix].clone()).collect();
        while let Some(ix) = open.pop() {
            if !std::mem::replace(&mut follows[ix], true) {
                open.extend(&before[ix]);
                open.extend(self.nodes[ix].body.into_iter().flat_map(|body| &self.scopes[body].nodes));
            }
        }
        for (node, follows) in self.nodes.iter_mut().zip(follows) {
            node.message_follows = follows && !says(node);
        }
    }

    /// Marks reads within a loop.
    fn note_passes(&mut self) {
        for scope in &self.scopes {
            for region in &scope.loops {
                let inside = |ix: NodeIx| region.holds(ix);
                for &ix in &region.nodes {
                    let node = &mut self.nodes[ix];
                    let chosen = node.alternative_reads.iter_mut().flatten();
                    for read in node.reads.iter_mut().chain(chosen) {
                        read.same_pass |= read.node.is_some_and(inside);
                    }
                }
            }
        }
    }
}

/// Whether a node reads the run's usage. It waits for the nodes before it, since what they use is not known earlier.
fn reads_run_usage(node: &PlanNode) -> bool {
    let mut reads = node.reads.iter().chain(node.alternative_reads.iter().flatten());
    reads.any(|read| matches!(&read.reference, Reference::Global(name) if is_run_usage(name)))
}

fn reads_from(node: &PlanNode, source: NodeIx) -> bool {
    let chosen = node.alternative_reads.iter().flatten();
    node.reads.iter().chain(chosen).any(|read| read.node == Some(source))
}
