//! Reads of what can never have run before the reader, since a run that gets to the one does not get to the other: they are
//! on different branches of a Switch or Categorize.

use crate::assigned::Assigned;
use crate::graph;
use crate::link::Linked;
use crate::plan::{NodeIx, PlanNode, PlannedRead};

/// How many steps it may take to follow the branches of a canvas. Beyond them nothing is said.
const STEPS_MAX: usize = 5_000_000;
/// How many times a read is compared with a fork.
const COMPARED_MAX: usize = 1_000_000;

/// A read of what another branch gives.
pub(crate) struct ApartRead<'a> {
    /// Who reads.
    pub reader: NodeIx,
    /// What.
    pub read: &'a PlannedRead,
    /// Where their branches part.
    pub fork: NodeIx,
}

/// A branching node that a run comes to once at most, and of which it takes one branch. All by the places of nodes on the
/// top level.
struct Fork {
    node: NodeIx,
    /// What a run may come to without it.
    around: Vec<bool>,
    /// What each branch leads to.
    branches: Vec<Vec<bool>>,
}

impl Fork {
    fn parts(&self, reader: usize, source: usize) -> bool {
        let led_to = |local: usize| !self.around[local] && self.branches.iter().any(|branch| branch[local]);
        led_to(reader)
            && led_to(source)
            && !self.branches.iter().any(|branch| branch[reader] && branch[source])
    }
}

/// Finds them all, as far as the forks of the top level say.
pub(crate) fn reads<'a>(linked: &'a Linked, assigned: &Assigned<'_>) -> Vec<ApartRead<'a>> {
    let forks = forks(linked);
    if forks.is_empty() {
        return Vec::new();
    }
    let mut left = COMPARED_MAX;
    let mut found = Vec::new();
    for (reader, node) in linked.nodes.iter().enumerate() {
        // It takes whatever has come, and is made to be told of what may not come.
        if &*node.kind == "VariableAggregator" {
            continue;
        }
        let Some(local) = top_place(linked, reader) else { continue };
        for read in node.reads.iter().chain(node.alternative_reads.iter().flatten()) {
            let fixed = |source: &NodeIx| !assigned.may_change_outputs_of(linked.nodes[*source].id.as_str());
            let source = read.node.filter(fixed).and_then(|source| top_place(linked, source));
            let Some(source) = source else { continue };
            let Some(rest) = left.checked_sub(forks.len()) else { return found };
            left = rest;
            if let Some(fork) = forks.iter().find(|fork| fork.parts(local, source)) {
                found.push(ApartRead { reader, read, fork: fork.node });
            }
        }
    }
    found
}

/// The place on the top level of a node, or of what it is inside of.
fn top_place(linked: &Linked, ix: NodeIx) -> Option<usize> {
    let node = &linked.nodes[linked.frames_around(ix).last().unwrap_or(ix)];
    (node.scope == 0).then_some(node.local)
}

fn forks(linked: &Linked) -> Vec<Fork> {
    let Some(top) = linked.scopes.first() else { return Vec::new() };
    let mut successors = vec![Vec::new(); top.nodes.len()];
    for edge in &top.edges {
        successors[linked.nodes[edge.from].local].push(linked.nodes[edge.to].local);
    }
    let size = top.nodes.len() + top.edges.len();
    let start = linked.nodes[top.start].local;
    let mut left = STEPS_MAX;
    let mut forks = Vec::new();
    for &node in top.nodes.iter().filter(|&&ix| takes_one_branch(&linked.nodes[ix])) {
        let starts = branch_starts(linked, &linked.nodes[node]);
        let Some(rest) = left.checked_sub(size.saturating_mul(starts.len() + 1)) else { return forks };
        left = rest;
        let local = linked.nodes[node].local;
        let branches: Vec<_> =
            starts.iter().map(|starts| graph::reachable_from(&successors, starts)).collect();
        // Where it comes round again, another pass may have taken another branch.
        if branches.iter().any(|branch| branch[local]) {
            continue;
        }
        let ways_on = std::mem::take(&mut successors[local]);
        let mut around = graph::reachable(&successors, start);
        around[local] = true;
        successors[local] = ways_on;
        forks.push(Fork { node, around, branches });
    }
    forks
}

fn takes_one_branch(node: &PlanNode) -> bool {
    // With a value in the place of its result nobody knows where it leads.
    matches!(&*node.kind, "Switch" | "Categorize") && node.exception.default.is_none()
}

/// Where each branch of a node begins; its way after a failure is one more.
fn branch_starts(linked: &Linked, node: &PlanNode) -> Vec<Vec<usize>> {
    let branches = node.shape.branches.iter().flatten().map(|(_, ids)| ids);
    let failing = Some(&node.exception.goto).filter(|_| node.exception.armed);
    let locals = |ids: &Vec<weft_core::ComponentId>| {
        let nodes = ids.iter().filter_map(|id| linked.by_id.get(id)).map(|&ix| &linked.nodes[ix]);
        nodes.filter(|to| to.scope == 0).map(|to| to.local).collect::<Vec<usize>>()
    };
    branches.chain(failing).map(locals).collect()
}
