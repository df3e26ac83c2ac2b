//! Tags of chunks.

use super::StoredChunk;
use crate::value::Json;

/// The key of a chunk's tags among its fields.
const TAGS: &str = "tag_kwd";

impl StoredChunk {
    /// Returns its tags; values that are not strings are ignored.
    pub fn tags(&self) -> Vec<&str> {
        let tags = self.fields.get(TAGS).and_then(Json::as_array);
        tags.into_iter().flatten().filter_map(Json::as_str).collect()
    }

    /// Replaces its tags.
    pub fn set_tags(&mut self, tags: Vec<String>) {
        if tags.is_empty() {
            self.fields.remove(TAGS);
        } else {
            self.fields.insert(TAGS.to_owned(), tags.into());
        }
    }
}
