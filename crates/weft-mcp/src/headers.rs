//! The headers of every request to a server. Pure.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use weft_core::{Error, Result, Secret};

use crate::config::ServerConfig;

/// Headers that the protocol or the connection sets.
const RESERVED: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// Returns the headers of a server with their variables filled in. Those without a name, without a value or with a
/// bare `Bearer` are left out.
///
/// # Errors
/// `Invalid` naming a header that cannot be sent; never its value.
pub(crate) fn headers(server: &ServerConfig) -> Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    for (name, value) in &server.headers {
        let name = filled(name, &server.variables).trim().to_owned();
        let value = filled(value.reveal(), &server.variables).trim().to_owned();
        // Programs write such a header if their users have not entered a token: most servers refuse it, while many
        // accept requests without it.
        if name.is_empty() || says_nothing(&value) {
            continue;
        }
        if name.parse::<HeaderName>().is_err() || HeaderValue::from_str(&value).is_err() {
            return Err(Error::invalid(format!("the header `{name}` cannot be sent")));
        }
        if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            // Duplicates would contradict each other, and the server would choose between them.
            return Err(Error::invalid(format!("the header `{name}` is set by the protocol")));
        }
        headers.push((name, value));
    }
    Ok(headers)
}

/// Returns the variables that are not set although they stand for a whole value, or for everything after a first word
/// such as `Bearer`: such a header can only be a mistake. Elsewhere, unknown names stay as they are.
pub(crate) fn unset(server: &ServerConfig) -> Vec<String> {
    let is_known =
        |name: &str| server.variables.contains_key(name) || server.variables_from.contains_key(name);
    let unset = server.headers.iter().filter_map(|(header, value)| {
        let words: Vec<_> = value.reveal().split_whitespace().collect();
        let ([word] | [_, word]) = words.as_slice() else { return None };
        // Only in braces: a bare `$name` may be part of a password.
        let (name, length) = word.starts_with("${").then(|| name_at(word))?;
        (length == word.len() && !is_known(name)).then(|| {
            format!(
                "`headers.{header}` is `${{{name}}}`, which neither `variables` nor `variables_from` sets"
            )
        })
    });
    unset.collect()
}

/// Returns whether a value is empty, or announces a token without having one.
fn says_nothing(value: &str) -> bool {
    let mut words = value.split_whitespace();
    let first = words.next();
    first.is_none_or(|first| first.eq_ignore_ascii_case("bearer")) && words.next().is_none()
}

/// Replaces `$name` and `${name}` in a text, once; unknown names stay as they are.
fn filled(text: &str, variables: &BTreeMap<String, Secret>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let (name, length) = name_at(from);
        match variables.get(name) {
            Some(value) => filled.push_str(value.reveal()),
            // A `$` may be part of a password.
            None => filled.push_str(&from[..length]),
        }
        // Continues after the inserted value: a `$` in it is not replaced again.
        rest = &from[length..];
    }
    filled.push_str(rest);
    filled
}

/// Returns the name after a `$`, and the length of the reference in bytes. Without a name, only that of the `$`.
fn name_at(text: &str) -> (&str, usize) {
    let after = &text[1..];
    let ends = |rest: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        rest.find(|c| !is_part(c)).unwrap_or(rest.len())
    };
    if let Some(braced) = after.strip_prefix('{') {
        let end = ends(braced);
        if end > 0 && braced[end..].starts_with('}') {
            return (&braced[..end], end + 3);
        }
    }
    let end = ends(after);
    (&after[..end], end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(name: &str, value: &str) -> Result<Vec<(String, String)>> {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), Secret::new(*value));
        let variables = [("token", "tok$en"), ("a_1", "x"), ("empty", ""), ("lone", "Bearer")];
        headers(&ServerConfig {
            headers: [pair(&(name, value))].into(),
            variables: variables.iter().map(pair).collect(),
            ..ServerConfig::default()
        })
    }

    #[test]
    fn variables_are_expanded_and_empty_headers_are_dropped() {
        let check = |name: &str, value: &str, expected: Option<(&str, &str)>| {
            let expected: Vec<_> = expected.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            assert_eq!(sent(name, value).unwrap(), expected, "{name}: {value}");
        };
        check("Authorization", "Bearer ${token}", Some(("Authorization", "Bearer tok$en")));
        check("Authorization", "Bearer $token", Some(("Authorization", "Bearer tok$en")));
        check("X-$a_1-y", "${a_1}$a_1-$a_12", Some(("X-x-y", "xx-$a_12")));
        check(
            "X",
            "$unknown ${unknown} ${token ${} $ 5$",
            Some(("X", "$unknown ${unknown} ${token ${} $ 5$")),
        );
        check("Authorization", "Bearer ${empty}", None);
        check("Authorization", "bearer", None);
        check("Authorization", "$lone", None);
        check("X", "  ", None);
        check("$empty", "v", None);
        // Tokens are kept whole, even those made of the letters of `Bearer`.
        check("Authorization", "Bearer Bear", Some(("Authorization", "Bearer Bear")));
        check("Authorization", "Bearerreab", Some(("Authorization", "Bearerreab")));
        check("X", "汉", Some(("X", "汉")));
    }

    #[test]
    fn invalid_headers_are_named_without_their_value() {
        for (name, value) in [("a b", "s3cret"), ("X", "s3cret\r\nHost: b"), ("Mcp-Session-Id", "s3cret")] {
            let error = sent(name, value).unwrap_err().full();
            assert!(error.contains(name) && !error.contains("s3cret"), "{error}");
        }
    }
}
