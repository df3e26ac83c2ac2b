//! Checks and converts values for columns.

use sea_orm::sea_query::LikeExpr;
use serde::Serialize;
use serde::de::DeserializeOwned;
use weft_core::seam::token_store::hash_id;
use weft_core::{Error, ErrorKind, Result};

/// Longer ids do not fit into the indexes of every database.
pub(crate) const ID_BYTES_MAX: usize = 255;

/// Longer titles do not fit into the indexes of every database.
pub(crate) const TITLE_CHARS_MAX: usize = 255;

/// Checks an id before it is stored for the first time.
///
/// # Errors
/// `Invalid` when it is empty, too long or contains a NUL character.
pub(crate) fn check(what: &str, id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::invalid(format!("the {what} id is empty")));
    }
    fits(what, id)
}

/// Checks a name that may be empty, such as the user of a session.
///
/// # Errors
/// `Invalid` when it is too long or contains a NUL character.
pub(crate) fn fits(what: &str, id: &str) -> Result<()> {
    if id.len() > ID_BYTES_MAX {
        return Err(Error::invalid(format!("the {what} id has {} bytes", id.len()))
            .help(format!("use at most {ID_BYTES_MAX} bytes")));
    }
    // Refused and not replaced as in texts: two ids must not become one.
    if id.contains('\0') {
        return Err(Error::invalid(format!("the {what} id contains a NUL character")));
    }
    Ok(())
}

/// Text that every database accepts: PostgreSQL does not allow U+0000 in text, so it becomes U+FFFD.
pub(crate) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A count limited to SQL's range.
pub(crate) fn bounded(count: u64) -> u64 {
    count.min(i64::MAX as u64)
}

/// A count as a SQL integer.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The count in a SQL integer; negative numbers become 0.
pub(crate) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// A name in lower case, for comparisons.
pub(crate) fn fold(name: &str) -> String {
    text(name).to_lowercase()
}

/// A name, and its form for comparisons.
///
/// # Errors
/// `Invalid` when it is empty or too long.
pub(crate) fn name(what: &str, name: &str) -> Result<(String, String)> {
    let folded = fold(name);
    if name.is_empty() {
        return Err(Error::invalid(format!("the name of the {what} is empty")));
    }
    // Lower case may be longer: one Turkish letter becomes two characters.
    if folded.chars().count().max(name.chars().count()) > TITLE_CHARS_MAX {
        return Err(Error::invalid(format!("the name of the {what} is too long"))
            .help(format!("use at most {TITLE_CHARS_MAX} characters")));
    }
    Ok((text(name), folded))
}

/// A pattern for names that contain a text; nothing in the text acts as a wildcard.
pub(crate) fn containing(keywords: &str) -> LikeExpr {
    pattern(&fold(keywords))
}

/// Same as [`containing`], for case-sensitive columns.
pub(crate) fn containing_as_written(keywords: &str) -> LikeExpr {
    pattern(&text(keywords))
}

fn pattern(words: &str) -> LikeExpr {
    let mut pattern = String::from("%");
    for c in words.chars() {
        // Escaped by `!`: in MariaDB's ESCAPE clause, a backslash would have to be escaped itself.
        if matches!(c, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern.push('%');
    LikeExpr::new(pattern).escape('!')
}

/// A pattern for the hashes that an id stands for; `None` when it cannot be the id of one.
pub(crate) fn hashes_of(id: &str) -> Option<LikeExpr> {
    let named = hash_id(id) == id && id.len() == hash_id(&"0".repeat(64)).len();
    // In lower case, like hashes: SQLite's comparison ignores case.
    let plain = named && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    plain.then(|| LikeExpr::new(format!("{id}%")))
}

/// A value as JSON.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|cause| Error::internal("cannot write a value").because(cause))
}

/// Parses JSON; `what` names what it belongs to.
pub(crate) fn read_json<T: DeserializeOwned>(json: &str, what: impl Fn() -> String) -> Result<T> {
    serde_json::from_str(json).map_err(|cause| {
        Error::new(ErrorKind::Garbled, format!("what is stored of {} is damaged", what())).because(cause)
    })
}

/// A value that serializes to a word, without quotes.
pub(crate) fn word<T: Serialize>(value: &T) -> Result<String> {
    Ok(json(value)?.trim_matches('"').to_owned())
}

/// Parses a word; `what` names what it belongs to.
pub(crate) fn read_word<T: DeserializeOwned>(word: &str, what: impl Fn() -> String) -> Result<T> {
    read_json(&format!("\"{word}\""), what)
}
