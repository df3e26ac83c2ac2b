#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(missing_docs, reason = "tests")]

mod build;
mod choosing;
mod documents;
mod encrypted;
mod formats;
mod hostile;
mod multiplied;
mod office;
mod pages;
mod pictures;
mod process;
mod rich_text;
mod ruled_tables;
mod scans;
#[cfg(target_os = "linux")]
mod transcription;
