//! Properties of documents and chunks other than their contents.

use super::Extra;
use crate::filter::Metadata;
use crate::id::{ChunkId, DocumentId, DocumentKey};

/// A document as filters see it, without its contents.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentHead {
    /// Its id.
    pub id: DocumentId,
    /// Its file name.
    pub name: String,
    /// The metadata that filters evaluate.
    pub metadata: Metadata,
    /// Whether its chunks can be found.
    pub enabled: bool,
    /// Counts the changes made by people.
    pub revision: i64,
    /// When it was last changed, in milliseconds since 1970.
    pub updated_ms: i64,
}

/// Which documents to read the heads of.
#[derive(Clone, Debug, PartialEq)]
pub enum Heads {
    /// Those of these that exist.
    Of(Vec<DocumentId>),
    /// Those that have this extra.
    With(Extra),
    /// A page of all: up to this many after the given one, in list order. A page costs the same wherever it starts.
    Page(Option<DocumentId>, u64),
}

/// What is known about a chunk, except its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Its id.
    pub id: ChunkId,
    /// Its document.
    pub document: DocumentKey,
    /// The larger chunk that is shown when this one is found.
    pub parent: Option<ChunkId>,
    /// Whether it can be found. A parent never can.
    pub available: bool,
}
