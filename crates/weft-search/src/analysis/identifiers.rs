//! Identifiers and names of standards: the words that they are composed of.

use std::ops::Range;

use super::letters::LETTERS_MAX;

/// Number of letters before a number, and of its digits: `RFC7231` is a name and a number, while `CO2` is one word.
const ACRONYM_LETTERS: std::ops::RangeInclusive<usize> = 2..=6;
const NUMBER_DIGITS: std::ops::RangeInclusive<usize> = 3..=6;

/// Returns the words of a name such as `getUserName` or `RFC7231`; none if it is a single word.
pub(super) fn parts(name: &str) -> Vec<Range<usize>> {
    let letters = name.as_bytes();
    // Most words have only lower-case letters after the first.
    if letters.iter().skip(1).all(u8::is_ascii_lowercase) || !name.is_ascii() || name.len() > LETTERS_MAX {
        return Vec::new();
    }
    let digits = letters.iter().position(u8::is_ascii_digit).unwrap_or(name.len());
    if is_acronym(&name[..digits]) && is_number(&name[digits..]) {
        return vec![0..digits, digits..name.len()];
    }
    humps(letters)
}

/// Whether the word consists of a few capital letters.
pub(super) fn is_acronym(word: &str) -> bool {
    ACRONYM_LETTERS.contains(&word.len()) && word.bytes().all(|letter| letter.is_ascii_uppercase())
}

/// Whether the word is a number that may follow a name.
pub(super) fn is_number(word: &str) -> bool {
    NUMBER_DIGITS.contains(&word.len()) && word.bytes().all(|digit| digit.is_ascii_digit())
}

/// Splits a name into words that begin with a capital letter. Names of people and products count as one word,
/// and so do abbreviations: `McDonald`, `JavaScript`, `mRNA`, `mmHg`.
fn humps(letters: &[u8]) -> Vec<Range<usize>> {
    let begins = |at: &usize| {
        let (before, here) = (letters[at - 1], letters[*at]);
        let is_next_small = letters.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        here.is_ascii_uppercase() && (!before.is_ascii_uppercase() || is_next_small)
    };
    let mut parts = Vec::new();
    let mut from = 0;
    for at in (1..letters.len()).filter(begins).chain([letters.len()]) {
        parts.push(from..at);
        from = at;
    }
    let least = if letters.first().is_some_and(u8::is_ascii_lowercase) { 2 } else { 3 };
    let is_word = |part: &Range<usize>| {
        part.len() > 2 && letters[part.start + 1..part.end].iter().all(u8::is_ascii_lowercase)
    };
    let is_name =
        parts.len() >= least && parts.iter().all(|part| part.len() > 1) && parts.iter().skip(1).any(is_word);
    if is_name { parts } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_their_parts() {
        let check = |name: &str, expected: &str| {
            let found: Vec<&str> = parts(name).into_iter().map(|part| &name[part]).collect();
            assert_eq!(found.join(" "), expected, "{name}");
        };
        check("getUserName", "get User Name");
        check("parseHTTPResponse", "parse HTTP Response");
        check("XMLHttpRequest", "XML Http Request");
        check("RFC7231", "RFC 7231");
        for word in [
            "",
            "a",
            "word",
            "Word",
            "WORD",
            "McDonald",
            "JavaScript",
            "mRNA",
            "miRNA",
            "mmHg",
            "iPhone",
            "CO2",
            "A1234",
            "userID",
            "4711",
            "x86",
            "GRÖẞE",
        ] {
            check(word, "");
        }
        check(&format!("get{}", "Name".repeat(20)), "");
    }
}
