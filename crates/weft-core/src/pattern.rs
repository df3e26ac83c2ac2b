//! Regular expressions. Those of canvases are written for Python, whose syntax differs in some points. Also counts
//! those of a JSON schema.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use crate::value::Json;

/// Maximum size of a compiled pattern, in bytes. Patterns come from authors of canvases.
pub const COMPILED_BYTES_MAX: usize = 256 << 10;

/// Compiles a pattern that matches anywhere in a text.
///
/// # Errors
/// Fails when it is not a regular expression, is larger than [`COMPILED_BYTES_MAX`], or uses look-around or
/// back-references, whose matching time is unbounded.
pub fn compile(text: &str) -> Result<Regex, regex::Error> {
    // Without a limit, a few characters such as `.{999}{999}` compile to something that exhausts memory.
    RegexBuilder::new(&translated(text)).size_limit(COMPILED_BYTES_MAX).build()
}

/// Returns whether a pattern's first match is at the start of a text.
pub fn begins(pattern: &Regex, text: &str) -> bool {
    pattern.find(text).is_some_and(|found| found.start() == 0)
}

/// Returns an upper bound for the number of regular expressions in a JSON schema. Members of a default value that
/// look like one are counted, too.
pub fn count_in(schema: &Json) -> usize {
    match schema {
        Json::Object(members) => members
            .iter()
            .map(|(name, value)| match (name.as_str(), value) {
                ("pattern", Json::String(_)) => 1,
                ("patternProperties", Json::Object(by_pattern)) => by_pattern.len() + count_in(value),
                _ => count_in(value),
            })
            .sum(),
        Json::Array(items) => items.iter().map(count_in).sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 0,
    }
}

/// Translates syntax that Python writes differently: `{,n}` becomes `{0,n}`, `\Z` becomes `\z`.
fn translated(text: &str) -> Cow<'_, str> {
    if !text.contains("{,") && !text.contains("\\Z") {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 8);
    let (mut in_class, mut rest) = (false, text);
    while let Some(letter) = rest.chars().next() {
        let (mut taken, mut put) = (letter.len_utf8(), None);
        match letter {
            '\\' => {
                let escaped = rest[taken..].chars().next();
                taken += escaped.map_or(0, char::len_utf8);
                put = (escaped == Some('Z') && !in_class).then_some("\\z");
            }
            // Within a character class braces are literal, and `\Z` is an error that must be reported as written.
            '[' => in_class = true,
            ']' => in_class = false,
            '{' if !in_class && is_repeated_at_most(rest) => put = Some("{0"),
            _ => {}
        }
        written.push_str(put.unwrap_or(&rest[..taken]));
        rest = &rest[taken..];
    }
    Cow::Owned(written)
}

/// Returns whether a text starts with `{,n}`.
fn is_repeated_at_most(text: &str) -> bool {
    let Some((number, _)) = text.strip_prefix("{,").and_then(|rest| rest.split_once('}')) else {
        return false;
    };
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_regex_syntax_is_translated() {
        for (pattern, text, found) in [
            (r"^[\(（][0-9]{,2}[\)）]$", "(12)", true),
            (r"^[\(（][0-9]{,2}[\)）]$", "()", true),
            (r"^[\(（][0-9]{,2}[\)）]$", "(123)", false),
            (r"^\{,2}$", "{,2}", true),
            (r"^[{,2}]+$", "2,{", true),
            (r"end\Z", "the end", true),
            (r"end\Z", "the end.", false),
            (r"^\\Z$", "\\Z", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), found, "{pattern} in {text}");
        }
    }

    #[test]
    fn a_prefix_matches_only_at_the_beginning() {
        let pattern = compile("a|b").unwrap();
        assert_eq!(["ab", "ba", "cb"].map(|text| begins(&pattern, text)), [true, true, false]);
        assert!(compile("a)(b").is_err());
        assert!(begins(&compile("(?i)chapter").unwrap(), "CHAPTER 1"));
    }

    #[test]
    fn too_expensive_patterns_are_refused() {
        for pattern in ["a{9999}{9999}", "(?=a)", "(", "a{,99999999}"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}
