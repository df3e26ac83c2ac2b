//! canvas JSON → plan → run → components → events → API: **documents in, passages out**
//!
//! How documents are made searchable, and how a question becomes the passages that answer it.

mod highlight;
pub mod rank;

pub use highlight::highlight;
pub mod ingest;

pub use ingest::{IngestWorker, Library};
