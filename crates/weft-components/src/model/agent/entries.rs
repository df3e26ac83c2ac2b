//! The parameters `tools` and `mcp` of an agent, as written.

use std::time::Duration;

use serde_json::Map;
use weft_core::field::{common, is_declared, specs};
use weft_core::suggest::{akin, did_you_mean, misspelled, nearest};
use weft_core::tool::ToolTraits;
use weft_core::{ComponentId, Json, ParamProblem};

use crate::params::{Field, Kind, Params, Widget, described, number, pointer, truth};

/// The tools that an agent may call.
pub(super) static TOOLS: Field =
    Field::raw("tools", Kind::List, "ids of nodes, or components as `{component_name, name, params}`")
        .elsewhere(&["llm_enabled_tools"])
        .widget(Widget::Tools);
/// The MCP servers whose tools it may call.
pub(super) static MCP: Field = Field::raw(
    "mcp",
    Kind::Objects(&[
        Field::raw("mcp_id", Kind::Text, "the name of a configured server"),
        Field::raw("tools", Kind::Object(&[]), "the names of its tools that are offered; none if absent"),
    ]),
    "configured MCP servers",
)
.widget(Widget::McpServers);

/// Maximum number of seconds for a call.
// No run gets more by default, and a Duration panics at numbers that a canvas can write.
const TIME_LIMIT_MAX: f64 = 24.0 * 3_600.0;
/// Maximum number of seconds to wait for a person's approval.
// Ten years: forever to a person, but still a date that can be added to the clock.
const WAIT_MAX: f64 = 315_360_000.0;
/// The flag that makes a person approve each call.
const APPROVAL: &str = "approval";
/// Returns the names of the flags that a tool may have.
fn names_of_flags() -> impl Iterator<Item = &'static str> {
    specs(common::OF_A_TOOL).map(|spec| spec.name)
}

/// The other keys of an entry of `tools`.
const OF_AN_ENTRY: [&str; 4] = ["component_name", "name", "params", "id"];

/// An entry of `tools`.
pub(super) struct ToolsEntry<'a> {
    /// Its JSON pointer, such as `/tools/0`.
    pub pointer: String,
    /// Pointer to the name of its component type.
    pub named_at: String,
    /// The component type.
    pub kind: &'a str,
    /// Its name in the canvas.
    pub name: String,
    /// Its parameters.
    pub params: &'a Map<String, Json>,
    /// Flags that the canvas sets for calls.
    pub flags: Flags,
    /// The node it refers to, if it was named by id.
    pub node: Option<ComponentId>,
}

/// What a canvas may set for the calls of a tool, besides its parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    approval: Option<bool>,
    approval_timeout: Option<u64>,
    idempotent: Option<bool>,
    poll: Option<bool>,
    alone: Option<bool>,
    background: Option<bool>,
    time_limit: Option<Duration>,
    /// The name shown to the model.
    pub function: Option<String>,
    /// The description shown to the model.
    pub description: Option<String>,
}

impl Flags {
    /// Reads an entry and the parameters in it; the entry takes precedence. An invalid value is a problem: a mistyped
    /// approval must not count as none.
    fn read(
        params: &mut Params<'_>,
        at: &str,
        entry: Option<&Map<String, Json>>,
        inner: &Map<String, Json>,
    ) -> Self {
        let get = |key: &str| {
            let own = entry.and_then(|entry| entry.get(key)).map(|value| (format!("{at}/{key}"), value));
            let found = own.or_else(|| Some((format!("{at}/params/{key}"), inner.get(key)?)));
            // Editors write null for what was not set.
            found.filter(|(_, value)| !value.is_null())
        };
        let mut flag = |key: &str| {
            let (place, value) = get(key)?;
            let flag = truth(value);
            if flag.is_none() {
                let message = format!("must be true or false, and is {}", described(value));
                params.problem(ParamProblem::new(place, message).help("enter true or false, or remove it"));
            }
            flag
        };
        let (approval, idempotent) = (flag(APPROVAL), flag("idempotent"));
        let (poll, alone) = (flag("poll"), flag("alone"));
        let background = flag("background");
        let mut seconds = |key: &str| {
            get(key).and_then(|(place, value)| {
                let seconds = number(value).filter(|seconds| *seconds > 0.0);
                if seconds.is_none() {
                    let message = format!("must be a number of seconds above 0, and is {}", described(value));
                    params.problem(ParamProblem::new(place, message).help("enter a number, or remove it"));
                }
                seconds
            })
        };
        let time_limit = seconds("tool_time_limit");
        let time_limit = time_limit.map(|seconds| Duration::from_secs_f64(seconds.min(TIME_LIMIT_MAX)));
        // Rounded up to whole seconds: half a second is not zero.
        let approval_timeout = seconds("approval_timeout_seconds")
            .map(|seconds| Duration::from_secs_f64(seconds.ceil().min(WAIT_MAX)).as_secs());
        let mut text = |key: &str| {
            let (place, value) = get(key)?;
            if !value.is_string() {
                let problem =
                    ParamProblem::new(place, format!("must be a text, and is {}", described(value)));
                params.warn(problem.help("enter a text, or remove it"));
            }
            value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (function, description) = (text("function_name"), text("description"));
        misnamed_approval(params, at, inner);
        Self {
            approval,
            approval_timeout,
            idempotent,
            poll,
            alone,
            background,
            time_limit,
            function,
            description,
        }
    }

    /// Returns the traits, overridden by what the canvas sets.
    pub(super) fn over(&self, traits: &ToolTraits) -> ToolTraits {
        ToolTraits {
            approval: self.approval.unwrap_or(traits.approval),
            approval_timeout: self.approval_timeout.or(traits.approval_timeout),
            idempotent: self.idempotent.unwrap_or(traits.idempotent),
            poll: self.poll.unwrap_or(traits.poll),
            alone: self.alone.unwrap_or(traits.alone),
            background: self.background.unwrap_or(traits.background),
            time_limit: self.time_limit.unwrap_or(traits.time_limit),
            ..traits.clone()
        }
    }

    /// Returns the traits of a tool that the operator is responsible for: a canvas may make them stricter, but never
    /// laxer.
    pub(super) fn within(&self, traits: &ToolTraits) -> ToolTraits {
        ToolTraits {
            approval: traits.approval || self.approval == Some(true),
            approval_timeout: self.approval_timeout.or(traits.approval_timeout),
            idempotent: traits.idempotent && self.idempotent != Some(false),
            poll: self.poll.unwrap_or(traits.poll),
            alone: traits.alone || self.alone == Some(true),
            background: self.background.unwrap_or(traits.background),
            time_limit: self.time_limit.unwrap_or(traits.time_limit).min(traits.time_limit),
            ..traits.clone()
        }
    }
}

static NO_PARAMS: std::sync::LazyLock<Map<String, Json>> = std::sync::LazyLock::new(Map::new);

/// Returns the entries of `tools`: written inline, as the id of a node, or as the bare name of a component type.
pub(super) fn tools<'a>(params: &mut Params<'a>) -> Vec<ToolsEntry<'a>> {
    let source = params.source;
    let Some(tools) = params.get(&TOOLS) else { return Vec::new() };
    let Json::Array(tools) = tools else {
        params.problem(ParamProblem::new("/tools", "must be a list of tools"));
        return Vec::new();
    };
    let mut entries = Vec::new();
    for (place, tool) in tools.iter().enumerate() {
        let pointer = pointer(&["tools", &place.to_string()]);
        match tool {
            Json::Object(entry) => {
                let text = |key: &str| entry.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
                let Some(kind) = text("component_name") else {
                    params.problem(ParamProblem::new(
                        format!("{pointer}/component_name"),
                        "must name a component type",
                    ));
                    continue;
                };
                let inner = entry.get("params").and_then(Json::as_object).unwrap_or(&NO_PARAMS);
                let name = text("name").unwrap_or(kind).to_owned();
                let flags = Flags::read(params, &pointer, Some(entry), inner);
                unknown_keys(params, &pointer, entry);
                let named_at = format!("{pointer}/component_name");
                entries.push(ToolsEntry { pointer, named_at, kind, name, params: inner, flags, node: None });
            }
            Json::String(id) => {
                let node = ComponentId::from(id.as_str());
                let (kind, inner, node) = match source.others.get(&node) {
                    Some((kind, inner)) => (kind, inner, Some(node)),
                    None => (id.as_str(), &*NO_PARAMS, None),
                };
                let flags = Flags::read(params, &pointer, None, inner);
                let (named_at, name) = (pointer.clone(), id.clone());
                entries.push(ToolsEntry { pointer, named_at, kind, name, params: inner, flags, node });
            }
            _ => params.problem(
                ParamProblem::new(pointer, "is not a tool")
                    .help("write {component_name, name, params}, or the id of a component"),
            ),
        }
    }
    entries
}

/// Reports the keys of an entry of `tools` that no tool has.
fn unknown_keys(params: &mut Params<'_>, at: &str, entry: &Map<String, Json>) {
    for (key, value) in entry.iter().filter(|(key, _)| !is_known(key)) {
        let known = || OF_AN_ENTRY.into_iter().chain(names_of_flags());
        let meant = nearest(key, known()).or_else(|| akin(key, known())).or_else(|| with_stem(key));
        let help = meant.map_or_else(|| "remove it, or move it into `params`".to_owned(), did_you_mean);
        let problem = ParamProblem::new(format!("{at}/{key}"), "has no effect: a tool has no such key");
        unread(params, meant, value, problem.help(help));
    }
}

/// Reports parameters of a tool that ask for approval under another name. Those that its component does not know are
/// reported with the component's other parameters.
fn misnamed_approval(params: &mut Params<'_>, at: &str, inner: &Map<String, Json>) {
    let asks = |key: &str| key.to_lowercase().contains(APPROVAL) || misspelled(key, [APPROVAL]).is_some();
    for (key, value) in inner.iter().filter(|(key, _)| asks(key) && !is_declared(common::OF_A_TOOL, key)) {
        let problem = ParamProblem::new(format!("{at}/params/{key}"), "has no effect");
        unread(params, Some(APPROVAL), value, problem.help(did_you_mean(APPROVAL)));
    }
}

/// Returns the flag whose name is a part of a key but for its ending, such as `approval` for `must_be_approved`.
fn with_stem(key: &str) -> Option<&'static str> {
    /// Length of an ending, such as the `al` of `approval`.
    const ENDING: usize = 2;
    /// Minimum length of a stem; shorter ones are parts of too many words.
    const STEM_MIN: usize = 5;
    let key = key.to_lowercase();
    let is_part = |name: &&str| {
        let stem = name.get(..name.len().saturating_sub(ENDING)).filter(|stem| stem.len() >= STEM_MIN);
        stem.is_some_and(|stem| key.contains(stem))
    };
    names_of_flags().find(is_part)
}

/// Reports a key that has no effect: as an error if it asks for approval, since calls would be made without it.
fn unread(params: &mut Params<'_>, meant: Option<&str>, value: &Json, problem: ParamProblem) {
    let is_asked_for = !value.is_null() && truth(value) != Some(false);
    if meant == Some(APPROVAL) && is_asked_for {
        params.problem(problem);
    } else {
        params.warn(problem);
    }
}

fn is_known(key: &str) -> bool {
    OF_AN_ENTRY.contains(&key) || is_declared(common::OF_A_TOOL, key)
}

/// An entry of `mcp`: a server, and its tools that the agent may use.
pub(super) struct Server {
    /// The server's id.
    pub id: String,
    /// The tools by name, with what the canvas stores about each.
    pub tools: Vec<(String, Map<String, Json>, Flags)>,
}

/// Returns the entries of `mcp`. `take` reserves places for a number of tools, or returns why there are none left.
pub(super) fn servers(
    params: &mut Params<'_>,
    take: impl Fn(usize) -> Result<(), ParamProblem>,
) -> Vec<Server> {
    let mut servers = Vec::new();
    for (place, entry) in params.objects(&MCP) {
        let Some(id) = entry.get("mcp_id").and_then(Json::as_str).filter(|id| !id.is_empty()) else {
            let pointer = pointer(&["mcp", &place.to_string(), "mcp_id"]);
            params.problem(ParamProblem::new(pointer, "must name an MCP server"));
            continue;
        };
        let pointer = pointer(&["mcp", &place.to_string(), "tools"]);
        let listed = match entry.get("tools") {
            None | Some(Json::Null) => continue,
            Some(Json::Object(listed)) => listed,
            Some(other) => {
                let message = format!("must be an object, and is {}", described(other));
                let help = "write {\"NAME\": {}}, with the settings of the tool inside";
                params.problem(ParamProblem::new(pointer, message).help(help));
                continue;
            }
        };
        // Before they are read: a canvas has room for a hundred thousand, and an agent is read each time it is named.
        if let Err(problem) = take(listed.len()) {
            params.problem(problem);
            break;
        }
        let mut tools = Vec::new();
        for (name, meta) in listed {
            let meta = meta.as_object().cloned().unwrap_or_default();
            // Escaped as in a JSON pointer (RFC 6901).
            let at = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            let flags = Flags::read(params, &at, Some(&meta), &NO_PARAMS);
            // A canvas stores more of the server's description here than is read, so other unknown keys are fine.
            for (key, value) in meta.iter().filter(|(key, _)| !is_declared(common::OF_A_TOOL, key)) {
                if let Some(meant) = misspelled(key, names_of_flags()) {
                    let problem = ParamProblem::new(format!("{at}/{key}"), "has no effect");
                    unread(params, Some(meant), value, problem.help(did_you_mean(meant)));
                }
            }
            tools.push((name.clone(), meta, flags));
        }
        servers.push(Server { id: id.to_owned(), tools });
    }
    servers
}
