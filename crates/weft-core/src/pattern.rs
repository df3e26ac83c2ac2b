//! Regular expressions: those of canvases, which are written for Python, whose syntax differs in some points, and how many
//! a schema has.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use crate::value::Json;

/// Bytes that a compiled pattern takes, at most: a pattern comes from whoever draws a canvas.
pub const COMPILED_BYTES_MAX: usize = 256 << 10;

/// A pattern that is looked for anywhere in a text.
///
/// # Errors
/// When it is no regular expression, is larger than [`COMPILED_BYTES_MAX`], or looks around or back, which takes time
/// without a limit.
pub fn compile(text: &str) -> Result<Regex, regex::Error> {
    // Without a bound a few characters, `.{999}{999}`, compile to what takes all memory.
    RegexBuilder::new(&translated(text)).size_limit(COMPILED_BYTES_MAX).build()
}

/// Whether a text begins with what a pattern says.
pub fn begins(pattern: &Regex, text: &str) -> bool {
    pattern.find(text).is_some_and(|found| found.start() == 0)
}

/// How many regular expressions a JSON schema may hold: members that look like one in a default are counted, too.
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

/// What Python writes in another way: `{,n}` is `{0,n}`, `\Z` is `\z`.
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
            // Between brackets braces are braces, and `\Z` is an error that is to be told as it is written.
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

/// Whether a text begins with `{,n}`.
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
    fn what_python_writes_in_another_way_means_the_same() {
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
    fn a_prefix_is_looked_for_at_the_beginning_only() {
        let pattern = compile("a|b").unwrap();
        assert_eq!(["ab", "ba", "cb"].map(|text| begins(&pattern, text)), [true, true, false]);
        assert!(compile("a)(b").is_err());
        assert!(begins(&compile("(?i)chapter").unwrap(), "CHAPTER 1"));
    }

    #[test]
    fn what_takes_too_much_is_refused() {
        for pattern in ["a{9999}{9999}", "(?=a)", "(", "a{,99999999}"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}
