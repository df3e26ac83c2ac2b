//! canvas JSON → plan → run → components → events → API: **recorded runs as tests**
//!
//! A file names a canvas, the questions it is asked, and what is expected of it; it also contains the recorded answers
//! of models and tools. The canvas runs on those answers, without any outside call, and every expectation is evaluated
//! on plain data (`expect`, pure).

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
