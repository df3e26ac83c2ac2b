//! What is said of a file that cannot be created.

use weft_core::Error;

/// The error for a file that its library cannot write.
pub(super) fn unwritten(what: &str, cause: impl std::fmt::Display) -> Error {
    Error::invalid(format!("the {what} cannot be created: {cause}"))
}
