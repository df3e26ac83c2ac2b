//! Describes what a program returns or throws.

use rquickjs::{CaughtError, Coerced, Ctx, Object, Value};
use weft_core::seam::sandbox::Failure;

use super::ProgramWatch;
use crate::result::{read, shortened, shortened_to};

/// Limits on the causes of an error that are reported: levels, members of each error, and bytes of each cause.
const CAUSE_LEVELS_MAX: usize = 3;
const CAUSES_MAX: u32 = 5;
const CAUSE_BYTES_MAX: usize = 300;
/// Maximum number of bytes in a message that has causes, which leaves space for them.
const MESSAGE_OF_CAUSES_MAX: usize = 1_000;
/// Total number of bytes of causes after which no more are read.
const CAUSES_BYTES_MAX: usize = 2_000;
/// Remedy for a program that needs a module.
const MODULES: &str = "there are no modules: a program has the language, `console`, timers, `TextEncoder`, `TextDecoder`, \
    `structuredClone`, `URL`, `URLSearchParams` and `Buffer`, and brings everything else in its own text";

/// Remedy for a program that needs locale-dependent formatting.
const LANGUAGES: &str = "there are no tables of languages and time zones: a program has `toLocaleString` of numbers in English, `localeCompare` with its options, `toFixed`, `toPrecision`, `toISOString`, \
    `padStart` and the parts of a `Date` (`getUTCFullYear` and so on), and puts its own separators in, as in \
    `n.toFixed(2).replace(/\\B(?=(\\d{3})+(?!\\d))/g, ',')`";
/// Remedy for a program that awaits outside of an async function.
const WAITING: &str =
    "`await` is only allowed in `async` functions: write `async function main(args) { … }` and await there";

/// Converts a text of the program; `None` when there is no memory for it. Lone surrogates, which only a program's own
/// mistakes leave, become U+FFFD.
pub(super) fn text_of<'js>(ctx: &Ctx<'js>, text: &rquickjs::String<'js>) -> Option<String> {
    match text.to_string() {
        Ok(text) => Some(text),
        // In JSON, lone surrogates are written as escapes.
        Err(rquickjs::Error::Utf8(_)) => {
            let json = ctx.json_stringify(text.clone()).ok().flatten()?.to_string().ok()?;
            read(&json).ok()?.as_str().map(str::to_owned)
        }
        Err(_) => None,
    }
}

/// Returns why a program has failed. Inspecting a thrown value may run code of the program; what that throws is
/// dropped.
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
    // QuickJS throws null when there is no memory even for an error.
    if value.is_null() && watch.memory_ran_out() {
        return Failure::Memory;
    }
    let Some(object) = value.as_object() else {
        let message = format!("it threw {}", word(ctx, &value));
        return Failure::Program { message: shortened(message), line: None };
    };
    let name = member(ctx, object, "name").unwrap_or_else(|| "Error".to_owned());
    let message = member(ctx, object, "message").unwrap_or_default();
    // Sometimes there is memory for the error but none for its message.
    if name == "InternalError" && matches!(message.as_str(), "" | "out of memory") {
        return Failure::Memory;
    }
    let line = member(ctx, object, "stack").and_then(|stack| line(&stack, file));
    let wants_module = name == "ReferenceError"
        && (message == "require is not defined" || message.starts_with("could not load module "));
    let mut message = if object.as_value().is_error() || !message.is_empty() {
        named(name, &message)
    } else {
        format!("it threw {}", word(ctx, &value))
    };
    if wants_module {
        message = format!("{message}; {MODULES}");
    } else if message == "ReferenceError: Intl is not defined" {
        message = format!("{message}; {LANGUAGES}");
    }
    let mut causes = String::new();
    Causes { ctx, file }.of(object, 1, &mut causes);
    if !causes.is_empty() {
        message = shortened_to(message, MESSAGE_OF_CAUSES_MAX) + &causes;
    }
    Failure::Program { message: shortened(message), line }
}

/// Appends a remedy to a failure if its line uses modules or `await` in a way that is not supported here.
pub(super) fn with_remedy(failure: Failure, source: &str) -> Failure {
    let remedy = match &failure {
        Failure::Program { message, line: Some(line) } => remedy(message, *line, source),
        _ => None,
    };
    match (failure, remedy) {
        (Failure::Program { message, line }, Some(remedy)) => {
            Failure::Program { message: shortened(format!("{message}; {remedy}")), line }
        }
        (failure, _) => failure,
    }
}

/// Returns the remedy for a line that uses what is not supported here.
pub(crate) fn remedy(message: &str, line: u32, source: &str) -> Option<&'static str> {
    if !message.starts_with("SyntaxError") {
        return None;
    }
    let at = usize::try_from(line).unwrap_or_default().saturating_sub(1);
    let text = source.lines().nth(at).unwrap_or_default().trim_start();
    if text.starts_with("import") {
        return Some(MODULES);
    }
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    text.split(|c: char| !is_part(c)).any(|word| word == "await").then_some(WAITING)
}

/// Describes the causes of an error.
struct Causes<'a, 'js> {
    ctx: &'a Ctx<'js>,
    file: &'a str,
}

impl<'js> Causes<'_, 'js> {
    /// Writes a line for each cause: the members of an `AggregateError`, and the `cause`.
    fn of(&self, error: &Object<'js>, level: usize, told: &mut String) {
        if level > CAUSE_LEVELS_MAX || !error.as_value().is_error() {
            return;
        }
        if let Some(members) = self.value(error, "errors").filter(Value::is_array)
            && let Some(members) = members.as_object()
        {
            let count = self.value(members, "length").and_then(|count| count.as_number()).unwrap_or_default();
            for at in (0..CAUSES_MAX).filter(|at| f64::from(*at) < count) {
                let Ok(member) = members.get::<_, Value<'_>>(at) else {
                    self.ctx.catch();
                    continue;
                };
                self.tell("- ", &member, level, told);
            }
            let more = count - f64::from(CAUSES_MAX);
            if more > 0.0 {
                let more = more.to_string();
                told.extend(["\n", &"  ".repeat(level), "- and ", &more, " more"]);
            }
        }
        if let Some(cause) = self.value(error, "cause") {
            self.tell("caused by ", &cause, level, told);
        }
    }

    fn tell(&self, how: &str, value: &Value<'js>, level: usize, told: &mut String) {
        if told.len() > CAUSES_BYTES_MAX {
            return;
        }
        let error = value.as_object().filter(|object| object.as_value().is_error());
        let text = match error {
            None => word(self.ctx, value),
            Some(error) => {
                let name = member(self.ctx, error, "name").unwrap_or_else(|| "Error".to_owned());
                let message = member(self.ctx, error, "message").unwrap_or_default();
                named(name, &message)
            }
        };
        let text = shortened_to(text, CAUSE_BYTES_MAX).split_whitespace().collect::<Vec<_>>().join(" ");
        told.extend(["\n", &"  ".repeat(level), how, &text]);
        let Some(error) = error else { return };
        let stack = member(self.ctx, error, "stack");
        if let Some(line) = stack.and_then(|stack| own_line(&stack, self.file)) {
            told.extend([" (line ", &line.to_string(), ")"]);
        }
        self.of(error, level + 1, told);
    }

    /// Returns a member that is present.
    fn value(&self, object: &Object<'js>, name: &str) -> Option<Value<'js>> {
        let Ok(value) = object.get::<_, Value<'js>>(name) else {
            self.ctx.catch();
            return None;
        };
        (!value.is_undefined() && !value.is_null()).then_some(value)
    }
}

/// Formats an error's message, which may be only its name.
fn named(name: String, message: &str) -> String {
    if message.is_empty() { name } else { format!("{name}: {message}") }
}

fn member<'js>(ctx: &Ctx<'js>, object: &Object<'js>, name: &str) -> Option<String> {
    let Ok(value) = object.get::<_, Value<'_>>(name) else {
        ctx.catch();
        return None;
    };
    let text = value.as_string().and_then(|text| text_of(ctx, text))?;
    (!text.is_empty()).then_some(text)
}

/// Formats a value briefly.
fn word<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    let json = ctx.json_stringify(value.clone()).ok().flatten();
    let text = json.or_else(|| value.get::<Coerced<rquickjs::String<'_>>>().ok().map(|text| text.0));
    text.and_then(|text| text_of(ctx, &text)).unwrap_or_else(|| {
        ctx.catch();
        format!("a value of the type {}", value.type_name())
    })
}

/// Returns the first line of the program in a stack, unless that belongs to another evaluated text, whose lines are not
/// reported.
fn own_line(stack: &str, file: &str) -> Option<u32> {
    let (before, _) = stack.split_once(&format!("{file}:"))?;
    if before.contains("<input>") { None } else { line(stack, file) }
}

/// Returns the first line of the program that a stack names.
fn line(stack: &str, file: &str) -> Option<u32> {
    let (_, place) = stack.split_once(&format!("{file}:"))?;
    place.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok().filter(|line| *line > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_running_other_source_is_not_part_of_a_cause() {
        let stack = "    at f (<input>:3:5)\n    at main (program.js:12:5)";
        assert_eq!((line(stack, "program.js"), own_line(stack, "program.js")), (Some(12), None));
        assert_eq!(own_line("    at main (program.js:12:5)", "program.js"), Some(12));
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
