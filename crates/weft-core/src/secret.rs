//! A text that must not be displayed.

use std::fmt;

use serde::Deserialize;

/// Replaces a secret in anything that people or models read.
pub const MASK: &str = "***";
/// Minimum length of a secret, in bytes, for it to be searched for in texts: `on` or `de` occur in any text.
pub const LENGTH_MIN: usize = 5;

/// A secret such as a key. Formatted as `***`, including inside other values.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself, for the code that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}
