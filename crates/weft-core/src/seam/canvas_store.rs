//! Stored canvases and their versions.

use std::sync::Arc;

use weft_macros::async_trait;

use crate::error::{Error, Result};
use crate::id::{CanvasId, CanvasKey, TenantId};

/// What people set about a canvas, apart from its document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CanvasHead {
    /// Its title, unique within a tenant, ignoring case.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// A data URI, or empty.
    pub avatar: String,
    /// `me` or `team`.
    pub permission: String,
    /// The heading it is listed under.
    pub canvas_type: String,
    /// The file on the operator's machine that it was read from, if it was. Related files are looked up beside it.
    /// Therefore nothing that arrives over the network sets it, and changing the canvas over the network clears it.
    pub source: String,
}

/// The heading that ingestion pipelines are listed under.
pub const PIPELINE_TYPE: &str = "Ingestion Pipeline";

/// The heading of canvases created for chat assistants. Lists leave them out.
pub const CHAT_TYPE: &str = "Chat Assistant";

/// A stored canvas with its newest version.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredCanvas {
    /// Its tenant and id.
    pub key: CanvasKey,
    /// Its title and other properties.
    pub head: CanvasHead,
    /// The newest version's content hash.
    pub version: Arc<str>,
    /// The newest version's DSL, as JSON text; empty in lists, where all of them would take too much space.
    pub dsl: Arc<str>,
    /// Counts how often it was stored; a writer must supply the current value.
    pub revision: i64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last changed, in milliseconds since 1970.
    pub updated_ms: i64,
    /// Its tags. Storing the canvas again keeps them.
    pub tags: Vec<String>,
    /// The published version, and since when. Storing the canvas again keeps it.
    pub published: Option<(Arc<str>, i64)>,
}

/// The sort order of a list of canvases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CanvasOrder {
    /// By when they were last changed.
    #[default]
    Updated,
    /// By when they were created.
    Created,
    /// By title, ignoring case.
    Title,
}

/// Which canvases to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CanvasFilter {
    /// Only this one.
    pub id: Option<CanvasId>,
    /// Only the one with this title, ignoring case.
    pub title: Option<String>,
    /// Part of the title, ignoring case.
    pub keywords: String,
    /// Only those that are ingestion pipelines, or only those that are not.
    pub pipelines: Option<bool>,
    /// Only those that have one of these tags, ignoring case; empty means all.
    pub tags: Vec<String>,
    /// The sort order.
    pub order: CanvasOrder,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
    /// Oldest first instead of newest first, and titles in alphabetical order.
    pub ascending: bool,
}

/// Stores canvases. A version is immutable and identified by the hash of its content; a session that started on a
/// version continues on it. A store may remove old versions when a canvas is stored again, except those that are
/// published, have a label, a title or a note, or that a session is on.
#[async_trait]
pub trait CanvasStore: Send + Sync {
    /// Creates a canvas, or changes it and adds a version if the DSL differs, whatever was stored before. Atomic.
    ///
    /// # Errors
    /// `Conflict` when another canvas of the tenant has the title; `QuotaExceeded` for one too many.
    async fn put(&self, key: &CanvasKey, head: &CanvasHead, dsl: &str) -> Result<StoredCanvas>;

    /// Like [`CanvasStore::put`], provided that the canvas is still at the revision of `seen`. `None`: it has been
    /// stored or removed in the meantime, and nothing was changed.
    ///
    /// # Errors
    /// As [`CanvasStore::put`].
    async fn change(&self, seen: &StoredCanvas, head: &CanvasHead, dsl: &str)
    -> Result<Option<StoredCanvas>>;

    /// Returns a canvas with its newest version.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &CanvasKey) -> Result<StoredCanvas>;

    /// Returns the tenant of the canvas with this id; if there are several, of the one that was created first. Other
    /// programs call a canvas by its id alone, before its tenant is known; everything after that uses the tenant.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn tenant_of(&self, id: &CanvasId) -> Result<Option<TenantId>>;

    /// Returns the hash of the newest version. A turn that starts a session needs no more: the version's plan is
    /// usually cached, and the DSL may be large.
    ///
    /// # Errors
    /// `NotFound`, also for the canvas of a chat assistant: only questions to the assistant may start anything on it.
    async fn newest(&self, key: &CanvasKey) -> Result<Arc<str>> {
        let canvas = self.get(key).await?;
        if canvas.head.canvas_type == CHAT_TYPE {
            return Err(Error::not_found(format!("there is no canvas `{}`", key.id)));
        }
        Ok(canvas.version)
    }

    /// Returns the DSL of one version.
    ///
    /// # Errors
    /// `NotFound`.
    async fn version(&self, key: &CanvasKey, version: &str) -> Result<Arc<str>>;

    /// Returns canvases that match a filter, without their DSL, ordered by the time of their last change, and their
    /// total number. Those of chat assistants are left out.
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
