//! canvas JSON → plan → run → components → **agents** → events → API
//!
//! Question → model turns and tool calls → answer. A [`driver::Driver`] works on a [`driver::Job`]:
//! it decides in pure code ([`turns`], [`planner`]) and acts through [`ask`] and [`calls`].

pub mod arguments;
pub mod ask;
pub mod calls;
pub mod driver;
pub mod loop_guard;
pub mod marks;
pub mod native;
pub mod planner;
pub mod structured;
pub mod toolkit;
pub mod trace;
pub mod transcript;
pub mod turns;
pub mod voice;
pub mod window;

pub use driver::{Answer, Driver, End, Job, Options, Start};
pub use toolkit::Toolkit;
