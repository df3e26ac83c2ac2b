//! Why a file cannot be read.

use std::fmt;

/// Why a file cannot be read, worded as the end of a sentence that begins with "cannot read it:".
#[derive(Debug)]
pub(crate) struct Unreadable(pub String);

impl Unreadable {
    /// A reason with a message of this crate.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// A reason with the message of a library, after what was being done.
    pub(crate) fn because(reason: &str, cause: impl fmt::Display) -> Self {
        // Messages of libraries can be arbitrarily long.
        let cause: String = cause.to_string().chars().take(300).collect();
        Self(format!("{reason} ({cause})"))
    }
}
