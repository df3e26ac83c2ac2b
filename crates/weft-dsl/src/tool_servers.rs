//! Tool servers that agents name.

use serde_json::Map;
use weft_core::Json;

use crate::canvas::CanvasNode;
use crate::pointer::join;
use crate::problem::{Problem, ProblemList};
use crate::suggest::Suggester;

/// Maximum depth of agents as tools of others here; deeper nesting is refused when it is read.
const DEEP_MAX: usize = 16;

/// A tool of a server or plugin that is left out because its description cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutTool {
    /// The server or plugin.
    pub server: String,
    /// The tool's name there.
    pub tool: String,
    /// Why it is left out.
    pub reason: String,
}

/// The tools of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginTools {
    /// The plugin.
    pub plugin: String,
    /// The names of its tools.
    pub tools: Vec<String>,
}

/// A server that an agent names in an entry of `mcp`.
struct NamedServer<'a> {
    /// The place of the entry.
    at: String,
    id: &'a str,
    tools: Option<&'a Map<String, Json>>,
    /// Whether `tools` has a value that is no list of tools.
    is_misread: bool,
}

/// Warns of tools that agents want but that their server does not have, or that are left out of it.
pub(crate) fn check_tools(
    node: &CanvasNode,
    left_out: &[LeftOutTool],
    plugins: &[PluginTools],
    suggester: &mut Suggester,
    problems: &mut ProblemList,
) {
    for NamedServer { at, id, tools, .. } in named(node) {
        let plugin = plugins.iter().find(|plugin| plugin.plugin == id);
        for name in tools.into_iter().flat_map(Map::keys) {
            let pointer = join(&join(&at, "tools"), name);
            let (problem, meant) = if let Some(one) =
                left_out.iter().find(|one| one.server == id && one.tool == *name)
            {
                let message =
                    format!("`{id}` has no tool `{name}`: {}; the agent runs without it", one.reason);
                (Problem::warning("left-out-tool", pointer, message), None)
            } else if let Some(plugin) = plugin.filter(|plugin| !plugin.tools.contains(name)) {
                let message = format!("the plugin `{id}` has no tool `{name}`: the agent runs without it");
                let meant = suggester.did_you_mean(name, plugin.tools.iter().map(String::as_str));
                (Problem::warning("unknown-tool", pointer, message), meant)
            } else {
                continue;
            };
            let problem = problem.help("`weft plugins` shows the available tools").maybe_help(meant);
            problems.add(problem.about(&node.id, &node.name));
        }
    }
}

/// Warns of servers that are not configured, and of configured servers of which no tool is named: the agents
/// run without their tools.
pub(crate) fn check(
    node: &CanvasNode,
    configured: &[String],
    suggester: &mut Suggester,
    problems: &mut ProblemList,
) {
    for NamedServer { at, id, tools, is_misread } in named(node) {
        if configured.iter().any(|known| known == id) {
            if tools.is_none_or(Map::is_empty) && !is_misread {
                let message = format!("no tool of `{id}` is named: the agent runs without its tools");
                // Where `tools` is missing, the entry is the nearest place.
                let pointer = if tools.is_some() { join(&at, "tools") } else { at };
                let problem = Problem::warning("no-tool-named", pointer, message)
                    .help("write {\"NAME\": {}} for each tool that it may use; `weft mcp list` and `weft plugins` show them");
                problems.add(problem.about(&node.id, &node.name));
            }
            continue;
        }
        let pointer = join(&at, "mcp_id");
        let message =
            format!("there is no MCP server and no plugin `{id}`: the agent runs without its tools");
        let help = suggester.did_you_mean(id, configured.iter().map(String::as_str));
        let problem = Problem::warning("unknown-tool-server", pointer, message)
            .help("configure it below `mcp.servers`, or put it into the plugin folder")
            .maybe_help(help);
        problems.add(problem.about(&node.id, &node.name));
    }
}

/// Returns the servers that an agent names.
fn named(node: &CanvasNode) -> Vec<NamedServer<'_>> {
    let mut named = Vec::new();
    if node.is_a("Agent") {
        collect(&node.params, &node.place.params, DEEP_MAX, &mut named);
    }
    named
}

/// Collects the servers named in an agent's parameters and in those of the agents among its tools.
fn collect<'a>(params: &'a Map<String, Json>, at: &str, deep: usize, named: &mut Vec<NamedServer<'a>>) {
    for (place, entry) in list(params, "mcp") {
        if let Some(id) = entry.get("mcp_id").and_then(Json::as_str).filter(|id| !id.is_empty()) {
            let tools = entry.get("tools").filter(|tools| !tools.is_null());
            let (is_misread, tools) =
                (tools.is_some_and(|tools| !tools.is_object()), tools.and_then(Json::as_object));
            named.push(NamedServer { at: join(&join(at, "mcp"), place), id, tools, is_misread });
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
