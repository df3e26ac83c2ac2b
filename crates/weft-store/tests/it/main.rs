#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]

mod bad_disk;
mod contracts;
mod crash;
mod disk;
mod files;
mod journal;
mod queues;
mod quotas;
mod upgrade;
mod urls;
mod versions;
mod workspace;
