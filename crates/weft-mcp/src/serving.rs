//! The other half: what this process offers to MCP clients, over streamable HTTP and over lines.
//!
//! A [`Service`] says what there is and does it, for one caller. Everything the protocol asks for is here: revisions,
//! sessions, headers, progress, questions to the client. What decides is pure (`revision`, `message`, `envelope`,
//! `headers`, `mirrored`, `origin`); `exchange` carries one request to its answer, `http` and `stdio` are the two ways in.

mod capabilities;
mod dispatch;
mod envelope;
mod exchange;
mod headers;
mod http;
mod legacy_tasks;
mod listening;
mod message;
mod mirrored;
mod origin;
mod outlet;
mod revision;
mod service;
mod session;
mod stdio;
mod task;

pub use capabilities::{Client, TASKS};
pub use http::{Host, Posted, Reply, ReplyBody};
pub use message::{RpcError, code};
pub use origin::{Names, check_origin};
pub use outlet::{LogLevel, Outlet};
pub use revision::ProtocolRevision;
pub use service::{About, Call, Feature, Leaving, Listing, Outcome, Questions, Service, TaskWish};
pub use stdio::converse;
pub use task::{TaskState, TaskView};
