//! Listing, replacing and removing chunks.

use super::StoredChunk;

/// Which chunks of a processed document to list: in document order, without parents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkFilter {
    /// Only those whose text or keywords contain this, ignoring case.
    pub keywords: Option<String>,
    /// Only those that can be found, or only those that cannot.
    pub available: Option<bool>,
    /// Whether to include their vectors.
    pub vectors: bool,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// The result of removing chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedChunks {
    /// Number of chunks removed.
    pub count: u64,
    /// The names of the pictures that they were shown with and that no other chunk of the document is shown with,
    /// including chunks that are still being created; sorted by name.
    pub pictures: Vec<String>,
}

/// A chunk to write, with the chunk it was derived from.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkReplacement {
    /// The chunk with this id as it was read; absent if there was none.
    pub before: Option<StoredChunk>,
    /// The chunk to write.
    pub after: StoredChunk,
}

impl ChunkReplacement {
    /// Adds a chunk where there was none.
    pub fn added(after: StoredChunk) -> Self {
        Self { before: None, after }
    }

    /// Replaces a chunk.
    pub fn of(before: StoredChunk, change: impl FnOnce(StoredChunk) -> StoredChunk) -> Self {
        let after = change(before.clone());
        Self { before: Some(before), after }
    }

    /// Returns whether the stored chunk is still as it was read. Vectors are not compared: they follow from the rest
    /// of the chunk and from the generation of its dataset, which is checked separately.
    pub fn is_of(&self, there: Option<&StoredChunk>) -> bool {
        let without = |chunk: &StoredChunk| StoredChunk { vector: None, ..chunk.clone() };
        self.before.as_ref().map(without) == there.map(without)
    }
}
