//! Checks the targets of a node: its successors, its branches, and its exception branch.

use std::collections::HashSet;

use weft_core::{ComponentId, Json};

use crate::build::Built;
use crate::canvas::CanvasNode;
use crate::pointer::{join, unescape};
use crate::problem::{Problem, ProblemList};
use crate::suggest::Suggester;

/// Reports every target of `node` that does not exist.
pub(crate) fn check(
    node: &CanvasNode,
    built: &Built,
    ids: &HashSet<ComponentId>,
    suggester: &mut Suggester,
    problems: &mut ProblemList,
) {
    let mut missing = |id: &ComponentId, place: &dyn Fn() -> String, what: &str, decorative: Decorative| {
        if ids.contains(id) {
            return;
        }
        // Finding the place may mean searching a list of a million targets.
        let pointer = if problems.is_full() { String::new() } else { place() };
        let message = format!("{what} leads to `{id}`, which does not exist");
        let problem = match decorative {
            Decorative::No => Problem::error("unknown-target", pointer, message),
            // The engine does not follow this list, so nothing is lost.
            Decorative::Yes => Problem::warning("unknown-target", pointer, message),
        };
        let help = suggester.did_you_mean(id.as_str(), ids.iter().map(ComponentId::as_str));
        problems.add(problem.maybe_help(help).about(&node.id, &node.name));
    };
    let draft = &built.draft;
    // The branches of a node that could not be built are a guess.
    let is_known = built.sound || built.partial.is_some();
    let branches = built.shape().branches.as_deref().filter(|_| is_known);
    // A branching node follows its branches; its own list is only the drawing.
    let decorative = if branches.is_some() { Decorative::Yes } else { Decorative::No };
    for link in &node.downstream {
        missing(&link.to, &|| link.pointer.clone(), "the edge", decorative);
    }
    for (pointer, ids) in branches.unwrap_or_default() {
        for (index, id) in ids.iter().enumerate() {
            missing(id, &|| target_place(node, pointer, index, id), "the branch", Decorative::No);
        }
    }
    for (index, id) in draft.exception.goto.iter().enumerate() {
        missing(id, &|| target_place(node, "/exception_goto", index, id), "the failure path", Decorative::No);
    }
    if node.is_a("Switch") {
        own_branches(node, branches.unwrap_or_default(), problems);
    }
}

/// Reports branches of a Switch that lead to itself: it would read the same values again. A model may choose differently
/// the next time.
fn own_branches(node: &CanvasNode, branches: &[(String, Vec<ComponentId>)], problems: &mut ProblemList) {
    for (pointer, ids) in branches {
        let Some(index) = ids.iter().position(|id| *id == node.id) else { continue };
        // What stands in for a missing target is not written anywhere.
        let is_written = match listed(node, pointer) {
            Some(Json::Array(items)) => items.iter().any(|item| item.as_str() == Some(node.id.as_str())),
            Some(Json::String(item)) => item == node.id.as_str(),
            _ => false,
        };
        if !is_written {
            continue;
        }
        let pointer =
            if problems.is_full() { String::new() } else { target_place(node, pointer, index, &node.id) };
        let message = "the branch leads back to its own Switch, whose conditions read the same values again: \
                       once taken, it is taken forever";
        let problem = Problem::warning("endless-cycle", pointer, message)
            .help("lead it to a component that changes what the conditions read");
        problems.add(problem.about(&node.id, &node.name));
    }
}

/// Whether a list of targets is only part of the drawing, so that the engine does not follow it.
#[derive(Clone, Copy)]
enum Decorative {
    No,
    Yes,
}

/// Returns what is written at `pointer` of the parameters.
fn listed<'a>(node: &'a CanvasNode, pointer: &str) -> Option<&'a Json> {
    let (first, rest) = pointer
        .strip_prefix('/')
        .map_or((pointer, ""), |path| path.split_at(path.find('/').unwrap_or(path.len())));
    node.params.get(&unescape(first)).and_then(|value| value.pointer(rest))
}

/// Returns the place where a target is written: an entry of a list at `pointer`, or `pointer` itself.
pub(crate) fn target_place(node: &CanvasNode, pointer: &str, index: usize, id: &ComponentId) -> String {
    let list = format!("{}{pointer}", node.place.params);
    match listed(node, pointer) {
        Some(Json::Array(items)) => {
            let is_it = |item: &Json| item.as_str() == Some(id.as_str());
            // Elsewhere only if some entries before it were skipped.
            let at =
                if items.get(index).is_some_and(is_it) { Some(index) } else { items.iter().position(is_it) };
            join(&list, at.unwrap_or(index))
        }
        _ => list,
    }
}
