//! canvas JSON → **plan** → run → components → events → API

pub mod graph;
pub mod link;
pub mod plan;

pub use plan::Plan;
