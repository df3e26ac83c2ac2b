//! Recognizes code in Markdown text.

/// The position relative to code, updated character by character.
#[derive(Debug)]
pub(super) struct Code {
    mode: Mode,
    /// The number of consecutive equal fence characters before this position.
    run: usize,
    run_of: char,
    /// Whether that run started its line.
    run_first: bool,
    /// Whether the line contains only whitespace so far.
    line_blank: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Prose,
    /// Between runs of this many backticks.
    Inline(usize),
    /// In the first line of a fence.
    Info(char, usize),
    Fenced(char, usize),
    /// After the end of a fence, if nothing else follows on that line.
    Closing(char, usize),
}

impl Default for Code {
    fn default() -> Self {
        Self { mode: Mode::Prose, run: 0, run_of: '`', run_first: false, line_blank: true }
    }
}

impl Code {
    /// Whether the next character, unless it is a fence character, is outside of code.
    pub(super) fn is_prose(&self) -> bool {
        let mode = if self.run > 0 { self.after_run() } else { self.mode };
        mode == Mode::Prose
    }

    /// Takes the next character.
    pub(super) fn step(&mut self, c: char) {
        if self.run > 0 && c == self.run_of {
            self.run += 1;
            return;
        }
        if self.run > 0 {
            self.mode = self.after_run();
            self.run = 0;
        }
        match c {
            '`' | '~' => {
                (self.run, self.run_of, self.run_first) = (1, c, self.line_blank);
                // Something else follows the fence on its line, so it was not its end.
                if let Mode::Closing(of, length) = self.mode {
                    self.mode = Mode::Fenced(of, length);
                }
                self.line_blank = false;
            }
            '\n' => {
                self.mode = match self.mode {
                    Mode::Info(of, length) | Mode::Fenced(of, length) => Mode::Fenced(of, length),
                    Mode::Prose | Mode::Closing(..) => Mode::Prose,
                    // End of a paragraph: the first backtick had no partner.
                    Mode::Inline(_) if self.line_blank => Mode::Prose,
                    Mode::Inline(length) => Mode::Inline(length),
                };
                self.line_blank = true;
            }
            _ if c.is_whitespace() => {}
            _ => {
                if let Mode::Closing(of, length) = self.mode {
                    self.mode = Mode::Fenced(of, length);
                }
                self.line_blank = false;
            }
        }
    }

    /// The mode after the current run of fence characters.
    fn after_run(&self) -> Mode {
        let (of, length) = (self.run_of, self.run);
        match self.mode {
            Mode::Prose if self.run_first && length >= 3 => Mode::Info(of, length),
            Mode::Prose if of == '`' => Mode::Inline(length),
            Mode::Inline(opened) if of == '`' && length == opened => Mode::Prose,
            // A fence has no backticks in its first line: it was inline code.
            Mode::Info('`', opened) if of == '`' && length == opened => Mode::Prose,
            Mode::Info('`', opened) if of == '`' => Mode::Inline(opened),
            Mode::Fenced(fence, opened) if self.run_first && of == fence && length >= opened => {
                Mode::Closing(fence, opened)
            }
            mode => mode,
        }
    }
}
