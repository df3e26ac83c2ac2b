//! Calls of tools as events, and as the trace that clients read beside them.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use weft_core::context::{ToolFinished, ToolStarted};
use weft_core::value::to_text;
use weft_core::{ComponentId, Json};

/// Characters of a result that an event carries. The trace holds all of it.
const RESULT_MAX: usize = 4_000;

/// A call that begins.
#[derive(Serialize)]
pub struct Start<'a> {
    tool: &'a str,
    args: &'a Json,
    id: &'a str,
    component_id: &'a ComponentId,
    path: &'a str,
}

/// A call that is over.
#[derive(Serialize)]
pub struct End<'a> {
    tool: &'a str,
    id: &'a str,
    result: Cow<'a, Json>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    is_error: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repaired: bool,
    component_id: &'a ComponentId,
    path: &'a str,
    elapsed_time: f64,
}

/// The event of a call that begins.
pub fn start(call: &ToolStarted) -> Start<'_> {
    Start {
        tool: &call.tool,
        args: &call.arguments,
        id: &call.call,
        component_id: &call.agent,
        path: &call.path,
    }
}

/// The event of a call that is over.
pub fn end(call: &ToolFinished) -> End<'_> {
    let short = shortened(&call.result);
    End {
        tool: &call.started.tool,
        id: &call.started.call,
        // The text is made once and tells both: whether it was cut, and what is left.
        truncated: short.is_some(),
        result: short.map_or(Cow::Borrowed(&*call.result), |text| Cow::Owned(Json::String(text))),
        is_error: call.failed,
        repaired: call.repaired,
        component_id: &call.started.agent,
        path: &call.started.path,
        elapsed_time: call.elapsed,
    }
}

fn shortened(result: &Json) -> Option<String> {
    cut(&to_text(result)).map(str::to_owned)
}

/// What an event shows of a result that is longer than an event may be; nothing of one that is not.
pub(in crate::dialect) fn cut(text: &str) -> Option<&str> {
    text.char_indices().nth(RESULT_MAX).map(|(end, _)| &text[..end])
}

/// The calls that one agent made in a row, as clients read them beside the events.
#[derive(Debug, Serialize)]
pub struct Calls {
    component_id: ComponentId,
    trace: Vec<Call>,
}

/// One call that is over.
#[derive(Debug, Serialize)]
struct Call {
    path: Arc<str>,
    tool_name: Arc<str>,
    arguments: Arc<Json>,
    result: Arc<Json>,
    elapsed_time: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repaired: bool,
}

/// Calls in the order of their ends; one agent after the other begins a new group.
pub fn grouped(calls: impl IntoIterator<Item = ToolFinished>) -> Vec<Calls> {
    let mut groups: Vec<Calls> = Vec::new();
    for ToolFinished { started, result, failed, repaired, elapsed } in calls {
        let ToolStarted { agent, path, tool, arguments, .. } = started;
        let call = Call {
            path,
            tool_name: tool,
            arguments,
            result,
            elapsed_time: elapsed,
            is_error: failed,
            repaired,
        };
        match groups.last_mut().filter(|group| group.component_id == agent) {
            Some(group) => group.trace.push(call),
            None => groups.push(Calls { component_id: agent, trace: vec![call] }),
        }
    }
    groups
}
