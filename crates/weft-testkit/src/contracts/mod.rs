//! What every implementation of a seam must do. Each suite panics at the first broken promise.

pub mod datasets;
pub mod embedder;
pub mod index;
pub mod reranker;
pub mod sandbox;
pub mod store;
pub mod workspace;
