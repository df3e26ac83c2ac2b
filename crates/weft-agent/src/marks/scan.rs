//! Recognizes citation marks.

use std::str::Chars;

/// Maximum length of a mark in characters; nothing longer is held back.
// This is the most that is held back from a stream while a reader waits.
const MARK_MAX: usize = 80;
/// Maximum number of sources in a range such as `[ID:1-3]`.
// Longer ranges are mostly page numbers or years.
const RANGE_MAX: u32 = 10;
/// Maximum number of digits in forms that also occur in prose, such as `(ID: 3)`.
// Four digits are mostly a year, and hardly any answer has a thousand sources.
const LOOSE_DIGITS_MAX: usize = 3;

/// What a text starts with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Mark(Mark),
    /// Depends on what comes next.
    Perhaps,
    Nothing,
}

/// A mark in any of its forms.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Its length in bytes.
    pub length: usize,
    /// The sources it refers to.
    pub numbers: Vec<u32>,
    /// Whether it includes a space before it.
    pub after_blank: bool,
}

/// Why a text is not a mark.
enum NoMark {
    No,
    /// The text ends too early to tell.
    More,
}

/// Whether more text may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    Unknown,
    Nothing,
}

/// Whether a text starts with a mark. `before` is the character before it.
pub(super) fn recognise(text: &str, before: Option<char>, ahead: Ahead) -> Seen {
    if !text.starts_with([' ', '[', '(', '【', '（', '［', '〔', '#', 'r', 'R']) {
        return Seen::Nothing;
    }
    let end = text.char_indices().nth(MARK_MAX).map(|(end, _)| end);
    let window = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    let mut scan = MarkScan { rest: window.chars(), ahead };
    let after_blank = scan.take(' ');
    let before = if after_blank { Some(' ') } else { before };
    match scan.mark(before) {
        Ok(numbers) => {
            Seen::Mark(Mark { length: window.len() - scan.rest.as_str().len(), numbers, after_blank })
        }
        Err(NoMark::More) if end.is_none() && ahead == Ahead::Unknown => Seen::Perhaps,
        Err(NoMark::More | NoMark::No) => Seen::Nothing,
    }
}

struct MarkScan<'a> {
    rest: Chars<'a>,
    ahead: Ahead,
}

impl MarkScan<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn need(&self) -> Result<char, NoMark> {
        self.peek().ok_or(NoMark::More)
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.rest.next();
        }
        found
    }

    fn expect(&mut self, c: char) -> Result<(), NoMark> {
        self.need()?;
        if self.take(c) { Ok(()) } else { Err(NoMark::No) }
    }

    fn blanks(&mut self) {
        // Some models write no-break spaces, and in Chinese and Japanese text wide ones.
        while self.take(' ') || self.take('\u{a0}') || self.take('\u{3000}') {}
    }

    fn mark(&mut self, before: Option<char>) -> Result<Vec<u32>, NoMark> {
        let first = self.need()?;
        let close = match first {
            '[' => ']',
            '(' => ')',
            '【' => '】',
            '（' => '）',
            '［' => '］',
            '〔' => '〕',
            '#' => return self.hashes(),
            'r' | 'R' => return self.bare(before),
            _ => return Err(NoMark::No),
        };
        self.rest.next();
        self.bracketed(first, close, before)
    }

    /// `[ID: 3]` in brackets of any kind, with one number or several.
    fn bracketed(&mut self, open: char, close: char, before: Option<char>) -> Result<Vec<u32>, NoMark> {
        self.blanks();
        let lower = self.need()?.is_lowercase();
        let label = self.label()?;
        // `find(id: 3)` is a call.
        if open == '(' && lower && before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(NoMark::No);
        }
        // Only these two do not occur around `ID` in ordinary text.
        let loose = label == MarkLabel::Ref || !matches!(open, '[' | '【');
        let digits_max = if loose { LOOSE_DIGITS_MAX } else { MARK_MAX };
        let mut numbers = Vec::new();
        loop {
            self.numbers(digits_max, &mut numbers)?;
            self.blanks();
            match self.need()? {
                c if c == close => break,
                ',' | ';' | '&' | '/' | '、' | '，' | '；' => self.rest.next(),
                _ => return Err(NoMark::No),
            };
            self.blanks();
            if self.need()?.is_alphabetic() {
                self.label()?;
            }
        }
        self.rest.next();
        Ok(numbers)
    }

    /// The label before a number and its separator.
    fn label(&mut self) -> Result<MarkLabel, NoMark> {
        const WORDS: [&str; 4] = ["id", "ids", "ref", "refs"];
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_alphabetic()) {
            word.push(c.to_ascii_lowercase());
            if !WORDS.iter().any(|known| known.starts_with(&word)) {
                return Err(NoMark::No);
            }
            self.rest.next();
        }
        self.need()?;
        if !WORDS.contains(&word.as_str()) {
            return Err(NoMark::No);
        }
        self.take('.');
        self.blanks();
        let _separated = [':', '：', '#', '='].into_iter().any(|c| self.take(c));
        self.blanks();
        Ok(if word.starts_with("id") { MarkLabel::Id } else { MarkLabel::Ref })
    }

    /// A number or a range of numbers.
    fn numbers(&mut self, digits_max: usize, numbers: &mut Vec<u32>) -> Result<(), NoMark> {
        let first = self.number(digits_max)?;
        let last = if self.take('-') || self.take('–') { self.number(digits_max)? } else { first };
        let named = match last.checked_sub(first) {
            Some(span) if span < RANGE_MAX => first..=last,
            _ => return Err(NoMark::No),
        };
        for number in named {
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Ok(())
    }

    /// A number. One that is too large for any source is treated like any other unknown number.
    fn number(&mut self, digits_max: usize) -> Result<u32, NoMark> {
        let mut digits = String::new();
        while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
            digits.push(digit);
            self.rest.next();
        }
        if digits.len() > digits_max {
            return Err(NoMark::No);
        }
        if self.peek().is_none() && self.ahead == Ahead::Unknown {
            return Err(NoMark::More);
        }
        if digits.is_empty() {
            return Err(NoMark::No);
        }
        Ok(digits.parse().unwrap_or(u32::MAX))
    }

    /// `##3$$`.
    fn hashes(&mut self) -> Result<Vec<u32>, NoMark> {
        self.expect('#')?;
        self.expect('#')?;
        let number = self.number(LOOSE_DIGITS_MAX)?;
        self.expect('$')?;
        self.expect('$')?;
        Ok(vec![number])
    }

    /// `ref3` on its own.
    fn bare(&mut self, before: Option<char>) -> Result<Vec<u32>, NoMark> {
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || "_-./\\$#@:=&%+*^~<[{".contains(c)) {
            return Err(NoMark::No);
        }
        for c in ['r', 'e', 'f'] {
            let next = self.need()?;
            if !next.eq_ignore_ascii_case(&c) {
                return Err(NoMark::No);
            }
            self.rest.next();
        }
        let number = self.number(LOOSE_DIGITS_MAX)?;
        let mut behind = self.rest.clone();
        let alone = match behind.next() {
            None if self.ahead == Ahead::Nothing => true,
            None => return Err(NoMark::More),
            // `ref3.pdf` is a file name, `ref3.` the end of a sentence.
            Some('.' | ':' | '\'') => match behind.next() {
                None if self.ahead == Ahead::Unknown => return Err(NoMark::More),
                next => !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_'),
            },
            Some(c) => !c.is_ascii_alphanumeric() && !"_-/\\$#@=&%+*^~>({".contains(c),
        };
        if alone { Ok(vec![number]) } else { Err(NoMark::No) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MarkLabel {
    Id,
    Ref,
}
