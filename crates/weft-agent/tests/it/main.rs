//! The agent loop against scripted models and tools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(missing_docs, reason = "tests")]

mod adversarial;
mod again;
mod approval;
mod definitions;
mod endings;
mod images;
mod kit;
mod layers;
mod native;
mod planner;
mod toolkit;
mod wires;
