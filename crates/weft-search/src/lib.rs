//! canvas JSON → plan → run → components → events → API: **documents to search**
//!
//! A full-text index in memory, and how documents become the chunks it holds.

mod document;
mod index;
mod postings;
mod words;

pub use document::{Document, chunks, load_folder};
pub use index::{MemoryIndex, QUERY_WORDS_MAX, RESULTS_MAX};
pub use words::words;
