//! The tool with which a model chooses the groups of tools it needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, json};
use weft_core::tool::{Invocation, Origin, ToolStream, once};
use weft_core::{Error, Json, Result, Tool, ToolBody, ToolOutput};

use crate::toolkit::{Group, Toolkit, WeakToolkit};

/// The name of the tool.
pub const EQUIP_FUNCTION: &str = "reset_equipped_tools";

const DESCRIPTION: &str = "Chooses the groups of tools that you need for what comes next. A group that is not \
    named, or is `false`, is switched off, and its tools are not there any more. The answer tells how the tools \
    of the groups are used.";

/// The tool for the groups that a toolkit has now; `None` when it has no groups.
pub(crate) fn equip_tool(tools: &Toolkit) -> Option<Tool> {
    let groups = tools.groups();
    if groups.is_empty() {
        return None;
    }
    let property = |(name, group): (&String, &Group)| {
        let description = json!({"type": "boolean", "description": group.description, "default": false});
        (name.clone(), description)
    };
    let properties: Map<String, Json> = groups.iter().map(property).collect();
    let parameters = json!({"type": "object", "properties": properties});
    // Weak, because the tool is in that very toolkit.
    let body = Arc::new(Equip(tools.downgrade()));
    let mut tool = Tool::new(EQUIP_FUNCTION, DESCRIPTION, parameters, Origin::Function, body);
    // Other calls in the same message refer to tools that were offered before.
    tool.traits.alone = true;
    tool.traits.idempotent = true;
    Some(tool)
}

struct Equip(WeakToolkit);

impl Equip {
    fn equip(&self, arguments: &Map<String, Json>) -> Result<ToolOutput> {
        let Some(tools) = self.0.upgrade() else {
            return Err(Error::internal("the tools are not there any more"));
        };
        // The schema was checked before, so only a boolean can mean a yes.
        let wanted = arguments.iter().filter(|(_, wanted)| **wanted == Json::Bool(true));
        let names: BTreeSet<String> = wanted.map(|(name, _)| name.clone()).collect();
        // Sets all groups together: the model says what it needs from now on, not what changes.
        tools.set_active(&names)?;
        let groups = tools.groups();
        let told = |name: &String| {
            let notes = groups.get(name).map(|group| group.notes.trim()).unwrap_or_default();
            if notes.is_empty() {
                format!("`{name}` is active.")
            } else {
                format!("`{name}` is active. {notes}")
            }
        };
        Ok(ToolOutput::text(if names.is_empty() {
            "No group of tools is active.".to_owned()
        } else {
            names.iter().map(told).collect::<Vec<_>>().join("\n")
        }))
    }
}

impl ToolBody for Equip {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let done = self.equip(&invocation.arguments);
        once(async { done })
    }
}
