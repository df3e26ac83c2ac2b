//! canvas JSON → plan → run → **components** → events → API
//!
//! What a canvas can do. One component is one file, and [`catalog`] is the one list.

pub mod catalog;
mod control;
mod data;
pub mod examples;
mod ingestion;
mod model;
mod output;
mod tools;

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
