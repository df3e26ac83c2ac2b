//! tmp
pub mod memory_store;
