//! Output of the program: data on standard output, messages for people on standard error.
//!
//! No other module writes to a terminal, and nothing that is written here can control one: control characters are
//! removed from the text of documents, models and tools. Data that does not go to a terminal is left unchanged.

mod live;

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::os::fd::AsFd as _;

use crate::failure::Outcome;

pub(crate) use live::{LiveLine, LiveLines};

/// Size of the output buffer, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output: data only.
pub(crate) struct Data {
    writer: BufWriter<Stdout>,
    terminal: bool,
    at_line_start: bool,
}

impl Data {
    /// Returns the standard output of the process.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { writer: BufWriter::with_capacity(BUFFER_BYTES, stdout), terminal, at_line_start: true }
    }

    /// Returns whether it is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a text and flushes it.
    ///
    /// # Errors
    /// When the pipe is closed, or the device is full.
    pub(crate) fn text(&mut self, text: &str) -> Outcome<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.at_line_start = text.ends_with('\n');
        if self.terminal {
            self.writer.write_all(harmless(text).as_bytes())?;
        } else {
            self.writer.write_all(text.as_bytes())?;
        }
        Ok(self.writer.flush()?)
    }

    /// Writes a line, which is flushed with the next [`Data::flush`] at the latest.
    ///
    /// # Errors
    /// As [`Data::text`].
    pub(crate) fn line(&mut self, line: &str) -> Outcome<()> {
        self.at_line_start = true;
        if self.terminal {
            self.writer.write_all(harmless(line).as_bytes())?;
        } else {
            self.writer.write_all(line.as_bytes())?;
        }
        Ok(self.writer.write_all(b"\n")?)
    }

    /// Ends an unfinished line.
    ///
    /// # Errors
    /// As [`Data::text`].
    pub(crate) fn end_line(&mut self) -> Outcome<()> {
        if self.at_line_start { Ok(()) } else { self.text("\n") }
    }

    /// Flushes all output.
    ///
    /// # Errors
    /// As [`Data::text`].
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        Ok(self.writer.flush()?)
    }
}

/// Returns standard input and output unchanged, for a program at the other end.
///
/// # Errors
/// When one of them is closed.
pub(crate) fn pipes() -> Outcome<(tokio::fs::File, tokio::fs::File)> {
    // Duplicates: closing these files leaves those of the process open.
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    Ok((tokio::fs::File::from_std(input.into()), tokio::fs::File::from_std(output.into())))
}

/// Standard error. A failure to write to it never stops a command.
pub(crate) struct Notes;

impl Notes {
    /// Writes a line for people.
    pub(crate) fn line(text: impl Display) {
        let text = text.to_string();
        drop(writeln!(io::stderr().lock(), "{}", harmless(&text)));
    }

    /// Writes text for people, which may be several lines or a part of one.
    pub(crate) fn text(text: &str) {
        drop(io::stderr().lock().write_all(harmless(text).as_bytes()));
    }

    /// The same for coloured text of this program: colours are kept, all other control sequences are removed.
    pub(crate) fn coloured(text: &str) {
        drop(io::stderr().lock().write_all(harmless_coloured(text).as_bytes()));
    }

    /// Returns whether it is a terminal.
    pub(crate) fn is_terminal() -> bool {
        io::stderr().is_terminal()
    }
}

/// Log lines on standard error, which may be coloured. Each write is a whole event and becomes a single line.
#[derive(Clone, Copy)]
pub(crate) struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Notes::coloured(&one_line(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns an event with the line breaks within it escaped, since a value with some could forge further events.
fn one_line(event: &str) -> String {
    match event.strip_suffix('\n') {
        Some(line) => format!("{}\n", line.replace('\n', "\\n")),
        None => event.replace('\n', "\\n"),
    }
}

/// Returns whether a character could control a terminal, or change the order in which a line is displayed.
pub(crate) fn steers(c: char) -> bool {
    // Bidirectional controls (<https://www.unicode.org/reports/tr9/>), and separators that some terminals obey.
    let orders =
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    orders || c.is_control() && !matches!(c, '\n' | '\t')
}

/// Returns the text without characters that could control a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !steers(*c)).collect()
}

/// The same, but keeps sequences for colours and weights: ESC, `[`, numbers, `m`.
fn harmless_coloured(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let mut shown = pieces.next().map(harmless).unwrap_or_default();
    for piece in pieces {
        let numbers = piece.strip_prefix('[').unwrap_or_default();
        let colour = numbers.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m');
        if colour {
            shown.push('\u{1b}');
        }
        shown.push_str(&harmless(piece));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\nc\td\u{9b}31m"), "a[2Jb\nc\td31m");
        assert_eq!(harmless("rm \u{202e}txt.\u{2066}x\u{2069}\u{2028}y\u{200f}"), "rm txt.xy");
        assert_eq!(harmless("שלום, 你好, e\u{301}"), "שלום, 你好, e\u{301}");
    }

    #[test]
    fn a_logged_event_is_a_single_line() {
        let forged = "INFO weft: a mcp_id=evil\n2026-01-01T00:00:00Z  INFO fake::line\n";
        assert_eq!(one_line(forged), "INFO weft: a mcp_id=evil\\n2026-01-01T00:00:00Z  INFO fake::line\n");
        assert_eq!(harmless_coloured(&one_line("a\r\nb\u{2028}c\n")), "a\\nbc\n");
        assert_eq!(one_line("a\n\nb"), "a\\n\\nb");
    }

    #[test]
    fn of_escape_sequences_only_colours_are_kept() {
        let check = |text: &str, expected: &str| assert_eq!(harmless_coloured(text), expected, "{text:?}");
        check("a \u{1b}[1;31mred\u{1b}[0m b", "a \u{1b}[1;31mred\u{1b}[0m b");
        check("\u{1b}]52;c;aGk=\u{7}x", "]52;c;aGk=x");
        check("\u{1b}[2J\u{1b}[31mx\u{1b}", "[2J\u{1b}[31mx");
        check("\u{1b}[31", "[31");
        check("\u{1b}\u{1b}[m\u{9b}2J", "\u{1b}[m2J");
    }
}
