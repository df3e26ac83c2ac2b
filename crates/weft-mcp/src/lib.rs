//! canvas JSON → plan → run → components → **tools of MCP servers**
//!
//! [`Servers`] is the `ToolSource` of the engine: it connects lazily to the servers that the operator configured, and
//! offers a tool as long as its definition is the accepted one. There is one file per transport ([`Dial`],
//! [`ServerWire`]); all decisions are pure functions. [`serving`] is the server side of the protocol: what this
//! process offers to clients.

mod asked_back;
mod authorization;
mod backoff;
mod child;
mod config;
mod definition;
mod dial;
mod events;
mod faults;
mod headers;
mod http_peer;
mod import;
mod legacy;
mod line_reader;
mod lines;
mod link;
mod notifications;
mod oauth;
mod reach;
mod refusal;
mod result;
mod server;
mod servers;
pub mod serving;
mod sign_in;
mod streamable;
mod tool;
mod wire;

pub use config::{ElicitationMode, McpConfig, OauthConfig, PinMode, ServerConfig, ToolConfig, TransportKind};
pub use definition::Verdict;
pub use dial::Dial;
pub use import::{Importer, import};
pub use lines::{ByteSource, Sink};
pub use reach::Reach;
pub use servers::{Credentials, Servers, Surveyed};
pub use sign_in::{CredentialPlace, SignInCallback, SignInPage, SignInRequest};
pub use wire::ServerWire;
