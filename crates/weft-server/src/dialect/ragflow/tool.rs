//! Tool calls as events, and as the trace that clients read separately.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use weft_core::context::{ToolFinished, ToolStarted};
use weft_core::value::to_text;
use weft_core::{ComponentId, Json};

/// Maximum number of characters of a result in an event. The trace contains all of it.
const RESULT_MAX: usize = 4_000;

/// A call that starts.
#[derive(Serialize)]
pub struct ToolCallStart<'a> {
    tool: &'a str,
    args: &'a Json,
    id: &'a str,
    component_id: &'a ComponentId,
    path: &'a str,
}

/// A call that has ended.
#[derive(Serialize)]
pub struct ToolCallEnd<'a> {
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

/// Returns the event for the start of a call.
pub fn start(call: &ToolStarted) -> ToolCallStart<'_> {
    ToolCallStart {
        tool: &call.tool,
        args: &call.arguments,
        id: &call.call,
        component_id: &call.agent,
        path: &call.path,
    }
}

/// Returns the event for the end of a call.
pub fn end(call: &ToolFinished) -> ToolCallEnd<'_> {
    let short = shortened(&call.result);
    ToolCallEnd {
        tool: &call.started.tool,
        id: &call.started.call,
        // The text is built once and serves both fields: whether it was cut, and what is left.
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

/// Returns the part of a result that an event shows if the result is too long; otherwise `None`.
pub(in crate::dialect) fn cut(text: &str) -> Option<&str> {
    text.char_indices().nth(RESULT_MAX).map(|(end, _)| &text[..end])
}

/// Consecutive calls of one agent, in the format of the trace.
#[derive(Debug, Serialize)]
pub struct Calls {
    component_id: ComponentId,
    trace: Vec<TracedCall>,
}

/// A call that has ended.
#[derive(Debug, Serialize)]
struct TracedCall {
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

/// Groups calls, which are in the order of their ends; a change of the agent starts a new group.
pub fn grouped(calls: impl IntoIterator<Item = ToolFinished>) -> Vec<Calls> {
    let mut groups: Vec<Calls> = Vec::new();
    for ToolFinished { started, result, failed, repaired, elapsed } in calls {
        let ToolStarted { agent, path, tool, arguments, .. } = started;
        let call = TracedCall {
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
