//! Tables of contents: built from the headings of a file, or by a model where it marks none, and used when a
//! question is searched.

pub mod build;
pub mod question;

use weft_core::Json;
use weft_core::seam::knowledge::ContentsEntry;

/// Maximum number of entries of a table.
pub const ENTRIES_MAX: usize = 2_000;

/// Converts a table to its stored form.
pub fn to_json(entries: &[ContentsEntry]) -> Json {
    serde_json::json!({ "entries": entries })
}

/// Reads a stored table; empty if it cannot be read.
pub fn from_json(json: Json) -> Vec<ContentsEntry> {
    #[derive(serde::Deserialize)]
    struct StoredContents {
        entries: Vec<ContentsEntry>,
    }
    serde_json::from_value(json).map(|kept: StoredContents| kept.entries).unwrap_or_default()
}
