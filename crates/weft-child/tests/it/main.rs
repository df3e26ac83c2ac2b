//! A worker from inside and from outside.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(missing_docs, reason = "tests")]

#[cfg(target_os = "linux")]
mod boundary;
#[cfg(target_os = "linux")]
mod forks;
