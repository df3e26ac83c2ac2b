//! Checks whether programs can be parsed, using the interpreter that would run them. A program of our own gets their
//! text as an argument and parses it there, behind the same boundary and within its own limits, without executing any
//! of it.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, json};
use weft_core::TenantId;
use weft_core::component::WrittenProgram;
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Language, Limits, Program};

use crate::quick;
use crate::result::shortened_to;

const JAVASCRIPT: &str = include_str!("parsed/parse.js");
const PYTHON: &str = include_str!("parsed/parse.py");
/// Limits for parsing one program.
const LIMITS: Limits = Limits {
    // Most programs take milliseconds, but the machine may be busy.
    time: Duration::from_secs(5),
    memory_bytes: crate::LIMITS.memory_bytes,
    output_bytes: 16 << 10,
    printed_bytes: 1 << 10,
};
/// Maximum number of bytes in a program that is parsed.
const SOURCE_MAX: usize = 256 << 10;
/// Maximum number of bytes in the message about it.
const MESSAGE_MAX: usize = 300;

/// The output of our program.
#[derive(Deserialize)]
struct SyntaxFault {
    message: String,
    /// Counted from 1; 0 if unknown.
    line: u32,
    column: u32,
}

/// Returns why a program fails whenever it is run, with the position; `None` also if that cannot be determined, or not
/// without a delay.
pub async fn fault(sandbox: &dyn Sandbox, tenant: &TenantId, program: &WrittenProgram) -> Option<String> {
    if program.text.len() > SOURCE_MAX || !sandbox.is_ready(program.language) {
        return None;
    }
    let (parser, text) = match program.language {
        // The parser is for scripts.
        Language::JavaScript if quick::is_module(&program.text) => return None,
        Language::JavaScript => (JAVASCRIPT, quick::as_parsed(&program.text, &program.arguments)),
        Language::Python => (PYTHON, Cow::Borrowed(program.text.as_str())),
    };
    let source = parser.to_owned();
    let arguments =
        Map::from_iter([("source".to_owned(), json!(text)), ("given".to_owned(), json!(program.arguments))]);
    let parsing = Program { language: program.language, source, arguments, limits: LIMITS };
    // A check that fails says nothing about the program.
    let told = sandbox.run(tenant, parsing).await.ok()?.result.ok()?;
    serde_json::from_value::<SyntaxFault>(told).ok().map(|fault| in_words(fault, program))
}

fn in_words(fault: SyntaxFault, program: &WrittenProgram) -> String {
    let SyntaxFault { mut message, line, column } = fault;
    if program.language == Language::JavaScript
        && let Some(remedy) = quick::remedy(&message, line, &program.text)
    {
        message = format!("{message}; {remedy}");
    }
    let message = shortened_to(message, MESSAGE_MAX);
    match (line, column) {
        (0, _) => message,
        (line, 0) => format!("line {line}: {message}"),
        (line, column) => {
            let column = match program.language {
                Language::JavaScript => column_in_characters(&program.text, line, column),
                Language::Python => column,
            };
            format!("line {line}, column {column}: {message}")
        }
    }
}

/// Converts the byte column that the interpreter reports to a column in characters.
fn column_in_characters(text: &str, line: u32, column: u32) -> u32 {
    let place = |number: u32| usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
    let before = text.lines().nth(place(line)).and_then(|line| line.get(..place(column)));
    let characters = before.map(|before| before.chars().count().saturating_add(1));
    characters.and_then(|count| u32::try_from(count).ok()).unwrap_or(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_in_characters() {
        assert_eq!(column_in_characters("a\nconst ü = 1 2", 2, 14), 13);
        assert_eq!(column_in_characters("ü", 1, 2), 2, "within a character");
        assert_eq!(column_in_characters("a", 7, 9), 9);
        assert_eq!(column_in_characters("a", 0, 0), 1);
    }
}
