//! canvas JSON → plan → run → components → events → API: **the contents of files**
//!
//! Turns the bytes of a file into the chunks that are indexed and searched, in pure code.

mod archive;
pub mod chunk;
pub mod element;
mod format;
mod grid;
mod make;
mod markup;
mod media;
mod parts;
mod pictures;
mod reader;
mod sheets;
mod tesseract;
mod tokens;
mod transcription;
mod unreadable;
mod words;

pub use format::{DocumentSettings, parse};
pub use make::make;
pub use markup::escaped;
pub use media::MediaReader;
pub use reader::{ChildReader, Confinement, InProcess, Limits, Worker, work};
pub use tesseract::Tesseract;
pub use tokens::tokens;
pub use transcription::{ProgramTranscription, TranscriptionProgram, TranscriptionSettings};

use weft_core::Result;
use weft_core::seam::document_reader::{PictureReading, ReadDocument, ReadRequest};

/// Parses a file and cuts it into chunks.
///
/// # Errors
/// As [`parse`] and [`chunk::cut`].
pub fn read(request: &ReadRequest, bytes: &[u8]) -> Result<ReadDocument> {
    read_with(request, bytes, &[])
}

/// Like [`read`], for a file some of whose pictures have been read already.
///
/// # Errors
/// As [`read`].
pub fn read_with(request: &ReadRequest, bytes: &[u8], readings: &[PictureReading]) -> Result<ReadDocument> {
    let parsed = format::parse_with(&request.name, bytes, &request.settings, readings)?;
    chunk::cut(&parsed, request)
}
