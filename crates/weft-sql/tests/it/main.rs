//! Databases as a canvas queries them: SQLite files, and servers where there are some.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]

mod contract;
mod guard;
mod servers;
mod sqlite;
