//! Words of letters and digits, and words that are joined from these.

use std::ops::Range;

use rust_stemmers::Stemmer;
use unicode_normalization::UnicodeNormalization as _;

use super::common_words::is_common;
use super::language::{StemmedLanguage, of_script};
use super::letters::{CharTreatment, LETTERS_MAX};
use super::{fold, identifiers};

/// Maximum number of parts of a joined word; what follows counts as a separate word.
const PARTS_MAX: usize = 16;

type WordVisitor<'a> = dyn FnMut(&str, Range<usize>, bool) + 'a;

/// Splits off words, reusing its buffers between calls.
#[derive(Debug, Default)]
pub(super) struct WordCutter {
    /// The language of words in Latin script; for a question, the language whose most common words are left out.
    pub language: StemmedLanguage,
    /// Whether the text is a question, so that each word is given in the form of every language.
    pub is_question: bool,
    lower: String,
    form: String,
    folded: String,
    whole: String,
    parts: Vec<Range<usize>>,
}

impl WordCutter {
    /// Processes the word at the start of a text and returns its length in bytes. `at` is the position of the
    /// text within a longer one.
    pub(super) fn take(&mut self, text: &str, at: usize, found: &mut WordVisitor<'_>) -> usize {
        self.parts.clear();
        let mut end = part(text);
        self.parts.push(0..end);
        while let Some(joint) = joint(&text[end..]).filter(|_| self.parts.len() < PARTS_MAX) {
            let from = end + joint;
            end = from + part(&text[from..]);
            self.parts.push(from..end);
        }
        if self.parts.len() == 1 {
            self.name(&text[..end], at, found);
            let number = self.number(text, end, at, found);
            return if number > 0 { number } else { end + self.suffix(text, end, at, found) };
        }
        // Collected before any word is passed on: the joining signs determine what the words are.
        let joints: Vec<&str> = self.parts.windows(2).map(|pair| &text[pair[0].end..pair[1].start]).collect();
        // `Ada's` is found as `Ada`, and an `s` by itself says nothing.
        if is_possessive(&text[self.parts[self.parts.len() - 1].clone()], joints[joints.len() - 1]) {
            self.parts.pop();
            if self.parts.len() == 1 {
                let word = self.parts[0].clone();
                self.word(&text[word.clone()], at + word.start..at + word.end, found);
                return end;
            }
        }
        let joints = &joints[..self.parts.len() - 1];
        // `1,000,000` is one number, also written without commas.
        if joints.iter().all(|joint| *joint == ",")
            && self.parts.iter().skip(1).all(|part| is_group(&text[part.clone()]))
        {
            let number: String = text[..end].chars().filter(|c| *c != ',').collect();
            self.word(&number, at..at + end, found);
            return end;
        }
        self.joined(text, joints, at, found);
        end
    }

    /// Passes on each part individually, then the whole.
    fn joined(&mut self, text: &str, joints: &[&str], at: usize, found: &mut WordVisitor<'_>) {
        let parts = std::mem::take(&mut self.parts);
        for part in &parts {
            self.name(&text[part.clone()], at + part.start, found);
        }
        let whole = parts[0].start..parts[parts.len() - 1].end;
        let has_letters = text[whole.clone()].chars().any(char::is_alphabetic);
        let together = has_letters && joints.iter().all(|joint| is_soft(joint));
        self.whole.clear();
        if together {
            // Joined without the sign, `e-mail` and `email` are the same word in the index.
            parts.iter().for_each(|part| fold::fold(&text[part.clone()], &mut self.whole));
        } else {
            fold::fold(&text[whole.clone()], &mut self.whole);
        }
        let range = at + whole.start..at + whole.end;
        if together && joints.contains(&"_") {
            // In the form of the same name written as one word: `user_name`, `userName`.
            let name = std::mem::take(&mut self.whole);
            self.word(&name, range, found);
            self.whole = name;
        } else {
            found(cut(&self.whole), range, false);
        }
        self.parts = parts;
    }

    /// Passes on the words of a name, then the whole.
    fn name(&mut self, name: &str, at: usize, found: &mut WordVisitor<'_>) {
        for part in identifiers::parts(name) {
            self.word(&name[part.clone()], at + part.start..at + part.end, found);
        }
        self.word(name, at..at + name.len(), found);
    }

    /// Passes on the number after an acronym at the start of the text, then both as one word. Returns where
    /// the number ends, or 0 if there is none.
    fn number(&mut self, text: &str, end: usize, at: usize, found: &mut WordVisitor<'_>) -> usize {
        let rest =
            text[end..].strip_prefix([' ', '\u{a0}']).filter(|_| identifiers::is_acronym(&text[..end]));
        let Some(rest) = rest else { return 0 };
        let number = &rest[..part(rest)];
        if !identifiers::is_number(number) || joint(&rest[number.len()..]).is_some() {
            return 0;
        }
        let from = text.len() - rest.len();
        let to = from + number.len();
        self.word(number, at + from..at + to, found);
        self.whole.clear();
        fold::fold(&text[..end], &mut self.whole);
        self.whole.push_str(number);
        found(&self.whole, at..at + to, false);
        to
    }

    fn word(&mut self, word: &str, range: Range<usize>, found: &mut WordVisitor<'_>) {
        self.folded.clear();
        fold::fold(word, &mut self.folded);
        let folded = cut(&self.folded);
        // After folding, Latin letters are ASCII; a word with digits has no ending to remove.
        let is_latin = folded.bytes().all(|byte| byte.is_ascii_lowercase());
        match folded.chars().next() {
            None => {}
            Some(_) if is_latin => self.latin(word, range, found),
            Some(first) => match of_script(first).filter(|_| folded.chars().all(char::is_alphabetic)) {
                Some(stemmer) => {
                    lower(word, &mut self.lower);
                    // Both are written for the same letter, and the stemmer treats only one of them as a vowel.
                    if self.lower.contains('ё') {
                        self.lower = self.lower.replace('ё', "е");
                    }
                    self.form.clear();
                    fold::fold(&stemmer.stem(cut(&self.lower)), &mut self.form);
                    // A stemmer may leave nothing, and many words would share an empty term.
                    let form = if self.form.is_empty() { folded } else { &self.form };
                    found(cut(form), range.clone(), is_common(folded));
                    if let Some(other) = without_and(stemmer, &self.lower, form) {
                        found(cut(&other), range, is_common(folded));
                    }
                }
                None => found(folded, range, is_common(folded)),
            },
        }
    }

    /// Passes on a word in Latin script, in the form of the text's language or, in a question, of all languages.
    fn latin(&mut self, word: &str, range: Range<usize>, found: &mut WordVisitor<'_>) {
        let folded = cut(&self.folded);
        let common = match self.language {
            StemmedLanguage::English => is_common(folded),
            other => other.is_common(folded),
        };
        // A question is asked in one language, but its answer may be written in another.
        if self.is_question || self.language == StemmedLanguage::English {
            self.form.clear();
            // Words of two letters have no ending that could be removed.
            if is_common(folded) || folded.len() <= 2 {
                self.form.push_str(folded);
            } else {
                StemmedLanguage::English.form(folded, folded, &mut self.form);
            }
            found(&self.form, range.clone(), common);
        }
        let own = (self.language != StemmedLanguage::English).then_some(self.language);
        let all = self.is_question.then(StemmedLanguage::others).into_iter().flatten();
        let others = all.chain(own.filter(|_| !self.is_question));
        lower(word, &mut self.lower);
        let has_diacritics = self.lower != folded;
        for language in others {
            self.form.clear();
            language.form(cut(&self.lower), folded, &mut self.form);
            found(&self.form, range.clone(), common);
            if has_diacritics && !self.is_question {
                // The question may have been written without diacritics.
                let before = self.form.len();
                language.form(folded, folded, &mut self.form);
                let (with, without) = self.form.split_at(before);
                if with != without {
                    found(without, range.clone(), common);
                }
            }
        }
    }

    /// Passes on names such as `C++` and `F#`; returns the length of the sign.
    fn suffix(&mut self, text: &str, end: usize, at: usize, found: &mut WordVisitor<'_>) -> usize {
        let sign = ["++", "#"].into_iter().find(|sign| text[end..].starts_with(sign)).unwrap_or_default();
        let next = text[end + sign.len()..].chars().next();
        // Only after one or two letters, as in `C#` and `F#`: in `issue#` the sign is not part of the name.
        if sign.is_empty()
            || end > 2
            || next.is_some_and(|next| CharTreatment::of(next) == CharTreatment::Word)
        {
            return 0;
        }
        self.whole.clear();
        fold::fold(&text[..end + sign.len()], &mut self.whole);
        found(&self.whole, at..at + end + sign.len(), false);
        sign.len()
    }
}

/// Returns another form of an Arabic word that begins with the letter for `and`: the stemmer leaves it before
/// an article, and removes it where it may belong to the word.
fn without_and(stemmer: &Stemmer, lower: &str, form: &str) -> Option<String> {
    const AND: char = 'و';
    let rest = lower.strip_prefix(AND)?;
    match rest.strip_prefix("ال") {
        Some(word) if word.chars().count() >= 3 => {
            let mut other = String::new();
            fold::fold(&stemmer.stem(cut(rest)), &mut other);
            Some(other).filter(|other| !other.is_empty() && other != form)
        }
        Some(_) => None,
        None => (!form.starts_with(AND)).then(|| format!("{AND}{form}")),
    }
}

/// Returns the length of the letters and digits at the start of a text.
fn part(text: &str) -> usize {
    text.char_indices()
        .find(|(_, c)| CharTreatment::of(*c) != CharTreatment::Word)
        .map_or(text.len(), |(at, _)| at)
}

/// Returns the length of the sign that joins the preceding word to the following one.
fn joint(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let sign = chars.next().filter(|c| {
        matches!(
            c,
            '-' | '.'
                | '_'
                | '/'
                | '@'
                | ':'
                | '+'
                | '#'
                | '&'
                | '\''
                | '’'
                | ','
                | '\\'
                | '‐'
                | '‑'
                | '='
                | '%'
        )
    })?;
    let next = chars.next()?;
    (CharTreatment::of(next) == CharTreatment::Word).then(|| sign.len_utf8())
}

/// Whether words joined by this sign are also written as one: `e-mail`, `max_count`, `don't`.
fn is_soft(joint: &str) -> bool {
    matches!(joint, "-" | "_" | "‐" | "‑" | "'" | "’")
}

fn is_possessive(last: &str, joint: &str) -> bool {
    matches!(joint, "'" | "’") && last.eq_ignore_ascii_case("s")
}

/// Whether the part is a group of three digits in a long number.
fn is_group(part: &str) -> bool {
    part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn cut(word: &str) -> &str {
    if word.len() <= LETTERS_MAX {
        return word;
    }
    word.char_indices().nth(LETTERS_MAX).map_or(word, |(at, _)| &word[..at])
}

/// Converts a word to lower case with its diacritics, each composed into a single letter.
fn lower(word: &str, lower: &mut String) {
    lower.clear();
    if word.is_ascii() {
        lower.extend(word.chars().map(|c| c.to_ascii_lowercase()));
    } else {
        lower.extend(word.nfkc().flat_map(char::to_lowercase));
    }
}
