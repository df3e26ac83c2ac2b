//! tmp
pub mod contracts;
pub mod memory_store;
