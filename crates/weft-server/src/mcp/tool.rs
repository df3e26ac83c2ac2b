//! Built-in tools, which exist independently of published agents.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value as Json, json};
use weft_core::access::Permission;
use weft_mcp::serving::{Call, Outcome, RpcError};

use super::{Offering, authoring, datasets};

/// The result of a call that asks no questions.
pub(super) type Done = Result<Map<String, Json>, RpcError>;

/// A call under way.
pub(super) type Running<'a> = BoxFuture<'a, Result<Outcome, RpcError>>;

/// Wraps a call that asks no questions.
pub(super) fn done<'a>(work: impl Future<Output = Done> + Send + 'a) -> Running<'a> {
    async { work.await.map(Outcome::Done) }.boxed()
}

/// A built-in tool.
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// Whether it changes anything.
    pub(super) changes: Changes,
    /// The permission that the caller needs.
    pub(super) needs: Permission,
    /// The schema of its arguments.
    pub(super) arguments: fn() -> Json,
    pub(super) run: for<'a> fn(&'a Offering, &'a Call) -> Running<'a>,
}

/// The effect of a tool on stored data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    Nothing,
    Something,
}

/// Returns all built-in tools, in the order of listing.
pub(super) fn all() -> impl Iterator<Item = &'static BuiltIn> {
    datasets::TOOLS.iter().chain(authoring::TOOLS)
}

/// Returns whether a built-in tool has this name.
pub(super) fn is_taken(name: &str) -> bool {
    all().any(|tool| tool.name == name)
}

impl BuiltIn {
    pub(super) fn definition(&self) -> Json {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": (self.arguments)(),
            "annotations": {"title": self.title, "readOnlyHint": self.changes == Changes::Nothing,
                "destructiveHint": false, "openWorldHint": false},
        })
    }
}

/// Builds the schema of arguments with these properties.
pub(super) fn arguments(properties: &Json, required: &[&str]) -> Json {
    json!({"type": "object", "properties": properties, "required": required})
}
