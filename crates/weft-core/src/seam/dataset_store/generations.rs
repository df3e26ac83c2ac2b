//! Vectors are made anew beside those that are there: of every two generations one has the one place, the other the other.

use super::Dataset;
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
}

/// The first generation has the dataset's own name, as datasets of which nothing was ever made anew.
fn index_of(key: &DatasetKey, generation: u64) -> DatasetKey {
    if generation.is_multiple_of(2) {
        return key.clone();
    }
    // No dataset has such an id: those that are given out are hexadecimal.
    DatasetKey::new(&key.tenant, format!("{}#odd", key.id))
}
