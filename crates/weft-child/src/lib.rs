//! canvas JSON → plan → run → components → events → API: **work in a process of its own**
//!
//! Untrusted input (programs of canvases, files of people) is processed where it can do no harm: in a process that
//! inherits nothing, may do nothing but compute, and is ended when its limits are reached. [`Worker`] is the outer
//! side, and [`confined`] is the inner one. The protocol between the two is up to their users: bytes in, bytes out.
//! For many small units of work, a [`ForkServer`] keeps a worker ready that forks for each of them.
//!
//! ```text
//! standard input    the work to do; then it stays open as long as the result is wanted
//! standard output   the result
//! exit code         0, or LATE, or REFUSED, or UNCONFINED with the reason on standard output
//! ```

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod boundary;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod fork_server;
mod inner;
mod outer;
pub mod place;
mod program;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod warm;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use fork_server::{is_fork_server, serve};
pub use inner::{Bounds, Confinement, LATE, REFUSED, UNCONFINED, confined, confined_with};
pub use outer::{AskLimits, Duty, ProgramEnd, Worker, WorkerEnd};
pub use program::{become_bounded_program, become_program, become_threaded_program, filter_for_programs};
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use warm::{ForkParent, ForkServer};
