//! canvas JSON → plan → **run** → components → events → API
//!
//! `machine` decides and never waits; [`drive`] waits and never decides; `journal` numbers each record,
//! stores it, and only then shows it to readers.

mod answers;
mod assign;
mod begin;
mod calls;
pub mod clock;
pub mod compare;
pub mod counts;
pub mod drive;
pub mod engine;
pub mod feed;
pub mod form;
mod frame;
mod history;
mod journal;
mod keys;
mod loops;
mod machine;
mod masked;
mod output_dedup;
mod pause;
mod perform;
mod pins;
mod ready;
pub mod recording;
mod recover;
pub mod replay;
mod retrying_store;
mod scope;
mod secrets;
pub mod session;
mod start_run;
mod stopped;
mod suspend;
mod tasks;
mod timeouts;
mod turn_calls;
mod values;
mod waiting_nodes;
mod watch;
mod weight;

pub use answers::check_inputs;
pub use engine::{Engine, EngineLimits, RunHandle, StartRun};
pub use feed::EntryReader;
pub use session::SessionState;
