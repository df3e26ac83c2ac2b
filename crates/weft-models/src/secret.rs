//! A text that must not be shown.

pub use weft_core::Secret;
