//! What a program returns or throws, in words of ours.

use rquickjs::{CaughtError, Coerced, Ctx, Object, Value};
use weft_core::Json;
use weft_core::seam::sandbox::Failure;

/// Bytes of a message of a program, at most.
const MESSAGE_MAX: usize = 2_000;

/// A text of the program; `None` when there is no memory for it. Halves of characters, which only a
/// program's own mistakes leave, become U+FFFD.
pub fn text_of<'js>(ctx: &Ctx<'js>, text: &rquickjs::String<'js>) -> Option<String> {
    match text.to_string() {
        Ok(text) => Some(text),
        // As JSON halves are written with escapes.
        Err(rquickjs::Error::Utf8(_)) => {
            let json = ctx.json_stringify(text.clone()).ok().flatten()?.to_string().ok()?;
            read(&json).ok()?.as_str().map(str::to_owned)
        }
        Err(_) => None,
    }
}

/// JSON as QuickJS writes it.
pub fn read(json: &str) -> Result<Json, Failure> {
    let read = serde_json::from_str(json).or_else(|_| serde_json::from_str(&without_halves(json)));
    read.map_err(|error| Failure::Program {
        message: format!("what `main` returns cannot be read as JSON: {error}"),
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

/// Why a program has failed. Asking a thrown value what it is may run code of the program; what that
/// throws is dropped.
pub fn failure<'js>(ctx: &Ctx<'js>, thrown: CaughtError<'js>, file: &str) -> Failure {
    let value = match thrown {
        CaughtError::Error(rquickjs::Error::Allocation) => return Failure::Memory,
        CaughtError::Error(error) => {
            return Failure::Program { message: error.to_string(), line: None };
        }
        CaughtError::Exception(exception) => exception.into_value(),
        CaughtError::Value(value) => value,
    };
    // QuickJS throws null when there is not even memory for an error.
    if value.is_null() {
        return Failure::Memory;
    }
    let Some(object) = value.as_object() else {
        let message = format!("it threw {}", word(ctx, &value));
        return Failure::Program { message: shortened(message), line: None };
    };
    let name = member(ctx, object, "name").unwrap_or_else(|| "Error".to_owned());
    let message = member(ctx, object, "message").unwrap_or_default();
    // Sometimes there is memory for the error and none for its message.
    if name == "InternalError" && matches!(message.as_str(), "" | "out of memory") {
        return Failure::Memory;
    }
    let line = member(ctx, object, "stack").and_then(|stack| line(&stack, file));
    let message = if object.as_value().is_error() || !message.is_empty() {
        format!("{name}: {message}")
    } else {
        format!("it threw {}", word(ctx, &value))
    };
    Failure::Program { message: shortened(message), line }
}

fn member<'js>(ctx: &Ctx<'js>, object: &Object<'js>, name: &str) -> Option<String> {
    let Ok(value) = object.get::<_, Value<'_>>(name) else {
        ctx.catch();
        return None;
    };
    let text = value.as_string().and_then(|text| text_of(ctx, text))?;
    (!text.is_empty()).then_some(text)
}

/// A value in a word or two.
fn word<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    let json = ctx.json_stringify(value.clone()).ok().flatten();
    let text = json.or_else(|| value.get::<Coerced<rquickjs::String<'_>>>().ok().map(|text| text.0));
    text.and_then(|text| text_of(ctx, &text)).unwrap_or_else(|| {
        ctx.catch();
        format!("a value of the type {}", value.type_name())
    })
}

/// The first line of the program that a stack names.
fn line(stack: &str, file: &str) -> Option<u32> {
    let (_, place) = stack.split_once(&format!("{file}:"))?;
    place.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok().filter(|line| *line > 0)
}

fn shortened(mut message: String) -> String {
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

    #[test]
    fn lines_are_those_of_the_program() {
        let check =
            |stack: &str, expected: Option<u32>| assert_eq!(line(stack, "program.js"), expected, "{stack}");
        check("    at f (native)\n    at main (program.js:12:5)\n    at program.js:40", Some(12));
        check("    at <eval> (other.js:1:5)", None);
        check("program.js:99999999999999999999", None);
        check("program.js:", None);
    }
}
