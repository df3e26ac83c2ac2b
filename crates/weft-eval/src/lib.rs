//! canvas JSON → plan → run → components → events → API: **recorded runs as tests**
//!
//! A file names a canvas, what it is asked, and what is expected; it also holds what models and tools
//! answered. The canvas runs on those answers, without anything outside, and every expectation is
//! looked at in plain data (`expect`, pure).

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
