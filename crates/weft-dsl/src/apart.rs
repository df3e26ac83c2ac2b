//! Finds reads of values that can never exist when the reader runs, because the reader and the node it reads
//! are on different branches of a Switch or Categorize.

use weft_core::component::Role;

use crate::assigned::Assigned;
use crate::graph;
use crate::link::Linked;
use crate::plan::{NodeIx, PlanNode, PlannedRead};

/// Maximum number of steps for following the branches of a canvas. Beyond it nothing is reported.
// Each branch of each fork is followed through its whole scope, which is quadratic in the canvas.
const STEPS_MAX: usize = 5_000_000;
/// Maximum number of comparisons of a read with a fork.
const COMPARED_MAX: usize = 1_000_000;

/// A read of an output that another branch produces.
pub(crate) struct ApartRead<'a> {
    /// The node that reads.
    pub reader: NodeIx,
    /// What it reads.
    pub read: &'a PlannedRead,
    /// The node where their branches part.
    pub fork: NodeIx,
}

/// A branching node that a run, or a round of a frame, reaches at most once and of which it takes one branch.
/// The vectors are indexed by a node's position in its scope.
struct BranchPoint {
    node: NodeIx,
    /// Nodes that can be reached without it.
    around: Vec<bool>,
    /// Nodes that each branch leads to.
    branches: Vec<Vec<bool>>,
}

impl BranchPoint {
    fn parts(&self, reader: usize, source: usize) -> bool {
        let led_to = |local: usize| !self.around[local] && self.branches.iter().any(|branch| branch[local]);
        led_to(reader)
            && led_to(source)
            && !self.branches.iter().any(|branch| branch[reader] && branch[source])
    }
}

/// Finds all such reads, as far as the forks of each scope show them.
pub(crate) fn reads<'a>(linked: &'a Linked, assigned: &Assigned<'_>) -> Vec<ApartRead<'a>> {
    let mut left = STEPS_MAX;
    let forks: Vec<Vec<BranchPoint>> =
        (0..linked.scopes.len()).map(|scope| forks(linked, scope, &mut left)).collect();
    if forks.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let mut left = COMPARED_MAX;
    let mut found = Vec::new();
    for (reader, node) in linked.nodes.iter().enumerate() {
        // It takes whichever values have arrived, and expects that some may not.
        if &*node.kind == "VariableAggregator" {
            continue;
        }
        for read in node.reads.iter().chain(node.alternative_reads.iter().flatten()) {
            // An assigner may give the output a value although its own component never runs.
            let fixed = |source: &NodeIx| !assigned.may_change_outputs_of(linked.nodes[*source].id.as_str());
            let Some(source) = read.node.filter(fixed) else { continue };
            let Some((waiter, source)) = linked.lift(reader, source) else { continue };
            let forks = &forks[linked.nodes[waiter].scope];
            let Some(rest) = left.checked_sub(forks.len()) else { return found };
            left = rest;
            let (here, there) = (linked.nodes[waiter].local, linked.nodes[source].local);
            let fork = forks.iter().find(|fork| fork.parts(here, there));
            if let Some(fork) = fork.filter(|_| is_final(linked, waiter, source)) {
                found.push(ApartRead { reader, read, fork: fork.node });
            }
        }
    }
    found
}

/// Whether the reader sees what the current round of a Loop has made of a node: if the node's turn may still
/// come, the reader would see the result of the previous round. Nothing else carries over from one round to
/// the next.
fn is_final(linked: &Linked, waiter: NodeIx, source: NodeIx) -> bool {
    let node = &linked.nodes[waiter];
    let owner = linked.scopes[node.scope].owner;
    let repeats = owner.is_some_and(|owner| linked.nodes[owner].role == Role::Repeat);
    let mut waits = node.waits.iter().chain(node.alternative_waits.iter().flatten());
    !repeats || waits.any(|waited_for| *waited_for == source)
}

/// Returns the forks of one scope; `left` is the number of steps that may still be taken.
fn forks(linked: &Linked, scope: usize, left: &mut usize) -> Vec<BranchPoint> {
    let level = &linked.scopes[scope];
    let mut forks = Vec::new();
    // A body without a start never runs.
    let Some(start) = linked.nodes.get(level.start).map(|start| start.local) else { return forks };
    let mut successors = vec![Vec::new(); level.nodes.len()];
    for edge in &level.edges {
        successors[linked.nodes[edge.from].local].push(linked.nodes[edge.to].local);
    }
    let size = level.nodes.len() + level.edges.len();
    for &node in level.nodes.iter().filter(|&&ix| takes_one_branch(&linked.nodes[ix])) {
        let starts = branch_starts(linked, &linked.nodes[node]);
        let Some(rest) = left.checked_sub(size.saturating_mul(starts.len() + 1)) else { return forks };
        *left = rest;
        let local = linked.nodes[node].local;
        let branches: Vec<_> =
            starts.iter().map(|starts| graph::reachable_from(&successors, starts)).collect();
        // In a cycle, another pass may have taken another branch.
        if branches.iter().any(|branch| branch[local]) {
            continue;
        }
        // Taken out for this one walk: a copy of the graph for each fork would be quadratic memory.
        let ways_on = std::mem::take(&mut successors[local]);
        let mut around = graph::reachable(&successors, start);
        // The fork is on none of its branches, so reads of its own outputs are not reported.
        around[local] = true;
        successors[local] = ways_on;
        forks.push(BranchPoint { node, around, branches });
    }
    forks
}

fn takes_one_branch(node: &PlanNode) -> bool {
    // With a default value in place of its result, its branch is not known.
    matches!(&*node.kind, "Switch" | "Categorize") && node.exception.default.is_none()
}

/// Returns the nodes where each branch of a node starts; its exception branch is one more.
fn branch_starts(linked: &Linked, node: &PlanNode) -> Vec<Vec<usize>> {
    let branches = node.shape.branches.iter().flatten().map(|(_, ids)| ids);
    let failing = Some(&node.exception.goto).filter(|_| node.exception.armed);
    let locals = |ids: &Vec<weft_core::ComponentId>| {
        let nodes = ids.iter().filter_map(|id| linked.by_id.get(id)).map(|&ix| &linked.nodes[ix]);
        nodes.filter(|to| to.scope == node.scope).map(|to| to.local).collect::<Vec<usize>>()
    };
    branches.chain(failing).map(locals).collect()
}
