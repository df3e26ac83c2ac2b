//! What people may change of a document.

use super::Settings;
use crate::filter::Metadata;
use crate::seam::document_reader::ChunkMethod;

/// What people may change of a document. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentChange {
    /// The revision that it was made of; absent when it says nothing that follows from what was there.
    pub revision: Option<i64>,
    /// Its name.
    pub name: Option<String>,
    /// How it is cut.
    pub method: Option<ChunkMethod>,
    /// Settings, all of them.
    pub settings: Option<Settings>,
    /// Metadata, all of it.
    pub metadata: Option<Metadata>,
    /// Whether its chunks are found.
    pub enabled: Option<bool>,
}
