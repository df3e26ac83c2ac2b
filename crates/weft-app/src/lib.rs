//! The application: what users do with canvases, as calls shared by HTTP, MCP and the command line.
//!
//! [`assemble`] connects the seams, [`app`] offers the operations: on canvases and their versions, chat assistants,
//! sessions, runs, tasks, schedules, tokens, secrets. Background work (the queue, schedules, retention) is here, too.
//! Nothing here knows its callers: no route, no frame, no command.

pub mod accounts;
mod alone;
pub mod app;
pub mod asking;
pub mod assemble;
pub mod attachments;
mod backup;
pub mod chats;
pub mod checking;
pub mod config;
mod conversations;
mod default_tenant;
#[cfg(feature = "fault-points")]
pub mod fault_points;
pub mod file_manager;
pub mod hmac;
pub mod idempotency;
pub mod late;
pub mod metrics;
mod multitask;
pub mod new_session;
pub mod notifications;
mod parts;
mod past_runs;
pub mod pipelines;
mod plans;
mod programs;
pub mod rates;
mod removal;
mod resume;
mod retention;
pub mod schedule;
mod searching;
pub mod spending;
mod steering;
mod stopping;
pub mod tasks;
pub mod templates;
pub mod tokens;
pub mod tool_servers;
pub mod turns;
mod versions;
mod whole;
pub mod work;
pub mod worker;

pub use app::{App, DEFAULT_TENANT};
pub use assemble::{
    Discovered, FoundKeys, ModelEntry, ModelsConfig, OneServer, Secret, StoredNames, Surveyed, ToolServers,
    Verdict, assemble, assemble_in_memory, assemble_store, discover_models, document_work, plugins,
    sandbox_work, stored_names,
};
pub use backup::{Copied, backup};
pub use config::{Auth, Config, ServerConfig, WorkerConfig};
pub use parts::Parts;
pub use programs::ProgramChecks;
pub use weft_plugins::{Plugin, Plugins};
pub use weft_sql::refusals as sql_refusals;
pub use worker::Worker;

pub use weft_components::examples::example;

/// Returns the component types of which canvases can be built, by name; without those that are only for benchmarks.
pub fn components() -> impl Iterator<Item = &'static weft_core::ComponentSpec> {
    weft_components::catalog::ALL.iter().copied().filter(|spec| !spec.measuring_only)
}
