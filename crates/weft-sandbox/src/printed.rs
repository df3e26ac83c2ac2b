//! Keeps what a program prints, up to a limit.

/// What has been printed so far.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub stdout: String,
    pub stderr: String,
    pub truncated: bool,
    left: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Out,
    Error,
}

impl Printed {
    /// Keeps at most `bytes_max` bytes of both streams together.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { left: bytes_max, ..Self::default() }
    }

    /// Whether nothing has been printed.
    pub(crate) fn is_empty(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty() && !self.truncated
    }

    /// Keeps a line and its line end.
    pub(crate) fn line(&mut self, stream: Stream, line: &str) {
        self.piece(stream, line);
        self.piece(stream, "\n");
    }

    /// Keeps as much of a text as fits. After the first text that was cut off, nothing more is kept.
    pub(crate) fn piece(&mut self, stream: Stream, text: &str) {
        let kept = &text[..text.floor_char_boundary(self.left)];
        match stream {
            Stream::Out => &mut self.stdout,
            Stream::Error => &mut self.stderr,
        }
        .push_str(kept);
        self.left -= kept.len();
        if kept.len() < text.len() {
            // Otherwise a later and shorter text would be kept after the gap.
            (self.truncated, self.left) = (true, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_output_is_limited_and_ends_with_a_whole_character() {
        let mut printed = Printed::new(6);
        printed.line(Stream::Out, "汉");
        printed.piece(Stream::Error, "é");
        assert!(!printed.truncated);
        for more in ["x", ""] {
            printed.piece(Stream::Out, more);
            assert_eq!((printed.stdout.as_str(), printed.stderr.as_str()), ("汉\n", "é"));
        }
        assert!(printed.truncated);
        let mut printed = Printed::new(2);
        printed.piece(Stream::Out, "汉");
        printed.piece(Stream::Out, "x");
        assert!(printed.stdout.is_empty() && printed.truncated, "nothing follows the truncated part");
    }
}
