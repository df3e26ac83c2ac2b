//! What leaves the run.

pub mod message;
