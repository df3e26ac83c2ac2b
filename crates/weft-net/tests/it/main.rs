//! Tests of outbound traffic. It goes to loopback only; refused addresses are never connected to.
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
mod relay;
mod streaming;
mod tls;
