//! What a program returns or throws, in words of ours.

use rquickjs::{CaughtError, Coerced, Ctx, Object, Value};
use weft_core::seam::sandbox::Failure;

use super::ProgramWatch;
use crate::result::{read, shortened};

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

/// Why a program has failed. Asking a thrown value what it is may run code of the program; what that
/// throws is dropped.
pub(super) fn failure<'js>(
    ctx: &Ctx<'js>,
    thrown: CaughtError<'js>,
    file: &str,
    watch: &ProgramWatch,
) -> Failure {
    let value = match thrown {
        CaughtError::Error(rquickjs::Error::Allocation) => return Failure::Memory,
        CaughtError::Error(error) => {
            return Failure::Program { message: error.to_string(), line: None };
        }
        CaughtError::Exception(exception) => exception.into_value(),
        CaughtError::Value(value) => value,
    };
    // QuickJS throws null when there is not even memory for an error.
    if value.is_null() && watch.memory_ran_out() {
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

#[cfg(test)]
mod tests {
    use super::*;

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
