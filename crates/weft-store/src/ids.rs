//! What texts may go into a column.

use weft_core::{Error, Result};

/// Longer ids do not fit into the indexes of every database.
pub(crate) const ID_BYTES_MAX: usize = 255;

/// Longer titles do not fit into the indexes of every database.
pub(crate) const TITLE_CHARS_MAX: usize = 255;

/// Checks an id before it is stored for the first time.
///
/// # Errors
/// `Invalid` when it is empty, too long or holds a NUL character.
pub(crate) fn check(what: &str, id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::invalid(format!("the {what} id is empty")));
    }
    fits(what, id)
}

/// Checks a name that may be empty, such as the user of a session.
///
/// # Errors
/// `Invalid` when it is too long or holds a NUL character.
pub(crate) fn fits(what: &str, id: &str) -> Result<()> {
    if id.len() > ID_BYTES_MAX {
        return Err(Error::invalid(format!("the {what} id has {} bytes", id.len()))
            .help(format!("use at most {ID_BYTES_MAX} bytes")));
    }
    if id.contains('\0') {
        return Err(Error::invalid(format!("the {what} id holds a NUL character")));
    }
    Ok(())
}

/// Text as every database takes it: PostgreSQL has no U+0000 in text, so it becomes U+FFFD.
pub(crate) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A count as SQL takes it.
pub(crate) fn bounded(count: u64) -> u64 {
    count.min(i64::MAX as u64)
}
