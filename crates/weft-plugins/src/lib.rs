//! canvas JSON → plan → run → components → **tools of plugins** → events → API
//!
//! Tools that are added without a new build: files in a folder that is read when the program starts.
//!
//! | file | what it adds |
//! |---|---|
//! | `NAME.json` | the operations of an HTTP service, as its OpenAPI document describes them (3.0 or 3.1) |
//! | `NAME.toml` | settings of a plugin: the address of a service, headers, which operations; see [`PluginSettings`] |
//! | `NAME.mcp.toml` | an MCP server, with the fields of `[mcp.servers.NAME]`; it is read with the settings, not here |
//! | `NAME.wasm` | one tool: a WebAssembly component of the world `tool` (`wit/tool.wit`), which runs in the sandbox |
//! | `NAME/SKILL.md` | a skill: instructions for a kind of work, with its files and scripts (agentskills.io) |
//!
//! Agents name a plugin as they name an MCP server, and a canvas that names one runs on any installation that has a
//! plugin or a server of that name. [`Plugins`] is one [`weft_core::seam::ToolSource`]; [`Combined`] combines it with
//! another one.

mod bounded;
mod folder;
mod openapi;
mod settings;
mod skill;
mod source;
mod wasm;

pub use folder::{FILE_BYTES_MAX, FILES_MAX};
pub use openapi::{LeftOutOperation, OPERATIONS_MAX, Plugin};
pub use settings::PluginSettings;
pub use skill::SKILL_FILE;
pub use source::{Combined, Plugins};
