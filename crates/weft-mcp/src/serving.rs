//! The server side: what this process offers to MCP clients, over streamable HTTP and over standard streams.
//!
//! A [`Service`] lists tools, prompts and resources for one caller, and carries out its calls. This module implements
//! the protocol around it: revisions, sessions, headers, progress, questions to the client. The decisions are pure code
//! (`revision`, `message`, `envelope`, `headers`, `mirrored`, `origin`); `exchange` takes one request to its response;
//! `http` and `stdio` are the two transports.

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
mod questions;
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
pub use questions::Questions;
pub use revision::ProtocolRevision;
pub use service::{About, Call, Feature, Leaving, Listing, Outcome, Service, TaskWish};
pub use stdio::converse;
pub use task::{TaskState, TaskView};
