//! canvas JSON → plan → run → components → events → **API**
//!
//! Puts the seams together ([`assemble`]), offers what people do with canvases as one set of calls
//! ([`app`]), and serves them over HTTP. [`dialect`] turns journal entries into the frames that
//! clients know.

pub mod answer;
pub mod app;
pub mod assemble;
pub mod auth;
pub mod body;
pub mod config;
pub mod dialect;
pub mod error;
pub mod frames;
mod plans;
pub mod router;
pub mod routes;
pub mod serve;
pub mod sse;
pub mod state;
pub mod tokens;
pub mod wire;

pub use app::{App, DEFAULT_TENANT, Parts};
pub use assemble::{assemble, assemble_in_memory, discover_models};
pub use config::{Auth, Config};
pub use serve::{ServeOptions, bind, serve};
pub use weft_models::{Discovered, FoundKeys, ModelsConfig, OneServer, Secret};
pub use weft_search::{Document, load_folder};
