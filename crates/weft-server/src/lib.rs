//! canvas JSON → plan → run → components → events → **API**
//!
//! Serves what `weft-app` offers over HTTP and MCP. [`dialect`] turns journal entries into the frames that clients
//! expect.

pub mod answer;
mod audit;
mod auth;
mod body;
mod chat_frames;
mod client_address;
mod connection;
pub mod dialect;
mod error;
pub mod frames;
mod handler;
pub mod mcp;
pub mod metrics;
mod open_files;
mod openai;
pub mod openapi;
mod path;
pub mod router;
mod routes;
pub mod serve;
mod source_metadata;
pub mod sse;
pub mod state;
mod upload_memory;
pub mod webhook;
pub mod wire;

pub use serve::{ServeOptions, bind, serve};
pub use wire::method::check_settings;
