//! A log of the parsing of documents, so that people can find out why and when one failed.

use weft_macros::async_trait;

use crate::error::Result;
use crate::id::{DatasetKey, DocumentId, DocumentKey, TenantId};
use crate::seam::dataset_store::{DocumentState, Settings};
use crate::seam::document_reader::ChunkMethod;

/// Maximum number of entries retained per document: the most recent ones.
pub const READINGS_MAX: u64 = 20;

/// A finished attempt to parse a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Its unique id.
    pub id: String,
    /// The document.
    pub document: DocumentKey,
    /// The name of the document at that time.
    pub name: String,
    /// How the document was split.
    pub method: ChunkMethod,
    /// The settings at that time, including the pipeline that was used, if any.
    pub settings: Settings,
    /// How it ended: [`DocumentState::Done`], [`DocumentState::Failed`] or [`DocumentState::Cancelled`].
    pub state: DocumentState,
    /// Notices, or why it failed; for people.
    pub message: String,
    /// When it started, in milliseconds since 1970; absent if it never did.
    pub begun_ms: Option<i64>,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: i64,
    /// How long workers spent on it, in milliseconds.
    pub duration_ms: i64,
    /// Number of chunks it produced.
    pub chunk_count: u64,
    /// Number of tokens in those.
    pub token_count: u64,
}

/// Which entries to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadingFilter {
    /// Only those of one document.
    pub document: Option<DocumentId>,
    /// Only those that ended in one of these states; empty means any.
    pub states: Vec<DocumentState>,
    /// Only those of documents whose name at that time contained this, ignoring case.
    pub keywords: String,
    /// Only those that ended at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Only those that ended at this time or earlier.
    pub to_ms: Option<i64>,
    /// Oldest first.
    pub ascending: bool,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// Stores the log. Implemented by the same store as the [`IngestQueue`](super::IngestQueue): the transaction that
/// settles a document for good (done, failed, abandoned, cancelled by its worker) adds the entry, so each exists
/// exactly once. Of each document, the last [`READINGS_MAX`] are retained. They are deleted with their document and
/// their dataset.
#[async_trait]
pub trait ReadingLog: Send + Sync {
    /// Returns entries for the documents of a dataset, most recently ended first, and their total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn readings(&self, dataset: &DatasetKey, filter: &ReadingFilter) -> Result<(Vec<Reading>, u64)>;

    /// Returns the entry with this id.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant.
    async fn reading(&self, tenant: &TenantId, id: &str) -> Result<Reading>;

    /// Removes the entries of all tenants that ended before this time. Returns how many were removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn forget_readings(&self, before_ms: i64) -> Result<u64>;
}
