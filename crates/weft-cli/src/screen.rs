//! What the program writes: data on standard output, words for people on standard error.
//!
//! Nothing else in the program writes to a terminal, and nothing reaches one from here that could steer it: what
//! documents, models and tools say goes without control characters, whoever shows it. Data that goes elsewhere
//! is left as it is.

mod live;

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::os::fd::AsFd as _;

use crate::failure::Outcome;

pub(crate) use live::{LiveLine, LiveLines};

/// Bytes gathered before they are written without being asked to.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output: data only.
pub(crate) struct Data {
    writer: BufWriter<Stdout>,
    terminal: bool,
    at_line_start: bool,
}

impl Data {
    /// The process's own.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { writer: BufWriter::with_capacity(BUFFER_BYTES, stdout), terminal, at_line_start: true }
    }

    /// Whether a person sees it at once.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a text and lets the reader have it.
    ///
    /// # Errors
    /// When nobody reads any more, or the device is full.
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

    /// Writes a line; the reader gets it with the next [`Data::flush`] at the latest.
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

    /// Ends a line that is open.
    ///
    /// # Errors
    /// As [`Data::text`].
    pub(crate) fn end_line(&mut self) -> Outcome<()> {
        if self.at_line_start { Ok(()) } else { self.text("\n") }
    }

    /// Lets the reader have everything.
    ///
    /// # Errors
    /// As [`Data::text`].
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        Ok(self.writer.flush()?)
    }
}

/// Standard input and output as they are, for a program at the other end.
///
/// # Errors
/// When one of them is closed.
pub(crate) fn pipes() -> Outcome<(tokio::fs::File, tokio::fs::File)> {
    // Copies: what closes these files leaves those of the process open.
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    Ok((tokio::fs::File::from_std(input.into()), tokio::fs::File::from_std(output.into())))
}

/// Standard error. Nothing that happens to it stops a command.
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

    /// The same for text of ours that is coloured: colours stay, and nothing else of what steers a terminal.
    pub(crate) fn coloured(text: &str) {
        drop(io::stderr().lock().write_all(harmless_coloured(text).as_bytes()));
    }

    /// Whether a person sees it at once.
    pub(crate) fn is_terminal() -> bool {
        io::stderr().is_terminal()
    }
}

/// Log lines, on standard error. They may be coloured.
#[derive(Clone, Copy)]
pub(crate) struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Notes::coloured(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a character could steer a terminal, or make it show a line in another order than it has.
pub(crate) fn steers(c: char) -> bool {
    // Marks of direction (<https://www.unicode.org/reports/tr9/>), and separators that some terminals obey.
    let orders =
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    orders || c.is_control() && !matches!(c, '\n' | '\t')
}

/// The text without what could steer a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !steers(*c)).collect()
}

/// The same, but for what sets colours and weights: ESC, `[`, numbers, `m`.
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
    fn terminals_are_not_steered_by_what_is_shown() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\nc\td\u{9b}31m"), "a[2Jb\nc\td31m");
        assert_eq!(harmless("rm \u{202e}txt.\u{2066}x\u{2069}\u{2028}y\u{200f}"), "rm txt.xy");
        assert_eq!(harmless("שלום, 你好, e\u{301}"), "שלום, 你好, e\u{301}");
    }

    #[test]
    fn of_colours_nothing_but_colours_is_left() {
        let check = |text: &str, expected: &str| assert_eq!(harmless_coloured(text), expected, "{text:?}");
        check("a \u{1b}[1;31mred\u{1b}[0m b", "a \u{1b}[1;31mred\u{1b}[0m b");
        check("\u{1b}]52;c;aGk=\u{7}x", "]52;c;aGk=x");
        check("\u{1b}[2J\u{1b}[31mx\u{1b}", "[2J\u{1b}[31mx");
        check("\u{1b}[31", "[31");
        check("\u{1b}\u{1b}[m\u{9b}2J", "\u{1b}[m2J");
    }
}
