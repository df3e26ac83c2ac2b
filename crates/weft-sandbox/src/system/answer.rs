//! Reads the output of a program's process, and its guard's report of how it ended.

use serde::Deserialize;
use serde::de::IgnoredAny;
use weft_core::Json;
use weft_core::seam::sandbox::{FILES_BYTES_MAX, FILES_MAX, Failure, Limits, Ran, WrittenFile};

use crate::printed::{Printed, Stream};
use crate::result;

/// A line from the process of a program, which is not trusted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProcessLine {
    Out(String),
    Error(String),
    Cut(bool),
    Result(String),
    Memory(IgnoredAny),
    Output(IgnoredAny),
    #[serde(untagged)]
    Failed {
        failed: String,
        line: Option<u32>,
    },
    #[serde(untagged)]
    File {
        file: String,
        base64: String,
    },
}

/// The last line, which the guard writes.
#[derive(Debug, Deserialize)]
struct GuardLine {
    ended: ProgramEnd,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProgramEnd {
    Exit,
    Signal,
    Late,
}

/// Returns the outcome of a program.
pub(super) fn read(said: &[u8], limits: Limits) -> Ran {
    let (before, last) = last_line(said);
    let Ok(GuardLine { ended }) = serde_json::from_slice::<GuardLine>(last) else {
        // It has written more than is read, or its guard is gone.
        let more = said.len() > limits.output_bytes;
        return Ran::silent(Err(if more { Failure::Output } else { Failure::Broken }));
    };
    let mut printed = Printed::new(limits.printed_bytes);
    let mut cut = false;
    let mut files = Vec::new();
    let mut file_bytes = 0;
    let mut outcome: Option<Result<Json, Failure>> = None;
    // One by one: in a list of all lines, each would take eight times the size of the shortest line.
    let lines = before.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    // The process is not trusted: lines of any other form are ignored.
    for line in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
        match line {
            ProcessLine::Out(text) => printed.piece(Stream::Out, &text),
            ProcessLine::Error(text) => printed.piece(Stream::Error, &text),
            ProcessLine::Cut(is) => cut |= is,
            ProcessLine::Result(json) if json.len() > limits.output_bytes => {
                outcome = Some(Err(Failure::Output));
            }
            ProcessLine::Result(json) => outcome = Some(result::read_with_large_numbers(&json)),
            ProcessLine::Memory(_) => outcome = Some(Err(Failure::Memory)),
            ProcessLine::Output(_) => outcome = Some(Err(Failure::Output)),
            ProcessLine::Failed { failed, line } => {
                outcome = Some(Err(Failure::Program { message: result::shortened(failed), line }));
            }
            ProcessLine::File { file, base64 } => {
                // Without decoding: padding makes this up to two bytes too large.
                let together = file_bytes + base64.len() / 4 * 3;
                if is_plain(&file) && files.len() < FILES_MAX && together <= FILES_BYTES_MAX + 2 {
                    file_bytes = together;
                    files.push(WrittenFile { name: file, base64 });
                }
            }
        }
    }
    let result = match (ended, outcome) {
        (ProgramEnd::Late, _) => Err(Failure::Time),
        (ProgramEnd::Signal, _) | (_, None) => Err(Failure::Broken),
        (ProgramEnd::Exit, Some(outcome)) => outcome,
    };
    if result.is_err() {
        files.clear();
    }
    let Printed { stdout, stderr, truncated, .. } = printed;
    Ran { result, stdout, stderr, truncated: truncated || cut, files }
}

/// Splits off the last line that is not empty; returns everything before it, and the line.
fn last_line(said: &[u8]) -> (&[u8], &[u8]) {
    let end = said.iter().rposition(|byte| *byte != b'\n').map_or(0, |at| at + 1);
    let whole = said.get(..end).unwrap_or_default();
    let start = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    whole.split_at(start)
}

/// Whether it is a name without folders.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_guard_overrides_whatever_a_program_reports() {
        let limits = crate::LIMITS;
        let check = |said: &str, expected: Result<Json, Failure>| {
            assert_eq!(read(said.as_bytes(), limits).result, expected, "{said}");
        };
        check("{\"result\": \"[1]\"}\n{\"ended\": \"exit\"}", Ok(json!([1])));
        check("{\"result\": \"1\"}\n\n{\"ended\": \"late\"}\n", Err(Failure::Time));
        check("{\"ended\": \"exit\"}\n{\"ended\": \"signal\"}\n", Err(Failure::Broken));
        check("nonsense\n{\"out\": 5}\n[[[\n{\"ended\": \"exit\"}\n", Err(Failure::Broken));
        check("{\"memory\": true}\n{\"ended\": \"exit\"}\n", Err(Failure::Memory));
        check("", Err(Failure::Broken));
        check("\n\n", Err(Failure::Broken));
        check(
            &format!("{{\"result\": \"1\"}}\n{}\n{{\"ended\": \"exit\"}}\n\n", "x\n".repeat(100_000)),
            Ok(json!(1)),
        );
        let files = "{\"file\": \"../a\", \"base64\": \"eA==\"}\n{\"file\": \"b\", \"base64\": \"eA==\"}\n";
        let ran = read(format!("{files}{{\"result\": \"1\"}}\n{{\"ended\": \"exit\"}}").as_bytes(), limits);
        assert_eq!(ran.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["b"]);
    }
}
