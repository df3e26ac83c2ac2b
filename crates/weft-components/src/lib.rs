//! canvas JSON → plan → run → **components** → events → API
//!
//! What a canvas can do. One component is one file, and [`catalog`] is the one list.

pub mod catalog;
pub mod control;
pub mod data;
pub mod examples;
pub mod ingestion;
pub mod model;
pub mod output;
pub mod tools;

mod artifact;
mod jinja;
mod params;
mod passages;
mod suggest;
mod text;
mod web;

#[cfg(test)]
mod reach;
#[cfg(test)]
mod recovery_tests;
#[cfg(test)]
mod testing;

pub use catalog::catalog;
