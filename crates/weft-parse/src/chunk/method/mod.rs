//! The chunking methods, one file each.

mod book;
mod email;
mod laws;
mod manual;
mod naive;
mod one;
mod paper;
mod picture;
mod presentation;
mod qa;
mod table;
mod tag;
mod titles;

use weft_core::error::Result;
use weft_core::seam::document_reader::ChunkMethod;

use super::draft::Cutting;
use crate::chunk::source::ChunkSource;

/// A chunking method.
pub(crate) type CutMethod = fn(&ChunkSource<'_>) -> Result<Cutting>;

/// The implementation of a method.
pub(crate) fn of(method: ChunkMethod) -> CutMethod {
    match method {
        // A transcript is text like any other, and the knowledge graph is built from ordinary chunks.
        ChunkMethod::Naive | ChunkMethod::Audio | ChunkMethod::KnowledgeGraph => naive::cut,
        ChunkMethod::Book => book::cut,
        ChunkMethod::Email => email::cut,
        ChunkMethod::Laws => laws::cut,
        ChunkMethod::Manual | ChunkMethod::Resume => manual::cut,
        ChunkMethod::One => one::cut,
        ChunkMethod::Paper => paper::cut,
        ChunkMethod::Picture => picture::cut,
        ChunkMethod::Presentation => presentation::cut,
        ChunkMethod::Qa => qa::cut,
        ChunkMethod::Table => table::cut,
        ChunkMethod::Tag => tag::cut,
        ChunkMethod::Titles => titles::cut,
    }
}
