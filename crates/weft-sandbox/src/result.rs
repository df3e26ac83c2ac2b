//! What a program gives: its result, and the message of its failure.

use weft_core::Json;
use weft_core::seam::sandbox::Failure;

/// Bytes of a message of a program, at most.
const MESSAGE_MAX: usize = 2_000;

/// A result as its interpreter writes it.
pub fn read(json: &str) -> Result<Json, Failure> {
    let read = serde_json::from_str(json).or_else(|_| serde_json::from_str(&without_halves(json)));
    read.map_err(|error| Failure::Program {
        message: format!("what the program returns cannot be read as JSON: {error}"),
        line: None,
    })
}

/// JSON in which `\ud800` to `\udfff`, which stand for halves of characters, are U+FFFD.
fn without_halves(json: &str) -> String {
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let half = escape.get(..6).is_some_and(|escape| {
            let code = escape.strip_prefix("\\u").and_then(|code| u32::from_str_radix(code, 16).ok());
            code.is_some_and(|code| (0xd800..=0xdfff).contains(&code))
        });
        // Escapes are ASCII, so that their ends are those of characters.
        let length = if half { 6 } else { 2 };
        mended.push_str(if half { "\\ufffd" } else { escape.get(..length).unwrap_or(escape) });
        rest = escape.get(length..).unwrap_or_default();
    }
    mended + rest
}

/// A message that nobody has to scroll through.
pub fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn halves_of_characters_are_replaced_and_nothing_else() {
        let check = |text: &str, expected: Json| assert_eq!(read(text), Ok(expected), "{text}");
        check(r#""\ud83d""#, json!("\u{fffd}"));
        check(r#"["a\\ud83d", "\udead\n\u00e9é\""]"#, json!(["a\\ud83d", "\u{fffd}\néé\""]));
        assert!(matches!(read(&"[".repeat(500)), Err(Failure::Program { .. })));
    }
}
