//! Recognises different spellings of the same name.

use std::collections::{BTreeSet, HashMap};

/// Kinds whose names have no plural: `Williams` is not several of `William`.
const WITHOUT_PLURAL: [&str; 7] =
    ["person", "people", "organization", "organisation", "company", "geo", "location"];

/// Returns the key of a name, which ignores case, whitespace and punctuation: `U.S.`, `us` and `U. S` have
/// the same key, and so have `X-Ray` and `x ray`. Signs that distinguish names are kept: `C++`, `C#`, `.NET`,
/// `3.1`.
pub(super) fn key(name: &str) -> String {
    let chars: Vec<char> = name.chars().map(narrow).flat_map(char::to_lowercase).collect();
    let mut key = String::with_capacity(name.len());
    for (at, c) in chars.iter().copied().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at)).copied();
        let after = chars.get(at + 1).copied();
        match c {
            '.' | ',' if digit(before) && digit(after) => key.push(c),
            '.' if before.is_none_or(char::is_whitespace) && after.is_some_and(char::is_alphanumeric) => {
                key.push(c);
            }
            // Marks between the letters of an abbreviation, or of a possessive, separate nothing.
            '.' | '\'' | '’' | '‘' | '`' | '´' => {}
            c if c.is_alphanumeric()
                || matches!(c, '+' | '#' | '&' | '$' | '€' | '%' | '@' | '*' | '=' | '<' | '>' | '~') =>
            {
                key.push(c);
            }
            // Marks that belong to the letter before them.
            c if !c.is_ascii() && !c.is_whitespace() && !parts_words(c) => key.push(c),
            _ => key.push(' '),
        }
    }
    let words: Vec<&str> = key.split_whitespace().collect();
    let key = joined(&words);
    if key.is_empty() { super::folded(name) } else { key }
}

/// Joins words with spaces, except single letters in a row: `u s` becomes `us`.
fn joined(words: &[&str]) -> String {
    let mut joined = String::new();
    let single = |word: &str| word.len() == 1 && word.chars().all(|c| c.is_ascii_alphabetic());
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        if before.is_some_and(|before| !(single(before) && single(word))) {
            joined.push(' ');
        }
        joined.push_str(word);
    }
    joined
}

fn digit(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_ascii_digit())
}

/// Returns the normal-width form of a full-width character.
fn narrow(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
        c => c,
    }
}

/// Whether the character is a dash, quotation mark, bracket or stop that separates words.
fn parts_words(c: char) -> bool {
    matches!(c,
        '\u{a1}' | '\u{ab}' | '\u{b7}' | '\u{bb}' | '\u{bf}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}'
        | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}' | '\u{30fb}')
}

/// Returns the singular of an English key, if it looks like a plural.
fn singular(key: &str) -> Option<String> {
    let word = key.rsplit(' ').next().unwrap_or(key);
    // Short words with this ending are rarely plurals: gas, bus.
    if word.len() < 4 || !word.is_ascii() || !word.ends_with('s') {
        return None;
    }
    // Glass, campus, analysis: these are singulars.
    if ["ss", "us", "is"].iter().any(|ending| word.ends_with(ending)) {
        return None;
    }
    if let Some(stem) = key.strip_suffix("ies").filter(|_| word.len() > 4) {
        return Some(format!("{stem}y"));
    }
    let hissing = ["ches", "shes", "sses", "xes", "zes"].iter().any(|ending| word.ends_with(ending));
    key.strip_suffix(if hissing { "es" } else { "s" }).map(str::to_owned)
}

/// Returns each plural among the keys with its singular, if that is a key too and neither is of a kind whose
/// names have no plural. In the order of the keys.
pub(super) fn plurals(kinds: &HashMap<String, BTreeSet<String>>) -> Vec<(String, String)> {
    let proper = |key: &str| {
        let said = kinds.get(key).into_iter().flatten();
        said.into_iter().any(|kind| WITHOUT_PLURAL.contains(&kind.as_str()))
    };
    let mut found: Vec<(String, String)> = kinds
        .keys()
        .filter_map(|key| Some((key.clone(), singular(key)?)))
        .filter(|(plural, one)| kinds.contains_key(one) && !proper(plural) && !proper(one))
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_in_any_spelling() {
        let check = |names: &[&str]| {
            let keys: BTreeSet<String> = names.iter().map(|name| key(name)).collect();
            assert_eq!(keys.len(), 1, "{names:?}: {keys:?}");
        };
        check(&["Ada Lovelace", "ADA  LOVELACE", "ada lovelace.", "“Ada Lovelace”"]);
        check(&["U.S.", "US", "u. s.", "Ｕ.Ｓ."]);
        check(&["X-Ray", "x ray", "X–ray", "x_ray"]);
        check(&["Newton's law", "Newton’s law", "NEWTONS LAW"]);
        check(&["I.B.M.", "IBM", "I B M"]);
        check(&["图灵", " 图灵 ", "《图灵》"]);
        let apart = ["C", "C++", "C#", "F#", ".NET", "NET", "3.1", "31", "1,000", "AT&T", "ATT", "नि", "न"];
        let keys: BTreeSet<String> = apart.iter().map(|name| key(name)).collect();
        assert_eq!(keys.len(), apart.len(), "{keys:?}");
        assert_eq!((key("?!"), key("")), ("?!".to_owned(), String::new()));
    }

    #[test]
    fn plurals_match_for_things_but_not_for_people() {
        let kinds = |said: &[(&str, &str)]| {
            let said = said.iter().map(|(name, kind)| (key(name), BTreeSet::from([(*kind).to_owned()])));
            plurals(&said.collect())
        };
        let pair = |one: &str, other: &str| vec![(one.to_owned(), other.to_owned())];
        assert_eq!(
            kinds(&[("Steam engines", "category"), ("steam engine", "")]),
            pair("steam engines", "steam engine")
        );
        assert_eq!(kinds(&[("Batteries", "x"), ("battery", "x")]), pair("batteries", "battery"));
        assert_eq!(kinds(&[("boxes", "x"), ("box", "x")]), pair("boxes", "box"));
        assert_eq!(kinds(&[("William", "person"), ("Williams", "person")]), []);
        assert_eq!(kinds(&[("Wale", "category"), ("Wales", "geo")]), []);
        assert_eq!(kinds(&[("engines", "category")]), [], "there is no other");
        assert_eq!(
            kinds(&[("glass", "x"), ("glas", "x"), ("gas", "x"), ("ga", "x"), ("bus", "x"), ("bu", "x")]),
            []
        );
    }
}
