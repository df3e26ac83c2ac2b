//! The client against scripted servers over every transport, and against real ones.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]

mod bad_servers;
mod calls;
mod conformance;
mod fake;
mod fixture;
mod http;
mod http_fake;
mod kit;
mod lists;
mod oauth;
mod peers;
mod pins;
mod process;
mod serving;
mod sign_in;
