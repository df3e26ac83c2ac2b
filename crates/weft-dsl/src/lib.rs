//! canvas JSON → **plan** → run → components → events → API
//!
//! [`load`] reads a document in any of the forms in use; [`compile`] checks it against a catalog of component
//! types and links it into a [`Plan`]. Both report all problems together.

mod apart;
mod assigned;
mod build;
mod calls;
pub mod canvas;
pub mod compile;
pub mod container;
pub mod diff;
mod drawing;
pub mod export;
mod findings;
mod global_ways;
mod globals;
mod graph;
mod limits;
pub mod link;
mod lost;
mod options;
mod outputs;
mod parameters;
mod parse;
mod partial;
mod paths;
pub mod plan;
mod pointer;
pub mod problem;
mod references;
mod schema;
mod secrets;
mod span;
mod stand_in;
mod suggest;
mod targets;
mod texts;
mod tool_servers;
mod unseen;
mod upgrade;
mod variables;

use std::sync::Arc;

use weft_core::Json;

pub use canvas::{Canvas, CanvasNode, PIPELINE};
pub use compile::{CompileOptions, Compiled, compile};
pub use paths::prefixes;
pub use plan::Plan;
use problem::ProblemList;
pub use problem::{Problem, Severity, WILL_FAIL};
pub use schema::canvas_schema;
pub use tool_servers::{LeftOutTool, PluginTools};
pub use unseen::{unseen_in_member, unseen_in_text};
pub use upgrade::todays_kind;

/// Maximum size of a document in bytes: 32 MiB.
pub const DOCUMENT_BYTES_MAX: usize = 32 << 20;

/// Maximum nesting depth of objects and lists; this is the parser's own limit.
pub const NESTING_MAX: usize = 127;

/// Reads a canvas.
///
/// # Errors
/// When the text is too large or not JSON, or when it holds no canvas. Problems in a part of a canvas are
/// reported by [`compile`].
pub fn load(text: &[u8]) -> Result<Canvas, Vec<Problem>> {
    let refuse = |problem: Problem| vec![problem];
    if text.len() > DOCUMENT_BYTES_MAX {
        let message = format!("the document has {} bytes; at most {DOCUMENT_BYTES_MAX} are read", text.len());
        return Err(refuse(Problem::error("too-large", "", message)));
    }
    let source = std::str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        let message = format!("the document is not UTF-8: byte {at} does not belong to any character");
        let problem = Problem::error("not-utf8", "", message).help("save the file as UTF-8");
        refuse(Problem { span: Some(at..at + 1), ..problem })
    })?;
    // Some editors prepend a byte order mark, which the parser does not accept.
    let json = source.strip_prefix('\u{feff}').unwrap_or(source);
    let document: Json = serde_json::from_str(json).map_err(|error| {
        let mut problem = not_json(json, &error);
        // Spans refer to the text as it was given, including the mark.
        let offset = source.len() - json.len();
        problem.span = problem.span.map(|span| span.start + offset..span.end + offset);
        refuse(problem)
    })?;
    parse::canvas(Arc::from(source), document).map_err(|found| {
        let mut problems = ProblemList::default();
        problems.extend(found);
        problems.finish(source)
    })
}

fn not_json(text: &str, error: &serde_json::Error) -> Problem {
    let place = format!("line {}, column {}", error.line(), error.column());
    let problem = if text.trim().is_empty() {
        Problem::error("truncated", "", "the document is empty").help("export or download it again")
    } else if error.is_eof() {
        Problem::error("truncated", "", format!("the document ends in the middle of a value, at {place}"))
            .help("the file seems to be cut off: export or download it again")
    } else if error.to_string().starts_with("recursion limit exceeded") {
        let message = format!("objects and lists nest deeper than {NESTING_MAX} levels, at {place}");
        Problem::error("too-deep", "", message)
    } else {
        let full = error.to_string();
        // serde_json puts the position into its message; it is stated once, as in the other findings.
        let what = full.split(" at line ").next().unwrap_or_default();
        Problem::error("not-json", "", format!("the document is not JSON: {what}, at {place}"))
    };
    let line: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let mut start = (line + error.column().saturating_sub(1)).min(text.len());
    // The parser counts bytes, so its position may lie within a character.
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let end = start + text[start..].chars().next().map_or(0, char::len_utf8);
    Problem { span: Some(start..end), ..problem }
}
