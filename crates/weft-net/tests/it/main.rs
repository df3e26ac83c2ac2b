//! Tests of the way out. Traffic goes to loopback; refused addresses are never dialled.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]

mod exchange;
mod guard;
mod mail;
mod streaming;
mod tls;
