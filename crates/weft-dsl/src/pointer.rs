//! The steps of JSON pointers.

use std::fmt;

/// Appends one step to `pointer`, escaped.
pub(crate) fn join(pointer: &str, step: impl fmt::Display) -> String {
    format!("{pointer}/{}", escape(&step.to_string()))
}

fn escape(step: &str) -> String {
    // In this order (RFC 6901 §3): otherwise the `~` of `~1` would be escaped again.
    step.replace('~', "~0").replace('/', "~1")
}

/// Unescapes one step of a pointer.
pub(crate) fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}
