//! Recognizes code in Markdown text.

/// The position relative to code, updated character by character.
#[derive(Debug)]
pub(super) struct Code {
    mode: MarkdownMode,
    /// The number of consecutive equal fence characters before this position.
    run: usize,
    run_of: char,
    /// Whether that run started its line.
    run_first: bool,
    /// Whether the line contains only whitespace so far.
    line_blank: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkdownMode {
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
        Self { mode: MarkdownMode::Prose, run: 0, run_of: '`', run_first: false, line_blank: true }
    }
}

impl Code {
    /// Whether the next character, unless it is a fence character, is outside of code.
    pub(super) fn is_prose(&self) -> bool {
        let mode = if self.run > 0 { self.after_run() } else { self.mode };
        mode == MarkdownMode::Prose
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
                if let MarkdownMode::Closing(of, length) = self.mode {
                    self.mode = MarkdownMode::Fenced(of, length);
                }
                self.line_blank = false;
            }
            '\n' => {
                self.mode = match self.mode {
                    MarkdownMode::Info(of, length) | MarkdownMode::Fenced(of, length) => {
                        MarkdownMode::Fenced(of, length)
                    }
                    MarkdownMode::Prose | MarkdownMode::Closing(..) => MarkdownMode::Prose,
                    // End of a paragraph: the first backtick had no partner.
                    MarkdownMode::Inline(_) if self.line_blank => MarkdownMode::Prose,
                    MarkdownMode::Inline(length) => MarkdownMode::Inline(length),
                };
                self.line_blank = true;
            }
            _ if c.is_whitespace() => {}
            _ => {
                if let MarkdownMode::Closing(of, length) = self.mode {
                    self.mode = MarkdownMode::Fenced(of, length);
                }
                self.line_blank = false;
            }
        }
    }

    /// The mode after the current run of fence characters.
    fn after_run(&self) -> MarkdownMode {
        let (of, length) = (self.run_of, self.run);
        match self.mode {
            MarkdownMode::Prose if self.run_first && length >= 3 => MarkdownMode::Info(of, length),
            MarkdownMode::Prose if of == '`' => MarkdownMode::Inline(length),
            MarkdownMode::Inline(opened) if of == '`' && length == opened => MarkdownMode::Prose,
            // A fence has no backticks in its first line: it was inline code.
            MarkdownMode::Info('`', opened) if of == '`' && length == opened => MarkdownMode::Prose,
            MarkdownMode::Info('`', opened) if of == '`' => MarkdownMode::Inline(opened),
            MarkdownMode::Fenced(fence, opened) if self.run_first && of == fence && length >= opened => {
                MarkdownMode::Closing(fence, opened)
            }
            mode => mode,
        }
    }
}
