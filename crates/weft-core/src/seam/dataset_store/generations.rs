//! Vectors are made anew beside those that are there: of every two generations one has the one place, the other the other.

use super::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::id::DatasetKey;

impl Dataset {
    /// What the index calls it that holds its vectors.
    pub fn index(&self) -> DatasetKey {
        index_of(&self.key, self.generation)
    }

    /// What the index calls it in which the next generation gathers.
    pub fn next_index(&self) -> DatasetKey {
        index_of(&self.key, self.generation + 1)
    }

    /// Everything that an index may call it.
    pub fn indexes(key: &DatasetKey) -> [DatasetKey; 2] {
        [index_of(key, 0), index_of(key, 1)]
    }

    /// The generation that it is of once it has got another embedder while it has no vectors: one that was made for the embedder
    /// before is of none of it, and each place is that of the same generations as before.
    pub fn with_other_embedder(&self) -> u64 {
        self.generation + 2
    }

    /// Looks whether it may get its embedder in the place of another one (`before`), while so many of its documents are being
    /// read and it has so many chunks: vectors of two models cannot be compared.
    ///
    /// # Errors
    /// `Conflict` unless there are none of both.
    pub fn check_other_embedder(&self, before: &str, (being_read, chunks): (u64, u64)) -> Result<()> {
        let (things, count) = match (chunks, being_read) {
            (0, 0) => return Ok(()),
            // What is being read may have been given the old embedder already.
            (0, documents) => ("documents that are being read", documents),
            (chunks, _) => ("chunks", chunks),
        };
        let message =
            format!("the embedder of a dataset with {things} cannot change: `{}` has {count}", self.name);
        let help = format!("keep `{before}`, or make another dataset");
        Err(Error::new(ErrorKind::Conflict, message).help(help))
    }
}

/// The first generation has the dataset's own name, as datasets of which nothing was ever made anew.
fn index_of(key: &DatasetKey, generation: u64) -> DatasetKey {
    if generation.is_multiple_of(2) {
        return key.clone();
    }
    // No dataset has such an id: those that are given out are hexadecimal.
    DatasetKey::new(&key.tenant, format!("{}#odd", key.id))
}
