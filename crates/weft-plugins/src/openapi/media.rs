//! Media types that are JSON.

use serde_json::Map;
use weft_core::Json;

/// The usual one.
pub(super) const JSON: &str = "application/json";

/// Whether what has this media type is JSON: `application/json`, or one whose name ends so (RFC 6839, section 3.1), such as
/// `application/vnd.api+json`; with or without parameters.
pub(super) fn is_json(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    name == JSON || name.ends_with("+json")
}

/// What a `content` has that is JSON, with its media type: the usual one where there are several.
pub(super) fn json_of(content: &Map<String, Json>) -> Option<(&str, &Json)> {
    let usual = content.get_key_value(JSON);
    let found = usual.or_else(|| content.iter().find(|(media_type, _)| is_json(media_type)));
    found.map(|(media_type, said)| (media_type.as_str(), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_many_names() {
        for json in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.api+json",
            "a/b+json;v=1",
        ] {
            assert!(is_json(json), "{json}");
        }
        for other in
            ["", "application/xml", "application/jsonp", "application/json-seq", "text/json5", "+jsonx"]
        {
            assert!(!is_json(other), "{other}");
        }
    }
}
