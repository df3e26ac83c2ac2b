//! Changes that people make to a document.

use super::Settings;
use crate::filter::Metadata;
use crate::seam::document_reader::ChunkMethod;

/// Changes that people make to a document. Absent values stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentChange {
    /// The revision that the change is based on; absent if it does not depend on the previous state.
    pub revision: Option<i64>,
    /// Its name.
    pub name: Option<String>,
    /// How it is split.
    pub method: Option<ChunkMethod>,
    /// The settings, as a whole.
    pub settings: Option<Settings>,
    /// The metadata, as a whole.
    pub metadata: Option<Metadata>,
    /// Whether its chunks can be found.
    pub enabled: Option<bool>,
}
