//! What the caller of the compiler knows besides the canvas.

use std::fmt;

use weft_core::component::WrittenProgram;
use weft_core::seam::databases::{DatabaseKind, SqlPart};

use crate::tool_servers::{LeftOutTool, PluginTools};

/// Checks whether a model can be used: `Ok(None)` if so, `Ok(Some(notice))` if another model substitutes for
/// it, `Err(reason)` if not.
pub type ModelCheck<'a> = dyn Fn(&str) -> Result<Option<String>, String> + 'a;

/// Returns the reasons for which a kind of database would refuse SQL with any values; empty if it would not.
pub type SqlCheck<'a> = dyn Fn(DatabaseKind, &[SqlPart]) -> Vec<String> + 'a;

/// Returns the reason for which a program fails whenever it is run; `None` if it may succeed.
pub type ProgramCheck<'a> = dyn Fn(&WrittenProgram) -> Option<String> + 'a;

/// What to check besides the canvas itself.
#[derive(Clone, Copy, Default)]
pub struct CompileOptions<'a> {
    /// Checks every model that a component names; if absent, models are not checked.
    pub models: Option<&'a ModelCheck<'a>>,
    /// Checks every reranking model; if absent, they are not checked.
    pub rerankers: Option<&'a ModelCheck<'a>>,
    /// Checks SQL that is written out except for values; if absent, SQL is not checked.
    pub sql: Option<&'a SqlCheck<'a>>,
    /// Checks programs that are written out in full; if absent, they are not parsed.
    pub programs: Option<&'a ProgramCheck<'a>>,
    /// Why speech output is unavailable, if it is known to be.
    pub no_voice: Option<&'a str>,
    /// The configured MCP servers; if absent, they are not checked.
    pub tool_servers: Option<&'a [String]>,
    /// Tools of these servers that cannot be used, with the reasons.
    pub left_out_tools: &'a [LeftOutTool],
    /// The tools of the plugins; those of a plugin that is not listed here are not checked.
    pub plugin_tools: &'a [PluginTools],
    /// The names and ids of the existing datasets; if absent, datasets are not checked.
    pub datasets: Option<&'a [String]>,
    /// The ids of the existing memories; if absent, memories are not checked.
    pub memories: Option<&'a [String]>,
    /// The names of the existing secrets; if absent, secrets are not checked.
    pub secrets: Option<&'a [String]>,
    /// Whether components that only serve for measuring are available.
    pub measuring: bool,
}

impl fmt::Debug for CompileOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let models = self.models.map(|_| "checked");
        f.debug_struct("CompileOptions")
            .field("models", &models)
            .field("no_voice", &self.no_voice)
            .field("tool_servers", &self.tool_servers)
            .field("left_out_tools", &self.left_out_tools)
            .field("plugin_tools", &self.plugin_tools)
            .field("datasets", &self.datasets)
            .field("memories", &self.memories)
            .field("secrets", &self.secrets)
            .field("measuring", &self.measuring)
            .finish()
    }
}
