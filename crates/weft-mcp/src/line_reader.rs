//! A reader of lines that never buffers more than a limit.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Reads lines. Used on both sides of a pair of streams.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    source: BufReader<R>,
    /// The part of the next line that was read, which makes reading cancel-safe.
    line: Vec<u8>,
    bytes_max: usize,
}

/// Why there is no further line.
#[derive(Debug)]
pub(crate) enum LineFault {
    /// It exceeds the limit.
    TooLong,
    /// The stream cannot be read.
    Unreadable(io::Error),
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader of lines with up to `bytes_max` bytes, which are returned without their ends.
    pub(crate) fn new(source: R, bytes_max: usize) -> Self {
        Self { source: BufReader::new(source), line: Vec::new(), bytes_max }
    }

    /// Returns the next line; `None` after the last one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, LineFault> {
        loop {
            let read = self.source.fill_buf().await.map_err(LineFault::Unreadable)?;
            if read.is_empty() {
                let rest = std::mem::take(&mut self.line);
                // The last line need not end with a line break.
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(read.len());
            // Checked before buffering: output without a line break would exhaust memory.
            if taken > self.bytes_max.saturating_sub(self.line.len()) {
                return Err(LineFault::TooLong);
            }
            self.line.extend_from_slice(read.get(..taken).unwrap_or_default());
            self.source.consume(end.map_or(taken, |end| end + 1));
            if end.is_some() {
                // Taken only when the line is complete, so that cancellation before loses nothing.
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }

    /// Waits until the other side has closed, and discards its output.
    pub(crate) async fn drain(&mut self) {
        while let Ok(read) = self.source.fill_buf().await {
            match read.len() {
                0 => return,
                length => self.source.consume(length),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_end_at_line_breaks_or_at_the_end_of_input() {
        let mut lines = LineReader::new(&b"a\n\nb\r\nc"[..], 10);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        assert_eq!(all, [b"a".to_vec(), Vec::new(), b"b\r".to_vec(), b"c".to_vec()]);
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_not_buffered() {
        let mut lines = LineReader::new(tokio::io::repeat(b'x'), 100_000);
        assert!(matches!(lines.next().await, Err(LineFault::TooLong)));
        assert!(lines.line.capacity() < 300_000, "{}", lines.line.capacity());
    }
}
