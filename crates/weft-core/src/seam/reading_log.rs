//! What has become of each reading of a document, so that people find out why one failed, and when.

use async_trait::async_trait;

use crate::error::Result;
use crate::id::{DatasetKey, DocumentId, DocumentKey, TenantId};
use crate::seam::dataset_store::{DocumentState, Settings};
use crate::seam::document_reader::ChunkMethod;

/// Readings that are kept of one document: the last ones.
pub const READINGS_MAX: u64 = 20;

/// A reading of a document that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Its id: nothing else has it.
    pub id: String,
    /// The document.
    pub document: DocumentKey,
    /// What the document was called then.
    pub name: String,
    /// How it was cut.
    pub method: ChunkMethod,
    /// The settings of then, with the pipeline that it went through, if it did.
    pub settings: Settings,
    /// How it ended: [`DocumentState::Done`], [`DocumentState::Failed`] or [`DocumentState::Cancelled`].
    pub state: DocumentState,
    /// What was noticed, or why it failed; for people.
    pub message: String,
    /// When it began, in milliseconds since 1970; absent when nobody had begun.
    pub begun_ms: Option<i64>,
    /// When it ended.
    pub ended_ms: i64,
    /// How long workers had it, in milliseconds.
    pub duration_ms: i64,
    /// Chunks that it has made.
    pub chunk_count: u64,
    /// The tokens of those.
    pub token_count: u64,
}

/// Which readings to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadingFilter {
    /// Only those of one document.
    pub document: Option<DocumentId>,
    /// Only those that ended so; empty: all.
    pub states: Vec<DocumentState>,
    /// Only those of documents whose name held this, whatever its case.
    pub keywords: String,
    /// Only those that ended at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Only those that ended at this time or earlier.
    pub to_ms: Option<i64>,
    /// The oldest first.
    pub ascending: bool,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// Where readings are noted. They are another face of the [`IngestQueue`](super::IngestQueue): the transaction that settles
/// a reading for good (done, failed, given up, cancelled by its worker) notes it, so each is there once; of one document the last
/// [`READINGS_MAX`]. They go with their document and their dataset.
#[async_trait]
pub trait ReadingLog: Send + Sync {
    /// Readings of the documents of a dataset, those that ended last first, and how many there are in all.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn readings(&self, dataset: &DatasetKey, filter: &ReadingFilter) -> Result<(Vec<Reading>, u64)>;

    /// The reading with this id.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant.
    async fn reading(&self, tenant: &TenantId, id: &str) -> Result<Reading>;

    /// Forgets the readings of all tenants that ended before this time. How many there were.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn forget_readings(&self, before_ms: i64) -> Result<u64>;
}
