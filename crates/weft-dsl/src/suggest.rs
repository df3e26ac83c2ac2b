//! “Did you mean …?”: finds the nearest of some names by edit distance.

use std::cell::Cell;

/// Longer names are not compared.
const NAME_LENGTH_MAX: usize = 64;

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
        nearest(name, self.counted(known)).map(|found| format!("did you mean `{found}`?"))
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

/// Returns the nearest of `known`, unless all are too far away. Among equally near ones, the first.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let chars: Vec<char> = name.to_lowercase().chars().collect();
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        // Comparing is quadratic, and the lengths alone rule out most names.
        let near = chars.len().abs_diff(candidate.chars().count()) <= tolerance(chars.len());
        if !near || candidate.len() > NAME_LENGTH_MAX {
            continue;
        }
        let distance = distance(&chars, &candidate.to_lowercase().chars().collect::<Vec<_>>());
        if distance <= tolerance(chars.len()) && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the name in `known` that is almost certainly meant by `name`: the two differ only in case and in
/// separators, or by one edit (two in a long name); in a short name only by two swapped letters.
pub(crate) fn misspelled<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONG: usize = 8;
    const SHORT: usize = 3;
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let folded = |name: &str| -> Vec<char> {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let written = folded(name);
    let slips = |candidate: &str| {
        let meant = folded(candidate);
        let most = if meant.len() < LONG { 1 } else { 2 };
        let near = written.len().abs_diff(meant.len()) <= most;
        let slips = near.then(|| distance(&written, &meant)).filter(|slips| *slips <= most)?;
        let sorted = |letters: &[char]| {
            let mut letters = letters.to_vec();
            letters.sort_unstable();
            letters
        };
        (meant.len() > SHORT || sorted(&written) == sorted(&meant)).then_some(slips)
    };
    let near = known.into_iter().filter_map(|candidate| Some((slips(candidate)?, candidate)));
    near.min_by_key(|(slips, _)| *slips).map(|(_, candidate)| candidate)
}

/// Up to a third of the name may be wrong.
fn tolerance(length: usize) -> usize {
    (length / 3).clamp(1, 6)
}

/// Returns the number of edits that turn one name into the other; swapping two neighbours is one edit.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                // Swapped neighbours are the most frequent typing error.
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let known = ["Agent", "Message", "StringTransform", "Switch"];
        let check = |name: &str, expected: Option<&str>| assert_eq!(nearest(name, known), expected, "{name}");
        check("Agnet", Some("Agent"));
        check("mesage", Some("Message"));
        check("Stringtransformer", Some("StringTransform"));
        check("Swich", Some("Switch"));
        check("Browser", None);
        check("", None);
        check(&"x".repeat(1_000), None);
    }

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
