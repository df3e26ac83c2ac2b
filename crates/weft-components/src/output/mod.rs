//! What leaves the run.

pub mod invoke;
pub mod message;
