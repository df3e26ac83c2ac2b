//! WebAssembly components as tools: one file, one tool, which runs in the sandbox (`wit/tool.wit`).

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use weft_agent::arguments::ArgumentSchema;
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Failure, Limits, WasmCall, WasmTool};
use weft_core::tool::{Invocation, Origin, ToolStream, ToolTraits, once};
use weft_core::{Error, Json, Result, TenantId, Tool, ToolBody, ToolOutput, hex};

use crate::openapi::Plugin;

/// Maximum number of letters in a tool's name and in its description: the limits of providers.
const NAME_MAX: usize = 60;
const DESCRIPTION_MAX: usize = 1_000;
/// Limits for a component that describes itself, as far as the sandbox allows as much.
const DESCRIBING: Limits = Limits {
    time: Duration::from_secs(5),
    memory_bytes: 64 << 20,
    output_bytes: 256 << 10,
    printed_bytes: 0,
};
/// Limits for one call, besides the time limit in the settings.
const CALLING: Limits = Limits {
    time: Duration::from_secs(3_600),
    memory_bytes: 256 << 20,
    output_bytes: 4 << 20,
    printed_bytes: 0,
};
/// The tenant of calls that the program makes itself.
const NOBODY: &str = "plugins";

/// `NAME.toml` beside `NAME.wasm`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WasmSettings {
    /// Whether a person has to approve each call.
    approval: bool,
    /// Time limit for a call, in seconds, as far as `sandbox.seconds` allows as much.
    seconds: u64,
}

impl Default for WasmSettings {
    fn default() -> Self {
        Self { approval: false, seconds: 60 }
    }
}

/// How a component describes itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginDescription {
    name: String,
    description: String,
    parameters: Json,
}

/// Returns the plugin for a component.
///
/// # Errors
/// `Invalid` for what is not a component of the world `tool`, or describes no tool; whatever keeps the sandbox from
/// running it.
pub(crate) async fn described(
    plugin: &str,
    bytes: Vec<u8>,
    settings: &WasmSettings,
    sandbox: &dyn Sandbox,
) -> Result<Plugin> {
    if !(1..=3_600).contains(&settings.seconds) {
        return Err(Error::invalid("`seconds` in its settings must be from 1 to 3600"));
    }
    // Lets the sandbox recognise a component that it has already prepared.
    let digest = hex(&Sha256::digest(&bytes));
    let component = WasmTool { bytes: bytes.into(), digest };
    // This is third-party code, and it runs here before a user has asked for it.
    let limits = DESCRIBING.within(sandbox.limits());
    let ran = sandbox.call_wasm(&TenantId::new(NOBODY), &component, WasmCall::Describe, limits).await?;
    let said =
        ran.result.map_err(|failure| failed(&failure, limits, "its description cannot be obtained"))?;
    let PluginDescription { name, description, parameters } = read(said.as_str().unwrap_or_default())?;
    let time = Duration::from_secs(settings.seconds);
    let body = WasmBody { component, time };
    // Its origin is that of a server's tool, since canvases name both in the same way.
    let mut tool = Tool::new(name, &description, parameters, Origin::Mcp(plugin.to_owned()), Arc::new(body));
    tool.traits = ToolTraits {
        // It has no way to change anything.
        idempotent: true,
        approval: settings.approval,
        // Waiting for a slot in the sandbox counts, too.
        time_limit: 2 * time,
        ..ToolTraits::default()
    };
    Ok(Plugin::with_tools(plugin, &description, vec![Arc::new(tool)]))
}

fn read(said: &str) -> Result<PluginDescription> {
    const HELP: &str = "`describe` returns a JSON object with `name`, `description` and `parameters`";
    let description: PluginDescription = serde_json::from_str(said)
        .map_err(|cause| Error::invalid(format!("its description cannot be read: {cause}")).help(HELP))?;
    let PluginDescription { name, description: text, parameters } = &description;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
        return Err(Error::invalid(format!("`{}` is not a valid tool name", name.escape_debug()))
            .help(format!("use 1 to {NAME_MAX} letters, digits, `_` and `-`")));
    }
    let letters = text.trim().chars().count();
    if letters == 0 || letters > DESCRIPTION_MAX {
        let message = format!("its description has {letters} letters; 1 to {DESCRIPTION_MAX} are allowed");
        return Err(Error::invalid(message));
    }
    let properties = parameters.get("properties").is_none_or(Json::is_object);
    if parameters.get("type").and_then(Json::as_str) != Some("object") || !properties {
        return Err(Error::invalid("its `parameters` are not a JSON Schema of an object")
            .help("write `{\"type\": \"object\", \"properties\": {…}}`"));
    }
    // Checked with the parser that agents use: otherwise they would drop the tool in the middle of their work.
    ArgumentSchema::new(parameters)
        .map_err(|error| Error::invalid("its `parameters` cannot be used").because(error))?;
    Ok(description)
}

/// Converts a failure of a component to an error about it.
fn failed(failure: &Failure, limits: Limits, what: &str) -> Error {
    match failure {
        Failure::Program { message, .. } => Error::invalid(format!("{what}: {message}")),
        Failure::Time | Failure::Memory | Failure::Output | Failure::Broken | Failure::Language(_) => {
            let error = failure.error(limits);
            Error::new(error.kind, format!("{what}: {}", error.message))
        }
    }
}

struct WasmBody {
    component: WasmTool,
    time: Duration,
}

impl ToolBody for WasmBody {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let (component, time) = (self.component.clone(), self.time);
        once(async move {
            let run = &invocation.agent.run;
            let limits = Limits { time, ..CALLING }.within(run.seams.sandbox.limits());
            let arguments = WasmCall::Call(Json::Object(invocation.arguments.clone()).to_string());
            let ran = run.seams.sandbox.call_wasm(&run.tenant, &component, arguments, limits).await?;
            let text = ran.result.map_err(|failure| failed(&failure, limits, "the tool failed"))?;
            Ok(ToolOutput::text(text.as_str().unwrap_or_default()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_a_tool_or_an_error() {
        let check = |said: &str, words: &str| {
            let error = read(said).map(|_| ()).unwrap_err().full();
            assert!(error.contains(words), "{error}");
        };
        let said = |name: &str, description: &str, parameters: &str| {
            let (name, description) = (Json::from(name), Json::from(description));
            format!("{{\"name\": {name}, \"description\": {description}, \"parameters\": {parameters}}}")
        };
        assert_eq!(read(&said("add-2_x", "Adds.", "{\"type\": \"object\"}")).unwrap().name, "add-2_x");
        check("", "cannot be read");
        check("[]", "cannot be read");
        check("{\"name\": \"a\", \"description\": \"b\"}", "missing field `parameters`");
        check("{\"name\": \"a\", \"description\": \"b\", \"parameters\": {}, \"x\": 1}", "unknown field `x`");
        for name in ["", "a b", "ä", "a\u{202e}b", &"a".repeat(61)] {
            check(&said(name, "Adds.", "{\"type\": \"object\"}"), "not a valid tool name");
        }
        for description in ["", " ", &"x".repeat(1_001)] {
            check(&said("a", description, "{\"type\": \"object\"}"), "letters");
        }
        for parameters in
            ["{}", "[]", "1", "{\"type\": \"array\"}", "{\"type\": \"object\", \"properties\": []}"]
        {
            check(&said("a", "b", parameters), "not a JSON Schema of an object");
        }
        let odd = "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": {}}}}";
        check(&said("a", "b", odd), "`parameters` cannot be used");
    }
}
