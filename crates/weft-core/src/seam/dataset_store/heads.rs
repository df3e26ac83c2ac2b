//! What is known of documents and chunks beside what they are made of.

use super::Extra;
use crate::filter::Metadata;
use crate::id::{ChunkId, DocumentId, DocumentKey};

/// A document as filters see it, without what it is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentHead {
    /// Which one.
    pub id: DocumentId,
    /// Its file name.
    pub name: String,
    /// What filters look at.
    pub metadata: Metadata,
    /// Whether its chunks are found.
    pub enabled: bool,
    /// Counts the changes that people have made.
    pub revision: i64,
    /// When it was changed the last time, in milliseconds since 1970.
    pub updated_ms: i64,
}

/// Of which documents to read the heads.
#[derive(Clone, Debug, PartialEq)]
pub enum Heads {
    /// Of these, as far as they are there.
    Of(Vec<DocumentId>),
    /// Of those with this extra.
    With(Extra),
    /// Of some of all: so many at most, behind this one in the order of the list. A page costs the same
    /// wherever it begins.
    Page(Option<DocumentId>, u64),
}

/// What is known of a chunk beside its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Its id.
    pub id: ChunkId,
    /// Its document.
    pub document: DocumentKey,
    /// The larger chunk that is shown when this one is found.
    pub parent: Option<ChunkId>,
    /// Whether it is found. A parent never is.
    pub available: bool,
}
