//! Detects answers to a session that asks nothing, and inputs that nothing reads.

use serde_json::Map;
use weft_core::reference::Inputs;
use weft_core::{Json, Reference};
use weft_dsl::Plan;

use crate::screen::Notes;

/// Returns whether a new run of this plan could use any of these inputs: a component reads it, or a later form has
/// this address.
pub(crate) fn can_use(plan: &Plan, inputs: &Map<String, Json>) -> bool {
    inputs.keys().any(|key| can_use_one(plan, key))
}

/// The same for one of them.
fn can_use_one(plan: &Plan, key: &str) -> bool {
    is_read(plan, key) || asks(plan, key)
}

/// Prints which of these inputs nothing in the canvas reads: a misspelled name would be an input that is not given.
pub(crate) fn tell(plan: &Plan, inputs: &Map<String, Json>) {
    for key in inputs.keys().filter(|key| !can_use_one(plan, key)) {
        Notes::line(format!("note: the canvas reads no input `{key}`"));
    }
}

fn is_read(plan: &Plan, key: &str) -> bool {
    let start = plan.scopes.first().and_then(|top| plan.nodes.get(top.start));
    let mut read = plan
        .nodes
        .iter()
        .flat_map(|node| node.reads.iter().chain(node.alternative_reads.iter().flatten()))
        .map(|read| &read.reference);
    read.any(|reference| match reference {
        Reference::Output { component, path } => {
            let rest = path.strip_prefix(key).filter(|rest| rest.is_empty() || rest.starts_with('.'));
            start.is_some_and(|start| start.id == *component) && rest.is_some()
        }
        Reference::Global(_) => false,
    })
}

fn asks(plan: &Plan, address: &str) -> bool {
    let id = address.split('[').next().unwrap_or(address);
    let node = plan.by_id.get(id).and_then(|&ix| plan.nodes.get(ix));
    node.is_some_and(|node| !node.component.form(&Inputs::default()).fields.is_empty())
}
