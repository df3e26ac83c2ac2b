//! Tags of chunks.

use super::StoredChunk;
use crate::value::Json;

/// The name that the tags of a chunk have among its fields.
const TAGS: &str = "tag_kwd";

impl StoredChunk {
    /// Tags that somebody gave it.
    pub fn tags(&self) -> Vec<&str> {
        let tags = self.fields.get(TAGS).and_then(Json::as_array);
        tags.into_iter().flatten().filter_map(Json::as_str).collect()
    }

    /// Puts tags in the place of those that it has.
    pub fn set_tags(&mut self, tags: Vec<String>) {
        if tags.is_empty() {
            self.fields.remove(TAGS);
        } else {
            self.fields.insert(TAGS.to_owned(), tags.into());
        }
    }
}
