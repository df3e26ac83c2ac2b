//! Pinned nodes: they do not run in a turn, and their results are given instead.

use std::collections::BTreeMap;

use weft_core::component::{Finished, Role, Route};
use weft_core::context::Pin;
use weft_core::{ComponentId, Error, Json, NodeContext, Piece, Result};
use weft_dsl::Plan;
use weft_dsl::plan::PlanNode;

/// Checks that these nodes can be pinned.
///
/// # Errors
/// `Invalid`, naming the node that cannot be pinned.
pub(crate) fn check(plan: &Plan, pins: &BTreeMap<ComponentId, Pin>) -> Result<()> {
    for (id, pin) in pins {
        let Some(node) = plan.nodes.iter().find(|node| node.id == *id) else {
            return Err(Error::invalid(format!("cannot pin `{id}`: the canvas has no such node"))
                .help("name a node by its id, such as `LLM:Writer`"));
        };
        let problem = match node.role {
            Role::Entry | Role::Pause => Some("its outputs are inputs of the run: set those"),
            Role::RoundStart | Role::Leave => {
                Some("it is part of a loop: pin the whole loop or a node in it")
            }
            Role::Step | Role::Each | Role::Repeat => wrong_way(node, pin),
        };
        if let Some(problem) = problem {
            return Err(Error::invalid(format!("cannot pin `{id}`")).help(problem));
        }
    }
    Ok(())
}

fn wrong_way(node: &PlanNode, pin: &Pin) -> Option<&'static str> {
    let branches = node.shape.branches.as_ref();
    let leads_to = |id: &ComponentId| branches.iter().any(|all| all.iter().any(|(_, ids)| ids.contains(id)));
    match (&pin.to, branches) {
        (None, Some(_)) => Some("it branches: set `to`, the list of ids where it continues"),
        (Some(_), None) => Some("it does not branch, so it has no `to`"),
        (Some(ids), Some(_)) if !ids.iter().all(leads_to) => {
            Some("`to` names a node that no branch of it leads to")
        }
        (Some(_), Some(_)) | (None, None) => None,
    }
}

/// Returns the result of a pinned node. If the node shows text to the user, the pinned text is shown.
pub(crate) async fn given(node: &PlanNode, pin: &Pin, ctx: &NodeContext) -> Result<Finished> {
    let text = pin.outputs.get(node.shape.main_output).and_then(|value| value.as_json().cloned());
    // A node that listens is a Message: its reader expects a message from it, so it says the pinned text.
    if let Some(text) = text.as_ref().filter(|_| node.shape.listens).and_then(Json::as_str) {
        ctx.say(Piece::Text(text.into())).await?;
    }
    let route = pin.to.clone().map_or(Route::Onward, Route::To);
    Ok(Finished { route, ..Finished::with(pin.outputs.clone()) })
}
