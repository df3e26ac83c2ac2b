//! canvas JSON → plan → run → components → events → API: **work in a process of its own**
//!
//! What others have made (programs of canvases, files of people) is worked on where it can do no harm: in a
//! process that inherits nothing, has nothing but its limits, and is ended when they are reached.
//! [`Worker`] is the outer side, and [`watched`] and [`confine`] are the inner one. What is said between the two
//! is the business of those who use them: bytes in, bytes out.
//!
//! ```text
//! standard input    what is to be done; then it stays open as long as the result is wanted
//! standard output   what became of it
//! exit code         0, or LATE, or REFUSED
//! ```

mod inner;
mod outer;

pub use inner::{LATE, REFUSED, confine, watched};
pub use outer::{Duty, Ended, Worker};
