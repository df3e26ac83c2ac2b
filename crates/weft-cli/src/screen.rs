//! What the program writes: data on standard output, words for people on standard error.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};

use crate::failure::Outcome;

/// Bytes gathered before they are written without being asked to.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output: data only.
pub struct Data {
    writer: BufWriter<Stdout>,
    terminal: bool,
    at_line_start: bool,
}

impl Data {
    /// The process's own.
    pub fn stdout() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { writer: BufWriter::with_capacity(BUFFER_BYTES, stdout), terminal, at_line_start: true }
    }

    /// Whether a person sees it at once.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a text and lets the reader have it.
    ///
    /// # Errors
    /// When nobody reads any more, or the device is full.
    pub fn text(&mut self, text: &str) -> Outcome<()> {
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
    pub fn line(&mut self, line: &str) -> Outcome<()> {
        self.at_line_start = true;
        self.writer.write_all(line.as_bytes())?;
        Ok(self.writer.write_all(b"\n")?)
    }

    /// Ends a line that is open.
    ///
    /// # Errors
    /// As [`Data::text`].
    pub fn end_line(&mut self) -> Outcome<()> {
        if self.at_line_start { Ok(()) } else { self.text("\n") }
    }

    /// Lets the reader have everything.
    ///
    /// # Errors
    /// As [`Data::text`].
    pub fn flush(&mut self) -> Outcome<()> {
        Ok(self.writer.flush()?)
    }
}

/// Standard error. Nothing that happens to it stops a command.
pub struct Notes;

impl Notes {
    /// Writes a line for people.
    pub fn line(text: impl Display) {
        let text = text.to_string();
        drop(writeln!(io::stderr().lock(), "{}", harmless(&text)));
    }

    /// Writes text that may hold colours of ours.
    pub fn raw(text: &str) {
        drop(io::stderr().lock().write_all(text.as_bytes()));
    }

    /// Whether a person sees it at once.
    pub fn is_terminal() -> bool {
        io::stderr().is_terminal()
    }
}

/// The text without what could steer a terminal.
pub fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_steered_by_what_is_shown() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\nc\td\u{9b}31m"), "a[2Jb\nc\td31m");
    }
}
