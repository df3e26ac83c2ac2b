//! JSON media types.

use serde_json::Map;
use weft_core::Json;

/// The standard one.
pub(super) const JSON: &str = "application/json";

/// Whether a media type is JSON: `application/json`, or one with this suffix (RFC 6839, section 3.1), such as
/// `application/vnd.api+json`; with or without parameters.
pub(super) fn is_json(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    name == JSON || name.ends_with("+json")
}

/// Returns the JSON entry of a `content`, with its media type: the standard one if there are several.
pub(super) fn json_of(content: &Map<String, Json>) -> Option<(&str, &Json)> {
    let usual = content.get_key_value(JSON);
    let found = usual.or_else(|| content.iter().find(|(media_type, _)| is_json(media_type)));
    found.map(|(media_type, said)| (media_type.as_str(), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_media_types_are_recognised() {
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
