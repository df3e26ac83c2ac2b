//! Lines from a terminal or a pipe.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use tokio::sync::mpsc;

use crate::screen::Notes;

/// Maximum length of a line, in bytes; a longer one is refused.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Number of lines that are read ahead.
const AHEAD_MAX: usize = 1;

/// Input from standard input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    /// A line, without its end.
    Text(String),
    /// An unusable line, and why.
    Unusable(String),
}

/// Standard input, line by line.
pub(crate) struct InputLines {
    incoming: mpsc::Receiver<InputLine>,
    /// Whether it is a terminal.
    pub interactive: bool,
}

impl InputLines {
    /// Starts reading. The thread only ends with the program: reading from a terminal cannot be interrupted.
    pub(crate) fn stdin() -> Self {
        let (lines, incoming) = mpsc::channel(AHEAD_MAX);
        let interactive = io::stdin().is_terminal();
        // A separate thread, because a read from a terminal blocks and cannot be interrupted.
        std::thread::spawn(move || {
            let mut input = io::stdin().lock();
            while let Some(line) = read(&mut input) {
                if lines.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        Self { incoming, interactive }
    }

    /// Returns the next line, after showing `prompt` on a terminal; `None` at the end.
    pub(crate) async fn next(&mut self, prompt: &str) -> Option<String> {
        loop {
            if self.interactive {
                Notes::text(prompt);
            }
            match self.incoming.recv().await? {
                InputLine::Text(text) => return Some(text),
                InputLine::Unusable(why) => Notes::line(format!("note: a line was skipped: {why}")),
            }
        }
    }
}

fn read(input: &mut impl io::BufRead) -> Option<InputLine> {
    let mut bytes = Vec::new();
    // Limited, because a pipe without line ends would otherwise fill the memory.
    let read = input.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).ok()?;
    if read == 0 {
        return None;
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        bytes.pop_if(|byte| *byte == b'\r');
    } else if bytes.len() as u64 >= LINE_BYTES_MAX {
        // Skipped to its end, so that its rest is not taken for the next line.
        skip_line(input)?;
        return Some(InputLine::Unusable(format!("it has more than {LINE_BYTES_MAX} bytes")));
    }
    Some(match String::from_utf8(bytes) {
        Ok(text) => InputLine::Text(text),
        Err(_) => InputLine::Unusable("it is not UTF-8".to_owned()),
    })
}

fn skip_line(input: &mut impl io::BufRead) -> Option<()> {
    loop {
        let there = input.fill_buf().ok()?;
        if there.is_empty() {
            return Some(());
        }
        let (count, ended) = match there.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (there.len(), false),
        };
        input.consume(count);
        if ended {
            return Some(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_line_ending_is_accepted_and_invalid_lines_are_skipped() {
        let mut bytes = b"a\r\n\n\xff\n".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 3 << 20));
        bytes.extend(b"\nlast");
        let mut input = io::Cursor::new(bytes);
        let text = |text: &str| Some(InputLine::Text(text.to_owned()));
        assert_eq!(read(&mut input), text("a"));
        assert_eq!(read(&mut input), text(""));
        assert!(matches!(read(&mut input), Some(InputLine::Unusable(_))));
        assert!(matches!(read(&mut input), Some(InputLine::Unusable(_))));
        assert_eq!(read(&mut input), text("last"));
        assert_eq!(read(&mut input), None);
    }
}
