//! Problems of a canvas, rendered like those of a compiler, and as JSON.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents,
    SourceCode, SourceSpan, SpanContents,
};
use serde_json::json;
use weft_core::Json;
use weft_dsl::{Problem, Severity};

use crate::document::Document;
use crate::screen::{Notes, steers};
use crate::settings::Environment;

/// Number of bytes shown before and after the underlined ones on a line that is too long.
const AROUND_BYTES: usize = 60;
/// Maximum length of a displayed line, in bytes.
const LINE_BYTES_MAX: usize = 240;
/// Maximum width of a report.
const WIDTH: usize = 110;

/// Whether reports are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// On a terminal.
    On,
    /// For files, pipes and users who set `NO_COLOR`.
    Off,
}

impl Colour {
    /// Decides by whether standard error is a terminal, and by <https://no-color.org>.
    pub(crate) fn for_people(environment: &Environment) -> Self {
        match environment.text("NO_COLOR") {
            None if Notes::is_terminal() => Self::On,
            None | Some(_) => Self::Off,
        }
    }
}

/// Code of the problem that a canvas contains a secret.
const SECRET: &str = "secret-in-clear";

/// A document and its problems.
pub(crate) struct Report<'a> {
    document: &'a Document,
    lines: SourceLines<'a>,
}

impl<'a> Report<'a> {
    /// Creates a report for this document.
    pub(crate) fn new(document: &'a Document) -> Self {
        Self { document, lines: SourceLines::new(document) }
    }

    /// Hides the secrets that were found in it: the line of one problem may contain the secret of another.
    #[must_use]
    pub(crate) fn hiding(mut self, problems: &[Problem]) -> Self {
        for problem in problems.iter().filter(|problem| problem.code == SECRET) {
            self.lines.hide(problem.span.clone().unwrap_or_default());
        }
        self
    }

    /// Renders a problem like a compiler.
    pub(crate) fn render(&self, problem: &Problem, colour: Colour) -> String {
        let theme = match colour {
            Colour::On => GraphicalTheme::unicode(),
            Colour::Off => GraphicalTheme::unicode_nocolor(),
        };
        let mut text = String::new();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(WIDTH).with_urls(false);
        let shown = handler.render_report(&mut text, &Shown { problem, lines: &self.lines });
        match shown {
            Ok(()) => text,
            Err(fmt::Error) => format!("{problem}\n"),
        }
    }

    /// Returns problems for programs: the output of `weft check --json` for one file.
    pub(crate) fn json(&self, problems: &[Problem]) -> Json {
        let ok = !problems.iter().any(Problem::is_error);
        let problems: Vec<Json> = problems.iter().map(|problem| self.problem(problem)).collect();
        json!({"file": self.document.path.to_string_lossy(), "ok": ok, "problems": problems})
    }

    /// The same for a file that could not be read.
    pub(crate) fn unread(file: &Path, message: &str, help: Option<&str>) -> Json {
        let mut problem = Problem::error("cannot-read", "", message);
        problem.help = help.map(str::to_owned);
        json!({"file": file.to_string_lossy(), "ok": false, "problems": [problem]})
    }

    fn problem(&self, problem: &Problem) -> Json {
        let mut json = json!(problem);
        if let (Some(span), Json::Object(map)) = (&problem.span, &mut json) {
            let (line, column) = self.lines.place(span.start);
            map.insert("line".to_owned(), json!(line + 1));
            map.insert("column".to_owned(), json!(column + 1));
        }
        json
    }
}

/// Replaces every character that could control a terminal by a mark of the same length: a report is coloured, so they
/// have to be removed before, and positions in the text must not change.
fn plain(text: &str) -> Cow<'_, str> {
    let ends_line = |at: usize| text[at..].starts_with("\r\n");
    if !text.char_indices().any(|(at, c)| steers(c) && !ends_line(at)) {
        return Cow::Borrowed(text);
    }
    let shown = text.char_indices().map(|(at, c)| match c {
        c if !steers(c) || ends_line(at) => c,
        c if c.is_ascii() => '?',
        _ => '¿',
    });
    Cow::Owned(shown.collect())
}

/// A problem in miette's format.
#[derive(Debug)]
struct Shown<'a> {
    problem: &'a Problem,
    lines: &'a SourceLines<'a>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.problem.message))?;
        match (&self.problem.name, &self.problem.component) {
            (Some(name), Some(id)) if **name != *id.as_str() => {
                write!(f, ", in “{}” (`{}`)", plain(name), plain(id.as_str()))
            }
            (_, Some(id)) => write!(f, ", in `{}`", plain(id.as_str())),
            (_, None) => Ok(()),
        }?;
        match self.problem.pointer.as_str() {
            "" => Ok(()),
            pointer => write!(f, ", at {}", plain(pointer)),
        }
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn code<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        Some(Box::new(self.problem.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.problem.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        self.problem.help.as_ref().map(|help| Box::new(plain(help).into_owned()) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self.lines)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.lines.first_line_of(self.problem.span.as_ref()?)?;
        let label = LabeledSpan::new_primary_with_span(None, (span.start, span.len()));
        Some(Box::new(std::iter::once(label)))
    }
}

/// A source text with an index of its lines, which only shows a part of a long one: many canvases are a single line
/// of megabytes.
#[derive(Debug)]
struct SourceLines<'a> {
    name: String,
    text: Cow<'a, str>,
    starts: Vec<usize>,
}

impl<'a> SourceLines<'a> {
    fn new(document: &'a Document) -> Self {
        let text = match document.text() {
            Some(text) => text,
            // Text that is not UTF-8 is shown up to the first invalid byte.
            None => match std::str::from_utf8(&document.bytes) {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&document.bytes[..error.valid_up_to()]).unwrap_or_default(),
            },
        };
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(breaks).collect();
        let name = plain(&document.path.display().to_string()).into_owned();
        Self { name, text: plain(text), starts }
    }

    /// Masks a part of the text; all positions in it remain valid.
    fn hide(&mut self, span: std::ops::Range<usize>) {
        let Some(text) = self.text.get(span.clone()) else { return };
        // Quotes remain as the ends of a string, and line breaks so that positions stay in their lines.
        let cover =
            |c: char| if matches!(c, '"' | '\n' | '\r') { c.to_string() } else { "*".repeat(c.len_utf8()) };
        let covered: String = text.chars().map(cover).collect();
        self.text.to_mut().replace_range(span, &covered);
    }

    /// Returns line and column, both zero-based; the column counts characters.
    fn place(&self, at: usize) -> (usize, usize) {
        let at = self.boundary(at);
        let line = self.line_of(at);
        (line, self.text[self.starts[line]..at].chars().count())
    }

    fn line_of(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    fn line_end(&self, line: usize) -> usize {
        let end = self.starts.get(line + 1).map_or(self.text.len(), |next| next - 1);
        if self.text[..end].ends_with('\r') { end - 1 } else { end }
    }

    /// Returns the nearest character boundary at or before `at`.
    fn boundary(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// Returns the part of a span on its first line, which is what can be underlined, limited to a readable length.
    fn first_line_of(&self, span: &std::ops::Range<usize>) -> Option<std::ops::Range<usize>> {
        let start = self.boundary(span.start);
        let line_end = self.line_end(self.line_of(start)).max(start);
        let end = self.boundary(span.end.min(line_end).min(start + LINE_BYTES_MAX / 2)).max(start);
        (!self.text.is_empty()).then_some(start..end)
    }
}

impl SourceCode for SourceLines<'_> {
    fn read_span<'b>(
        &'b self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'b> + 'b>, MietteError> {
        let (from, to) = (self.boundary(span.offset()), self.boundary(span.offset() + span.len()));
        let (first, last) = (self.line_of(from), self.line_of(to));
        let mut top = first.saturating_sub(lines_before);
        let bottom = (last + lines_after).min(self.starts.len() - 1);
        let mut start = self.starts[top];
        // Without context, miette asks where the span itself begins.
        if lines_before == 0 || from - start > LINE_BYTES_MAX {
            start = if lines_before == 0 { from } else { self.boundary(from.saturating_sub(AROUND_BYTES)) };
            top = self.line_of(start);
        }
        let mut end = self.line_end(bottom).max(to);
        if end - to > LINE_BYTES_MAX {
            end = self.boundary(to + AROUND_BYTES);
        }
        let column = self.text[self.starts[top]..start].chars().count();
        let contents = MietteSpanContents::new_named(
            self.name.clone(),
            &self.text.as_bytes()[start..end],
            (start, end - start).into(),
            top,
            column,
            bottom - top + 1,
        );
        Ok(Box::new(contents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document { path: "c.json".into(), bytes: text.as_bytes().to_vec() }
    }

    #[test]
    fn a_secret_is_masked_wherever_its_line_is_shown() {
        let text = "{\"api_key\": \"sk-hüsh-1\", \"x\": 1}";
        let document = document(text);
        let at = text.find("\"sk").unwrap();
        let secret = Problem { code: super::SECRET, ..problem(at..at + 12) };
        let other = problem(text.find("\"x").unwrap()..text.len() - 1);
        let problems = [secret, other];
        let report = Report::new(&document).hiding(&problems);
        for problem in &problems {
            let shown = report.render(problem, Colour::Off);
            assert!(shown.contains("api_key") && !shown.contains("sk-"), "{shown}");
        }
    }

    fn problem(span: std::ops::Range<usize>) -> Problem {
        Problem { span: Some(span), ..Problem::error("bad", "/a", "this is wrong").help("mend it") }
    }

    #[test]
    fn a_diagnostic_points_into_the_file() {
        let document = document("{\n  \"a\": \"x\",\n  \"b\": 1\n}\n");
        let shown = Report::new(&document).render(&problem(9..12), Colour::Off);
        for part in ["bad", "this is wrong", "c.json:2:8", "\"a\": \"x\"", "mend it"] {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
    }

    #[test]
    fn a_very_long_line_is_cut() {
        let long =
            format!("{{\"é\": \"{}\", \"b\": 7, \"c\": \"{}\"}}", "ü".repeat(1 << 20), "z".repeat(1 << 20));
        let at = long.find("\"b\"").unwrap();
        let document = document(&long);
        let report = Report::new(&document);
        let shown = report.render(&problem(at..at + 3), Colour::Off);
        assert!(shown.len() < 2_000 && shown.contains("\"b\": 7"), "{} bytes", shown.len());
        let whole = report.render(&problem(0..long.len()), Colour::Off);
        assert!(whole.len() < 4_000, "{} bytes", whole.len());
    }

    #[test]
    fn every_span_of_every_text_can_be_shown() {
        for text in ["", "x", "\n", "é\r\n\r\nü", "{\n\n\"a\"}"] {
            let document = document(text);
            let report = Report::new(&document);
            for start in 0..=text.len() + 1 {
                for end in start..=text.len() + 2 {
                    let shown = report.render(&problem(start..end), Colour::Off);
                    assert!(shown.contains("this is wrong"), "{text:?} {start}..{end}");
                }
            }
        }
    }

    #[test]
    fn a_report_contains_no_control_characters_of_a_canvas() {
        let document = document("{\"a\u{1b}]52;c;aGk=\u{7}\u{9b}2J\": 1,\r\n\"b\": \u{1b}[2J}\n");
        let steering = Problem { message: "no \u{1b}[2J".to_owned(), ..problem(2..20) };
        let shown = Report::new(&document).render(&steering, Colour::Off);
        assert!(!shown.chars().any(steers), "{shown:?}");
        assert!(shown.contains("a?]52;c;aGk=?¿2J"), "{shown}");
    }
}
