//! What every implementation of a seam must do. Each suite panics at the first broken promise.

pub mod store;
