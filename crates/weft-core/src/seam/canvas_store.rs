//! Stored canvases and their versions.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::id::{CanvasId, CanvasKey, TenantId};

/// What people say about a canvas, apart from the drawing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CanvasHead {
    /// Unique within a tenant without regard to case.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// A data URI or nothing.
    pub avatar: String,
    /// `me` or `team`.
    pub permission: String,
    /// The heading it is listed under.
    pub canvas_type: String,
    /// The file of the operator's machine that it was read from, if it was. What lies beside that file is
    /// searched for it, so nothing that comes over the network sets it, and a change from there clears it.
    pub source: String,
}

/// The heading that ingestion pipelines are listed under.
pub const PIPELINE_TYPE: &str = "Ingestion Pipeline";

/// The heading of canvases that were made from chat assistants. No list has them.
pub const CHAT_TYPE: &str = "Chat Assistant";

/// A stored canvas with its newest version.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredCanvas {
    /// Which tenant it belongs to, and its id.
    pub key: CanvasKey,
    /// What it is called.
    pub head: CanvasHead,
    /// The newest version's content hash.
    pub version: Arc<str>,
    /// The newest version's DSL, as JSON text; empty in lists, which could not hold all of them.
    pub dsl: Arc<str>,
    /// Counts how often it was stored; whoever changes it must know the current one.
    pub revision: i64,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// Milliseconds since 1970.
    pub updated_ms: i64,
    /// Words to find it by. Storing it again keeps them.
    pub tags: Vec<String>,
    /// The published version, and since when. Storing it again keeps that.
    pub published: Option<(Arc<str>, i64)>,
}

/// What a list of canvases is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CanvasOrder {
    /// When they were changed.
    #[default]
    Updated,
    /// When they were made.
    Created,
    /// Their titles, without regard to case.
    Title,
}

/// Which canvases to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CanvasFilter {
    /// Only this one.
    pub id: Option<CanvasId>,
    /// Only the one with this title, without regard to case.
    pub title: Option<String>,
    /// Part of the title, without regard to case.
    pub keywords: String,
    /// Only those that are ingestion pipelines, or only those that are not.
    pub pipelines: Option<bool>,
    /// Only those that have one of these tags, without regard to case; none: all.
    pub tags: Vec<String>,
    /// In which order.
    pub order: CanvasOrder,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
    /// Oldest first instead of newest first, and titles from the first letter on.
    pub ascending: bool,
}

/// Where canvases are kept. A version is immutable and named by the hash of its content; a session
/// that began on one goes on with it.
#[async_trait]
pub trait CanvasStore: Send + Sync {
    /// Creates a canvas, or changes it and adds a version if the DSL differs, whatever was there. Whole or not at all.
    ///
    /// # Errors
    /// `Conflict` when another canvas of the tenant has the title.
    async fn put(&self, key: &CanvasKey, head: &CanvasHead, dsl: &str) -> Result<StoredCanvas>;

    /// The same for a canvas that is still at the revision of `seen`. Absent: somebody has stored it in the meantime, or
    /// removed it, and nothing was changed.
    ///
    /// # Errors
    /// As [`CanvasStore::put`].
    async fn change(&self, seen: &StoredCanvas, head: &CanvasHead, dsl: &str)
    -> Result<Option<StoredCanvas>>;

    /// A canvas with its newest version.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &CanvasKey) -> Result<StoredCanvas>;

    /// Whose canvas has this id; of several the one that was there first. Other programs call a canvas by its id alone,
    /// before anybody knows whose it is; everything after that goes by the tenant.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn tenant_of(&self, id: &CanvasId) -> Result<Option<TenantId>>;

    /// The name of its newest version. A turn that begins a session asks for no more: the plan of the
    /// version is at hand most of the time, and the DSL may be large.
    ///
    /// # Errors
    /// `NotFound`, also for the canvas that a chat assistant is run as: only its assistant's questions begin anything on it.
    async fn newest(&self, key: &CanvasKey) -> Result<Arc<str>> {
        let canvas = self.get(key).await?;
        if canvas.head.canvas_type == CHAT_TYPE {
            return Err(Error::not_found(format!("there is no canvas `{}`", key.id)));
        }
        Ok(canvas.version)
    }

    /// The DSL of one version.
    ///
    /// # Errors
    /// `NotFound`.
    async fn version(&self, key: &CanvasKey, version: &str) -> Result<Arc<str>>;

    /// Canvases by filter without their DSL, ordered by the time of their last change, and how many there are
    /// in all. Those of chat assistants are left out.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &CanvasFilter) -> Result<(Vec<StoredCanvas>, u64)>;

    /// Removes a canvas with its versions, sessions and runs.
    ///
    /// # Errors
    /// `NotFound`.
    async fn delete(&self, key: &CanvasKey) -> Result<()>;
}
