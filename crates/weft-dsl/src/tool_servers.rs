//! Servers of tools that agents name.

use serde_json::Map;
use weft_core::Json;

use crate::canvas::CanvasNode;
use crate::problem::{Problem, ProblemList, join};
use crate::suggest::Suggester;

/// How deep agents may be the tools of others here; deeper ones are refused where they are read.
const DEEP_MAX: usize = 16;

/// Warns of servers that nobody has configured: the agents run without their tools.
pub(crate) fn check(
    node: &CanvasNode,
    configured: &[String],
    suggester: &mut Suggester,
    problems: &mut ProblemList,
) {
    if node.kind != "Agent" {
        return;
    }
    let mut named = Vec::new();
    collect(&node.params, &node.place.params, DEEP_MAX, &mut named);
    for (pointer, id) in named {
        if configured.iter().any(|known| known == id) {
            continue;
        }
        let message =
            format!("there is no MCP server and no plugin `{id}`: the agent runs without its tools");
        let help = suggester.did_you_mean(id, configured.iter().map(String::as_str));
        let problem = Problem::warning("unknown-tool-server", pointer, message)
            .help("configure it below `mcp.servers`, or put it into the folder of plugins")
            .maybe_help(help);
        problems.add(problem.about(&node.id, &node.name));
    }
}

/// The servers that an agent's parameters name, and those of the agents among its tools.
fn collect<'a>(params: &'a Map<String, Json>, at: &str, deep: usize, named: &mut Vec<(String, &'a str)>) {
    for (place, entry) in list(params, "mcp") {
        if let Some(id) = entry.get("mcp_id").and_then(Json::as_str).filter(|id| !id.is_empty()) {
            named.push((join(&join(&join(at, "mcp"), place), "mcp_id"), id));
        }
    }
    let Some(deep) = deep.checked_sub(1) else { return };
    for (place, tool) in list(params, "tools") {
        if let Some(params) = tool.get("params").and_then(Json::as_object) {
            let at = join(&join(&join(at, "tools"), place), "params");
            collect(params, &at, deep, named);
        }
    }
}

fn list<'a>(params: &'a Map<String, Json>, name: &str) -> impl Iterator<Item = (usize, &'a Json)> {
    params.get(name).and_then(Json::as_array).into_iter().flatten().enumerate()
}
