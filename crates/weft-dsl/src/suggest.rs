//! “Did you mean …?”: limits how many names of one canvas are compared, because comparing is slow.

use std::cell::Cell;

use weft_core::suggest::{akin, did_you_mean, misspelled, nearest, one_letter_less};

/// Maximum number of names per canvas for which a nearest name is sought; comparing is quadratic in what an
/// author may send.
const QUESTIONS_MAX: usize = 32;

/// Maximum number of names per canvas checked for misspellings: files from other editors contain a few dozen
/// per node.
const LOOKS_MAX: usize = 20_000;

/// Maximum number of names per canvas that look like a reference and are compared with known ones.
const GUESSES_MAX: usize = 64;

/// Maximum number of names that all questions and guesses of one canvas are compared with.
// A canvas has room for hundreds of thousands of variables, and comparing two names of this length takes
// thousands of steps.
const COMPARED_MAX: usize = 50_000;

/// Makes suggestions, up to a limit per canvas.
#[derive(Debug)]
pub(crate) struct Suggester {
    questions_left: usize,
    guesses_left: usize,
    looks_left: usize,
    names_left: Cell<usize>,
}

impl Default for Suggester {
    fn default() -> Self {
        Self {
            questions_left: QUESTIONS_MAX,
            guesses_left: GUESSES_MAX,
            looks_left: LOOKS_MAX,
            names_left: Cell::new(COMPARED_MAX),
        }
    }
}

impl Suggester {
    /// Returns the name in `known` that is almost certainly meant; see [`misspelled`].
    pub(crate) fn misspelled<'a>(
        &mut self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Option<&'a str> {
        self.looks_left = self.looks_left.checked_sub(1)?;
        misspelled(name, known)
    }

    /// Returns the parameter that is probably meant: one of `absent` that is nearly the same name or has the same words,
    /// or one of `present` with one letter less.
    pub(crate) fn parameter<'a>(
        &mut self,
        name: &str,
        absent: impl Iterator<Item = &'a str> + Clone,
        present: impl Iterator<Item = &'a str>,
    ) -> Option<&'a str> {
        self.looks_left = self.looks_left.checked_sub(1)?;
        misspelled(name, absent.clone())
            .or_else(|| akin(name, absent))
            .or_else(|| one_letter_less(name, present))
    }

    /// Like `misspelled`, for names of which a canvas may have thousands.
    pub(crate) fn misspelled_among<'a>(
        &mut self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Option<&'a str> {
        self.guesses_left = self.guesses_left.checked_sub(1)?;
        misspelled(name, self.counted(known))
    }

    /// Returns the nearest of `known`, as a question to the author.
    pub(crate) fn did_you_mean<'a>(
        &mut self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        self.questions_left = self.questions_left.checked_sub(1)?;
        nearest(name, self.counted(known)).map(did_you_mean)
    }

    /// Returns as many of these names as may still be compared.
    fn counted<'a, I: IntoIterator<Item = &'a str>>(&self, known: I) -> impl Iterator<Item = &'a str> {
        known.into_iter().take_while(move |_| {
            let left = self.names_left.get();
            self.names_left.set(left.saturating_sub(1));
            left > 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_limited() {
        let mut suggester = Suggester::default();
        assert_eq!(suggester.did_you_mean("agnt", ["Agent"]).as_deref(), Some("did you mean `Agent`?"));
        for _ in 1..QUESTIONS_MAX {
            suggester.did_you_mean("agnt", ["Agent"]);
        }
        assert_eq!(suggester.did_you_mean("agnt", ["Agent"]), None);
    }
}
