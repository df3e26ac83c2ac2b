//! Tables of contents: made of the headings of a file, or by a model where it marks none, and asked when
//! a question is searched.

pub mod build;
pub mod question;

use weft_core::Json;
use weft_core::seam::knowledge::ContentsEntry;

/// Entries of one table, at most.
pub const ENTRIES_MAX: usize = 2_000;

/// A table as it is kept with its document.
pub fn to_json(entries: &[ContentsEntry]) -> Json {
    serde_json::json!({ "entries": entries })
}

/// A table as it was kept; nothing where that cannot be read.
pub fn from_json(json: Json) -> Vec<ContentsEntry> {
    #[derive(serde::Deserialize)]
    struct StoredContents {
        entries: Vec<ContentsEntry>,
    }
    serde_json::from_value(json).map(|kept: StoredContents| kept.entries).unwrap_or_default()
}
