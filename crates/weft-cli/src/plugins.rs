//! `weft plugins`: tools that plugins add at run time.

use serde_json::json;
use weft_app::Plugin;

use crate::args::PluginsArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::words::quoted;

/// Maximum number of characters of a description in a line.
const TEXT_CHARS: usize = 100;

/// Lists plugins and their tools.
///
/// # Errors
/// When a file in the folder is not valid, or standard output is closed.
pub(crate) async fn run(args: &PluginsArgs, setup: &Setup) -> Outcome {
    let folder = setup.config.plugins_folder();
    let plugins = weft_app::plugins(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    if plugins.names().next().is_none() {
        let folder = quoted(&folder.to_string_lossy());
        Notes::line(format!(
            "there are no plugins: put an OpenAPI document NAME.json or NAME.yaml, a component NAME.wasm or a skill NAME/SKILL.md into {folder}; \
             `weft mcp list` shows its MCP servers"
        ));
    }
    let mut data = Data::stdout();
    for plugin in plugins.iter() {
        show(plugin, args, &mut data)?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

fn show(plugin: &Plugin, args: &PluginsArgs, data: &mut Data) -> Outcome<()> {
    if args.json {
        for tool in plugin.tools() {
            let line = json!({
                "plugin": plugin.name(), "tool": tool.name, "description": tool.description,
                "parameters": tool.parameters, "approval": tool.traits.approval,
            });
            data.line(&line.to_string())?;
        }
        return Ok(());
    }
    let count = plugin.tools().len();
    let (name, tools) = (quoted(plugin.name()), if count == 1 { "tool" } else { "tools" });
    data.line(&format!("{name}: {count} {tools}"))?;
    let width = plugin.tools().iter().map(|tool| tool.name.len()).max().unwrap_or(0);
    for tool in plugin.tools() {
        let line = tool.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let short: String = line.chars().take(TEXT_CHARS).collect();
        data.line(&format!("  {:width$}  {short}", tool.name))?;
    }
    for left in plugin.left_out() {
        Notes::line(format!("note: {name} is used without {left}"));
    }
    Ok(())
}
