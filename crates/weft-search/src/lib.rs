//! canvas JSON → plan → run → components → events → API: **documents to search**
//!
//! Indexes of chunks by words and by vectors, and the rules that turn text into words.

mod analysis;
mod best;
mod bm25;
mod fields;
mod memory_chunk_index;
mod question;
mod sketch;
mod tantivy_index;
mod vectors;

use weft_core::Error;
use weft_core::id::{ChunkId, DatasetId, DocumentId};

pub use analysis::{WordToken, analyze};
pub use memory_chunk_index::MemoryChunkIndex;
pub use tantivy_index::{MEMORY_MAX, TantivyIndex};

/// Maximum number of chunks that each part of a search finds, whatever is requested.
pub const HITS_MAX: usize = 16_384;

fn wrong_dimension(dataset: &DatasetId, given: usize, known: usize) -> Error {
    Error::invalid(format!(
        "a vector of length {given} does not fit the dataset `{dataset}`, whose vectors have length {known}"
    ))
    .help("embed questions and documents with the same model; to change it, rebuild the dataset's index")
}

fn no_document(dataset: &DatasetId, document: &DocumentId) -> Error {
    Error::not_found(format!("the index of the dataset `{dataset}` has no document `{document}`"))
        .help("add the document before its chunks")
}

fn no_direction(chunk: &ChunkId) -> Error {
    Error::invalid(format!("the vector of the chunk `{chunk}` is zero or not finite"))
        .help("check what the embedding model returns")
}
