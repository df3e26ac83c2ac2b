//! canvas JSON → plan → run → components → events → API: **what files say**
//!
//! From the bytes of a file to the pieces that are searched, in pure code.

mod archive;
pub mod chunk;
pub mod element;
pub mod format;
mod grid;
pub mod make;
mod markup;
mod parts;
pub mod reader;
mod tokens;
mod words;

pub use format::{Settings, parse};
pub use make::make;
pub use reader::{ChildReader, Confinement, InProcess, Limits, Worker, work};
pub use tokens::tokens;

use weft_core::Result;
use weft_core::seam::document_reader::{ReadDocument, ReadRequest};

/// Reads a file and cuts it into pieces.
///
/// # Errors
/// As [`parse`] and [`chunk::cut`].
pub fn read(request: &ReadRequest, bytes: &[u8]) -> Result<ReadDocument> {
    chunk::cut(&parse(&request.name, bytes, &request.settings)?, request)
}
