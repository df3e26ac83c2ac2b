#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(missing_docs, reason = "tests")]

mod components;
mod contracts;
mod hostile;
mod hostile_python;
mod hostile_service;
mod kit;
mod packages;
mod parsed;
mod process;
mod python;
mod remote;
mod system;
mod values;
