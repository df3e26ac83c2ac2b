//! Components whose results leave the run.

pub(crate) mod doc_generator;
pub(crate) mod invoke;
pub(crate) mod message;
mod read_aloud;
mod remember;
