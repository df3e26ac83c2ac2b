//! canvas JSON → plan → **run** → components → events → API
//!
//! [`machine`] decides and never waits; [`drive`] waits and never decides; [`journal`] numbers what
//! happened, stores it and then shows it.

pub mod clock;
pub mod drive;
pub mod engine;
pub mod feed;
pub mod form;
pub mod frame;
pub mod journal;
mod loops;
pub mod machine;
mod parked;
pub mod pause;
mod perform;
mod ready;
pub mod scope;
pub mod session;
mod values;

pub use engine::{Engine, EngineLimits, RunHandle, StartRun};
pub use feed::EntryReader;
pub use session::SessionState;
