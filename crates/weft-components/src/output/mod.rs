//! What leaves the run.

pub mod doc_generator;
pub mod invoke;
pub mod message;
mod read_aloud;
mod remember;
