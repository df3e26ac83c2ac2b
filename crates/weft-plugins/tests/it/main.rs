//! Plugins in a folder become tools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(missing_docs, reason = "tests")]

mod calls;
mod components;
mod documents;
mod parameters;
mod skills;
