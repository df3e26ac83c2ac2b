//! canvas JSON → plan → run → components → events → API: **documents in, passages out**
//!
//! Makes documents searchable, and turns a question into the passages that answer it.

pub mod additions;
pub mod ask;
pub mod combined;
pub mod contents;
pub mod datasets;
pub mod graph;
mod highlight;
pub mod ingest;
pub mod local_documents;
pub mod memories;
pub mod mind_map;
pub mod pictures;
pub mod rank;
pub mod raptor;
pub mod retrieve;
pub mod tokens;
mod used;

pub use highlight::highlight;
pub use ingest::{IngestWorker, Library};
