//! Documents before they are parsed.

use super::{Document, DocumentState, Settings};
use crate::filter::Metadata;
use crate::id::DocumentKey;
use crate::seam::document_reader::ChunkMethod;

impl Document {
    /// Creates an unparsed document that was added at `now_ms`, without a file, settings and metadata.
    pub fn unread(key: DocumentKey, name: String, now_ms: i64) -> Self {
        Self {
            key,
            name,
            size: 0,
            blob: String::new(),
            method: ChunkMethod::Naive,
            settings: Settings::new(),
            metadata: Metadata::new(),
            enabled: true,
            state: DocumentState::Unstarted,
            progress: 0.0,
            message: String::new(),
            begun_ms: None,
            duration_ms: 0,
            chunk_count: 0,
            token_count: 0,
            picture: None,
            revision: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }
}
