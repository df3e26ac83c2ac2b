//! canvas JSON → plan → run → **components** → events → API
//!
//! The component types that a canvas can use. Each component has its own file; [`catalog`] lists them all.

pub mod catalog;
mod control;
mod data;
pub mod data_uri;
pub mod examples;
mod ingestion;
mod model;
mod output;
mod tools;

mod artifact;
mod jinja;
mod params;
mod passages;
mod text;
mod web;

#[cfg(test)]
mod reach;
#[cfg(test)]
mod recovery_tests;
#[cfg(test)]
mod testing;

pub use catalog::catalog;
