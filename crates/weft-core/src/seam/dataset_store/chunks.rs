//! Which chunks are listed, what takes their place, and what goes with them.

use super::StoredChunk;

/// Which chunks of a document to list: those of what is done, in their order, without parents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkFilter {
    /// Only those whose text or keywords hold this, whatever its case.
    pub keywords: Option<String>,
    /// Only those that are found, or are not.
    pub available: Option<bool>,
    /// With their vectors.
    pub vectors: bool,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// What came of removing chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedChunks {
    /// How many were there.
    pub count: u64,
    /// What the pictures are called that they were shown with, and that no other chunk of the document is shown with, one that is
    /// being made included; in the order of their names.
    pub pictures: Vec<String>,
}

/// A chunk that somebody writes, with what it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkReplacement {
    /// The chunk with its id as it was read; absent: there was none.
    pub before: Option<StoredChunk>,
    /// What it is to be.
    pub after: StoredChunk,
}

impl ChunkReplacement {
    /// A chunk in a place where there was none.
    pub fn added(after: StoredChunk) -> Self {
        Self { before: None, after }
    }

    /// A chunk in the place of one.
    pub fn of(before: StoredChunk, change: impl FnOnce(StoredChunk) -> StoredChunk) -> Self {
        let after = change(before.clone());
        Self { before: Some(before), after }
    }

    /// Whether its place is as it was read. Vectors are not looked at: they follow from what else a chunk has and from the
    /// generation of its dataset, which is looked at for itself.
    pub fn is_of(&self, there: Option<&StoredChunk>) -> bool {
        let without = |chunk: &StoredChunk| StoredChunk { vector: None, ..chunk.clone() };
        self.before.as_ref().map(without) == there.map(without)
    }
}
