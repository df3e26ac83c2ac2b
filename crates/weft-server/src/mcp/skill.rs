//! Instructions for coding agents on how to build a canvas: a file of the documentation, served as a resource.

use serde_json::{Map, Value as Json, json};

const URI: &str = "skill://weft-canvas/SKILL.md";
const TEXT: &str = include_str!("../../../../docs/skills/weft-canvas/SKILL.md");

pub(super) fn resource() -> Json {
    json!({
        "uri": URI, "name": "weft-canvas", "title": "How to build a canvas", "mimeType": "text/markdown",
        "description": "How to build, check, try and keep a canvas with the tools of this server.",
    })
}

/// Returns the content of a resource.
pub(super) fn read(uri: &str) -> Option<Map<String, Json>> {
    let content = json!({"uri": URI, "mimeType": "text/markdown", "text": TEXT});
    (uri == URI).then(|| Map::from_iter([("contents".to_owned(), json!([content]))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skill_describes_itself_and_names_the_tools() {
        let head = TEXT.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).unwrap().0;
        assert!(head.contains("name: weft-canvas\n") && head.contains("description: "), "{head}");
        for tool in super::super::authoring::TOOLS {
            assert!(TEXT.contains(&format!("`{}`", tool.name)), "{}", tool.name);
        }
        assert!(read(URI).is_some() && read("skill://other/SKILL.md").is_none());
    }
}
