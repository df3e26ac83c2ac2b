//! Limits on the size of a canvas's graph. The time for linking grows with products of its numbers; limiting
//! what an author may send keeps the check of a canvas fast.

use std::collections::HashMap;

use weft_core::component::Role;

use crate::build::Built;
use crate::graph;
use crate::problem::{Problem, ProblemList};

/// Maximum number of edges of a canvas.
pub(crate) const EDGES_MAX: usize = 50_000;

/// Maximum of the number of cycles times the size of the graph: each cycle is walked once.
const CYCLE_STEPS_MAX: usize = 10_000_000;

/// Maximum of the number of references times the size of the graph: a reference may be followed through all of it.
const REFERENCE_STEPS_MAX: usize = 1_000_000_000;

/// Reports a graph that is too large to link, and then returns `None`. `pointer` is the place of the components.
pub(crate) fn check(built: &[Built], pointer: &str, problems: &mut ProblemList) -> Option<()> {
    let by_id: HashMap<_, _> = built.iter().enumerate().map(|(ix, built)| (&built.draft.id, ix)).collect();
    let mut targets: Vec<Vec<usize>> = built
        .iter()
        .map(|built| {
            let branches = built.draft.shape.branches.as_deref();
            let chosen = branches.into_iter().flatten().flat_map(|(_, ids)| ids);
            // A node with branches follows these; its own list is only the drawing.
            let plain = built.draft.downstream.iter().filter(|_| branches.is_none());
            let ids = chosen.chain(plain).chain(&built.draft.exception.goto);
            ids.filter_map(|id| by_id.get(id).copied()).collect()
        })
        .collect();
    let edges: usize = targets.iter().map(Vec::len).sum();
    let references: usize = built.iter().map(|built| built.draft.shape.reads.all().count()).sum();
    // The edge back to the start of a round is not a cycle: the frame repeats anyway.
    let is_start = |ix: usize| built[ix].draft.spec.role == Role::RoundStart;
    targets.iter_mut().for_each(|targets| targets.retain(|&to| !is_start(to)));
    // An extra node that leads to all others, so that cycles are counted even where they cannot be reached
    // from the start.
    targets.push((0..built.len()).collect());
    let too_much = |what: &str, count: usize, code: &'static str| {
        let message =
            format!("the canvas has {count} {what}, which is more than can be checked for its size");
        Problem::error(code, pointer, message).help("split it into several canvases")
    };
    let size = built.len() + edges;
    // Counting the cycles walks the whole graph, so the limits that cost nothing come first.
    let problem = if edges > EDGES_MAX {
        too_much("edges", edges, "too-many-edges")
    } else if references.saturating_mul(size + references) > REFERENCE_STEPS_MAX {
        too_much("references", references, "too-many-references")
    } else {
        let cycles = graph::back_edges(&targets, built.len()).0.len();
        if cycles.saturating_mul(size) <= CYCLE_STEPS_MAX {
            return Some(());
        }
        too_much("cycles", cycles, "too-many-cycles")
    };
    problems.add(problem);
    None
}
