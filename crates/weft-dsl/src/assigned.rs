//! What the VariableAssigners of a canvas may change while it runs: the initial values of these say nothing
//! about later ones.

use std::collections::{HashMap, HashSet};

use weft_core::Json;

use crate::canvas::{Canvas, CanvasNode};
use crate::paths::prefixes;

/// The component type that changes variables.
pub(crate) const ASSIGNER: &str = "VariableAssigner";

/// The values that may change.
#[derive(Debug, Default)]
pub(crate) struct Assigned<'a> {
    /// The globals that may change, including the prefixes of paths into them.
    globals: HashSet<&'a str>,
    /// The outputs that may change, by component.
    outputs: HashMap<&'a str, HashSet<&'a str>>,
    /// Whether a model chooses what is changed, so that it cannot be known.
    by_model: bool,
    /// The parameters of the changes that replace the whole value of a variable, by its name.
    replaced: HashMap<&'a str, Vec<&'a Json>>,
}

impl<'a> Assigned<'a> {
    /// Collects what a canvas may change.
    pub(crate) fn of(canvas: &'a Canvas) -> Self {
        let mut assigned = Self::default();
        for node in canvas.nodes.values() {
            if node.is_a(ASSIGNER) {
                assigned.note(node);
            }
            let mut tools = node.params.get("tools").and_then(Json::as_array).into_iter().flatten();
            assigned.by_model |= tools.any(|tool| is_assigner(canvas, tool));
        }
        assigned
    }

    fn note(&mut self, node: &'a CanvasNode) {
        for change in node.params.get("variables").and_then(Json::as_array).into_iter().flatten() {
            let Some(target) = change.get("variable").and_then(Json::as_str) else { continue };
            let target = target.trim_matches(|c: char| matches!(c, '{' | '}') || c.is_whitespace());
            if matches!(change.get("operator").and_then(Json::as_str), Some("overwrite" | "set")) {
                let value = change.get("parameter").unwrap_or(&Json::Null);
                self.replaced.entry(target).or_default().push(value);
            }
            match target.split_once('@') {
                Some((component, path)) => {
                    self.outputs.entry(component).or_default().insert(path);
                }
                None => self.globals.extend(prefixes(target).chain([target])),
            }
        }
    }

    /// Whether a global, or something inside it, may change.
    pub(crate) fn may_change(&self, global: &str) -> bool {
        self.by_model || self.globals.contains(global)
    }

    /// Whether a model chooses what is changed.
    pub(crate) fn is_by_model(&self) -> bool {
        self.by_model
    }

    /// Returns the parameters of the changes that replace the whole value of a variable.
    pub(crate) fn replacing(&self, variable: &str) -> &[&'a Json] {
        self.replaced.get(variable).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether another component may assign to an output of this one.
    pub(crate) fn may_change_outputs_of(&self, component: &str) -> bool {
        self.by_model || self.outputs.contains_key(component)
    }

    /// Whether the canvas assigns to this output, or path into one.
    pub(crate) fn writes(&self, component: &str, path: &str) -> bool {
        self.outputs.get(component).is_some_and(|paths| paths.contains(path))
    }
}

/// Whether a tool of an agent is an assigner, or may have one among its own tools.
fn is_assigner(canvas: &Canvas, tool: &Json) -> bool {
    let kind = match tool {
        Json::String(id) => canvas.nodes.get(id.as_str()).map_or(id.as_str(), |node| node.kind.as_str()),
        other => other.get("component_name").and_then(Json::as_str).unwrap_or_default(),
    };
    let mut inner = tool.pointer("/params/tools").and_then(Json::as_array).into_iter().flatten();
    kind.eq_ignore_ascii_case(ASSIGNER) || inner.any(|tool| is_assigner(canvas, tool))
}
