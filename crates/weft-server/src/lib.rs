//! canvas JSON → plan → run → components → events → **API**
//!
//! Puts the seams together ([`assemble`]), offers what people do with canvases as one set of calls
//! ([`app`]), and serves them over HTTP. [`dialect`] turns journal entries into the frames that
//! clients know.

pub mod answer;
pub mod app;
pub mod assemble;
mod attachments;
pub mod auth;
mod backup;
pub mod body;
mod chat_frames;
pub mod chats;
pub mod checking;
pub mod config;
mod connection;
pub mod dialect;
pub mod error;
#[cfg(feature = "fault-points")]
pub mod fault_points;
pub mod frames;
pub mod idempotency;
pub mod mcp;
mod open_files;
pub mod openapi;
mod past_runs;
mod path;
pub mod pipelines;
mod plans;
mod removal;
mod resume;
mod retention;
pub mod router;
pub mod routes;
pub mod schedule;
mod searching;
pub mod serve;
pub mod spending;
pub mod sse;
pub mod state;
pub mod tasks;
pub mod templates;
pub mod tokens;
pub mod turns;
pub mod versions;
pub mod webhook;
pub mod wire;
pub mod work;
pub mod worker;

pub use app::{App, DEFAULT_TENANT, Parts};
pub use assemble::{
    Discovered, FoundKeys, ModelEntry, ModelsConfig, OneServer, Secret, Surveyed, ToolServers, Verdict,
    assemble, assemble_in_memory, dataset_names, discover_models, document_work, plugins, sandbox_work,
    secret_names,
};
pub use backup::{Copied, backup};
pub use config::{Auth, Config, ServerConfig, WorkerConfig};
pub use serve::{ServeOptions, bind, serve, work};
pub use weft_plugins::{Plugin, Plugins};
pub use wire::method::check_settings;
pub use worker::Worker;

pub use weft_components::examples::example;

/// The component types that canvases can be made of, by name; without those that only serve for measuring.
pub fn components() -> impl Iterator<Item = &'static weft_core::ComponentSpec> {
    weft_components::catalog::ALL.iter().copied().filter(|spec| !spec.measuring_only)
}
