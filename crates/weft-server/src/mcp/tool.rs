//! Tools that are there whatever has been published.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value as Json, json};
use weft_core::access::Permission;
use weft_mcp::serving::{Call, Outcome, RpcError};

use super::{Offering, authoring, datasets};

/// The result of a call that asks nothing.
pub(super) type Done = Result<Map<String, Json>, RpcError>;

/// A call under way.
pub(super) type Running<'a> = BoxFuture<'a, Result<Outcome, RpcError>>;

/// A call that asks nothing.
pub(super) fn done<'a>(work: impl Future<Output = Done> + Send + 'a) -> Running<'a> {
    async { work.await.map(Outcome::Done) }.boxed()
}

/// A tool that is always there.
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// Whether anything is changed.
    pub(super) changes: Changes,
    /// What whoever calls it may have to do.
    pub(super) needs: Permission,
    /// The schema of its arguments.
    pub(super) arguments: fn() -> Json,
    pub(super) run: for<'a> fn(&'a Offering, &'a Call) -> Running<'a>,
}

/// What a tool does to what is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    Nothing,
    Something,
}

/// All of them, in the order in which they are listed.
pub(super) fn all() -> impl Iterator<Item = &'static BuiltIn> {
    datasets::TOOLS.iter().chain(authoring::TOOLS)
}

/// Whether a tool that is always there has this name.
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

/// A schema of these properties.
pub(super) fn arguments(properties: &Json, required: &[&str]) -> Json {
    json!({"type": "object", "properties": properties, "required": required})
}
