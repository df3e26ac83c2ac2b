//! The program as users run it: its output on stdout and stderr, and its exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]

mod bad_input;
mod chat;
mod check;
mod components;
mod datasets;
mod demo;
mod eval;
mod mcp;
mod mcp_serving;
mod measure;
mod mistakes;
mod models;
mod operator;
mod past_runs;
mod plugins;
mod run;
mod runs;
mod schedule;
mod secrets;
mod serve;
mod settings;
mod sign_in;
mod tasks;
mod templates;
mod terminal;
mod tools;
mod trust;
mod users;
mod wait;
mod weft;
mod workload;
