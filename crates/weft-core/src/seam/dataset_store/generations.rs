//! Generations of vectors. New vectors are built beside the current ones, so generations alternate between two
//! locations.

use super::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::id::DatasetKey;

impl Dataset {
    /// Returns the key of the index that contains its current vectors.
    pub fn index(&self) -> DatasetKey {
        index_of(&self.key, self.generation)
    }

    /// Returns the key of the index in which the next generation is built.
    pub fn next_index(&self) -> DatasetKey {
        index_of(&self.key, self.generation + 1)
    }

    /// Returns all keys that its indexes may have.
    pub fn indexes(key: &DatasetKey) -> [DatasetKey; 2] {
        [index_of(key, 0), index_of(key, 1)]
    }

    /// The generation after a change of the embedder while the dataset has no vectors: a vector made for the previous
    /// embedder belongs to none of the new generations, and each column stays that of the same parity as before.
    pub fn with_other_embedder(&self) -> u64 {
        self.generation + 2
    }

    /// Checks whether the embedder may replace the previous one (`before`), given the number of documents being
    /// parsed and the number of chunks: vectors of two models cannot be compared.
    ///
    /// # Errors
    /// `Conflict` unless both numbers are zero.
    pub fn check_other_embedder(&self, before: &str, (being_read, chunks): (u64, u64)) -> Result<()> {
        let (things, count) = match (chunks, being_read) {
            (0, 0) => return Ok(()),
            // A document being parsed may already have been embedded with the old embedder.
            (0, documents) => ("documents that are being read", documents),
            (chunks, _) => ("chunks", chunks),
        };
        let message =
            format!("the embedder of a dataset with {things} cannot change: `{}` has {count}", self.name);
        let help = format!("keep `{before}`, or make another dataset");
        Err(Error::new(ErrorKind::Conflict, message).help(help))
    }
}

/// The first generation uses the dataset's own key, like datasets that have never been re-embedded.
fn index_of(key: &DatasetKey, generation: u64) -> DatasetKey {
    if generation.is_multiple_of(2) {
        return key.clone();
    }
    // No dataset has such an id: generated ids are hexadecimal.
    DatasetKey::new(&key.tenant, format!("{}#odd", key.id))
}
