//! canvas JSON → plan → run → components → events → API: **recorded runs as tests**
//!
//! A file names a canvas, its questions, and the expectations; it also contains the answers of models and tools. The
//! canvas runs on those answers, without any external service, and every expectation is evaluated on plain data
//! (`expect`, pure).

pub mod case;
pub mod dataset;
mod expect;
pub mod file;
pub mod judge;
mod observed;
pub mod record;
pub mod report;
mod text;

pub use case::{Mode, Subject};
pub use file::{EvalFile, Invalid};
pub use observed::Observed;
pub use report::{CaseReport, FileReport};
