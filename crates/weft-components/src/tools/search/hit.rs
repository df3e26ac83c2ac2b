//! Search hits as sources.

use sha2::{Digest as _, Sha256};
use weft_core::Json;
use weft_core::citation::Chunk;

/// Maximum number of characters in a title.
// It is shown next to every passage, and some services return a page's first paragraph as its title.
const TITLE_MAX: usize = 500;

/// A search hit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hit {
    /// Its address.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its text.
    pub content: String,
    /// Its relevance from 0 to 1, if the service reports it.
    pub score: Option<f64>,
    /// The hit as the service returned it.
    pub row: Json,
}

/// Returns a hit as a source. A hit without a web address cannot be cited.
pub(super) fn chunk(hit: &Hit, hit_max: usize) -> Option<Chunk> {
    let url = hit.url.trim();
    let lower = url.to_ascii_lowercase();
    // It becomes a link in a page: an address of another kind could be a program.
    if !(lower.starts_with("https://") || lower.starts_with("http://")) {
        return None;
    }
    let content: String = without_images(&hit.content).chars().take(hit_max).collect();
    // By characters: a cut within a character would make the title invalid text.
    let title: String = hit.title.trim().chars().take(TITLE_MAX).collect();
    // A separator byte that no address contains.
    let hash = Sha256::new().chain_update(url).chain_update([0]).chain_update(&content).finalize();
    Some(Chunk {
        id: hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect(),
        content,
        document_id: url.to_owned(),
        document_name: if title.is_empty() { url.to_owned() } else { title },
        url: Some(url.to_owned()),
        similarity: Some(hit.score.map_or(1.0, |score| score.clamp(0.0, 1.0))),
        ..Chunk::default()
    })
}

/// Removes images that are embedded in a text.
fn without_images(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(place) = rest.find("data:image/") {
        kept.push_str(&rest[..place]);
        rest = &rest[place..];
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, ')' | '"' | '\'' | '<' | '>'));
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_in_a_text_are_removed() {
        assert_eq!(without_images("a ![x](data:image/png;base64,AA==) b data:image/gif;x"), "a ![x]() b ");
        assert_eq!(without_images("plain"), "plain");
    }

    #[test]
    fn hits_without_a_valid_url_are_no_sources() {
        let hit = |url: &str| Hit { url: url.to_owned(), score: Some(7.0), ..Hit::default() };
        for url in ["", "javascript:alert(1)", "/relative", "ftp://a.example"] {
            assert!(chunk(&hit(url), 10).is_none(), "{url}");
        }
        let found = chunk(&hit(" HTTPS://a.example "), 10).unwrap();
        assert_eq!((found.document_name.as_str(), found.similarity), ("HTTPS://a.example", Some(1.0)));
    }
}
