//! Converts results of calls into blocks and values. Pure.

use weft_core::tool::{Block, ToolOutput};
use weft_core::{Error, ErrorKind, Json, Result};

/// Converts the result of a tool call.
///
/// # Errors
/// `Unsupported` when the server asks a question before it answers, `Garbled` for an invalid result.
pub(crate) fn output(result: &Json) -> Result<ToolOutput> {
    match result.get("resultType").and_then(Json::as_str) {
        None | Some("complete") => {}
        Some(other) => {
            let message = format!("the server answers with `{other}` instead of a result");
            return Err(Error::new(ErrorKind::Unsupported, message)
                .help("tools that ask questions or continue in the background cannot be used"));
        }
    }
    let content = result.get("content").and_then(Json::as_array);
    let value = result.get("structuredContent").filter(|value| !value.is_null()).cloned();
    let failed = result.get("isError") == Some(&Json::Bool(true));
    // One of the three is enough: servers omit what is empty.
    if content.is_none() && value.is_none() && result.get("isError").is_none() {
        return Err(Error::new(ErrorKind::Garbled, "the server's response is not the result of a call"));
    }
    let mut blocks: Vec<Block> = content.into_iter().flatten().map(block).collect();
    // Models read the blocks; a server may return its value in no other form.
    if let (Some(value), true) = (&value, blocks.is_empty()) {
        blocks.push(Block::Text { text: value.to_string() });
    }
    Ok(ToolOutput { blocks, value, failed, ..ToolOutput::default() })
}

/// Converts a content item. An unknown type is shown as it is.
fn block(content: &Json) -> Block {
    let known = match content.get("type").and_then(Json::as_str) {
        Some("text") => text(content, "text").map(|text| Block::Text { text }),
        Some("image") => data_url(content, "data").map(|url| Block::Image { url }),
        Some("audio") => data_url(content, "data").map(|url| Block::Audio { url }),
        Some("resource") => content.get("resource").and_then(embedded),
        Some("resource_link") => text(content, "uri").map(|uri| Block::Resource {
            uri,
            media_type: text(content, "mimeType"),
            text: None,
        }),
        Some(_) | None => None,
    };
    // A model can often use it, and leaving it out would look like an answer without it.
    known.unwrap_or_else(|| Block::Text { text: content.to_string() })
}

fn embedded(resource: &Json) -> Option<Block> {
    let media_type = text(resource, "mimeType");
    if let Some(url) = data_url(resource, "blob") {
        return Some(Block::Resource { uri: url, media_type, text: None });
    }
    Some(Block::Resource { uri: text(resource, "uri")?, media_type, text: text(resource, "text") })
}

fn text(json: &Json, name: &str) -> Option<String> {
    json.get(name)?.as_str().map(str::to_owned)
}

/// Returns bytes, which are already base64-encoded, as a data URL.
fn data_url(json: &Json, name: &str) -> Option<String> {
    let data = json.get(name)?.as_str()?;
    let media_type = text(json, "mimeType").unwrap_or_else(|| "application/octet-stream".to_owned());
    Some(format!("data:{media_type};base64,{data}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_content_becomes_a_block() {
        let check = |content: Json, expected: Block| {
            let told = output(&json!({"content": [content]})).unwrap();
            assert_eq!(told, ToolOutput { blocks: vec![expected], ..ToolOutput::default() });
        };
        let resource = |uri: &str, media_type: Option<&str>, text: Option<&str>| Block::Resource {
            uri: uri.into(),
            media_type: media_type.map(str::to_owned),
            text: text.map(str::to_owned),
        };
        check(json!({"type": "text", "text": "汉"}), Block::Text { text: "汉".into() });
        check(
            json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
            Block::Image { url: "data:image/png;base64,AA==".into() },
        );
        check(
            json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
            Block::Audio { url: "data:audio/wav;base64,AA==".into() },
        );
        check(
            json!({"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "t"}}),
            resource("file:///a", Some("text/plain"), Some("t")),
        );
        check(
            json!({"type": "resource", "resource": {"uri": "file:///b", "blob": "AA=="}}),
            resource("data:application/octet-stream;base64,AA==", None, None),
        );
        check(
            json!({"type": "resource_link", "uri": "file:///c", "name": "c", "mimeType": "text/csv"}),
            resource("file:///c", Some("text/csv"), None),
        );
        let unknown = json!({"type": "hologram", "size": 3});
        check(unknown.clone(), Block::Text { text: unknown.to_string() });
    }

    #[test]
    fn values_and_failures_are_kept() {
        let told = output(&json!({"content": [], "structuredContent": {"a": 1}, "isError": false})).unwrap();
        assert_eq!(
            (told.to_json(), told.to_text(), told.failed),
            (json!({"a": 1}), "{\"a\":1}".into(), false)
        );
        let told = output(&json!({"content": [{"type": "text", "text": "no"}], "isError": true})).unwrap();
        assert_eq!((told.to_text(), told.failed), ("no".to_owned(), true));
        let kind = |result: Json| output(&result).unwrap_err().kind;
        assert_eq!(kind(json!({"resultType": "input_required"})), ErrorKind::Unsupported);
        assert_eq!(kind(json!({"tools": []})), ErrorKind::Garbled);
    }
}
