//! Ingestion of documents, and retrieval of passages, over a small in-memory library.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]

mod additions;
mod combined;
mod contents;
mod filters;
mod graph;
mod ingest;
mod kit;
mod parents;
mod questions;
mod search;
