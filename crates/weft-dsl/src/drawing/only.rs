//! What a canvas only draws: its components, which alone are run, do not have it.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::Map;
use weft_core::{ComponentId, Json};

use super::{DrawnCanvas, DrawnEdge};
use crate::canvas::CanvasNode;
use crate::problem::Problem;

/// Maximum number of findings. A drawing of another canvas differs in everything.
const FINDINGS_MAX: usize = 50;
const HELP: &str = "save the canvas in its editor, or change `components`: the drawing is not run";

/// Returns the components and edges of the drawing at `pointer` that `nodes` do not have.
pub(crate) fn problems(dsl: &Json, pointer: &str, nodes: &IndexMap<ComponentId, CanvasNode>) -> Vec<Problem> {
    let Some(graph) = dsl.get("graph") else { return Vec::new() };
    let drawing = DrawnCanvas::of(graph, pointer);
    let drawn = drawing.nodes.values().filter(|node| !node.label.is_empty() && drawing.is_component(node.id));
    let mut found = Vec::new();
    for node in drawn {
        if found.len() >= FINDINGS_MAX {
            break;
        }
        let Some(component) = nodes.get(node.id) else {
            let message =
                format!("`{}` is only drawn: `components` does not have it, and it never runs", node.id);
            let at = format!("{pointer}/nodes/{}", node.index);
            found.push(Problem::warning("only-drawn", at, message).help(HELP));
            continue;
        };
        let onward = |edge: &&DrawnEdge<'_>| {
            let to_a_tool = edge.into == "agentTop" || matches!(edge.from, "tool" | "agentBottom");
            !to_a_tool && drawing.is_component(edge.target) && nodes.contains_key(edge.target)
        };
        let followed: HashSet<&str> = component.downstream.iter().map(|link| link.to.as_str()).collect();
        let mut edges =
            drawing.edges(node.id).iter().filter(onward).filter(|edge| !followed.contains(edge.target));
        let Some(first) = edges.next() else { continue };
        // The way after a failure and the branches are among the parameters.
        let named = texts(&component.params);
        let left = FINDINGS_MAX - found.len();
        let lacking = std::iter::once(first).chain(edges).filter(|edge| !named.contains(edge.target));
        found.extend(lacking.take(left).map(|edge| {
            let message =
                format!("the edge from `{}` to `{}` is only drawn: it is not followed", node.id, edge.target);
            let problem = Problem::warning("only-drawn", edge.pointer.as_str(), message).help(HELP);
            problem.about(&component.id, &component.name)
        }));
    }
    found
}

/// Returns all texts in the parameters of a component.
fn texts(params: &Map<String, Json>) -> HashSet<&str> {
    let mut found = HashSet::new();
    let mut open: Vec<&Json> = params.values().collect();
    while let Some(json) = open.pop() {
        match json {
            Json::String(text) => {
                found.insert(text.as_str());
            }
            Json::Array(items) => open.extend(items),
            Json::Object(members) => open.extend(members.values()),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
    found
}
