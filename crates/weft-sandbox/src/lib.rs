//! Runs programs of canvases and models where they can do no harm.
//!
//! [`ProcessSandbox`] gives every run a process of its own, which may do nothing but compute within its limits, and is
//! ended when they are reached. On Linux it is a fork of a parent that has prepared what programs need, has never run
//! anybody's program, and ends after a minute without work. Inside it [`work`] runs JavaScript in QuickJS, and Python
//! in CPython as a WebAssembly component; both have no access to files, the network or other modules. Both boundaries
//! are needed: the inner one keeps programs away from the machine, the outer one ends those that the inner one cannot
//! interrupt, such as `[].reverse.call({length: 2 ** 53 - 1})`, and limits the damage of a defect in the interpreter.
//!
//! Tools that are WebAssembly components run in the same way as the Python interpreter.
//!
//! `SystemPython` runs Python with the packages of the system, if the operator configures that.
//!
//! [`RemoteSandbox`] delegates all of it to a service that runs programs elsewhere.

mod component;
mod in_process;
mod parsed;
mod printed;
mod process;
mod python;
mod quick;
mod remote;
mod result;
#[cfg(target_os = "linux")]
mod system;
mod worker;
mod worker_answer;

pub use in_process::InProcess;
pub use parsed::fault;
pub use process::ProcessSandbox;
pub use remote::RemoteSandbox;
#[cfg(target_os = "linux")]
pub use system::{SystemInterpreter, SystemPython, WithPython};
pub use weft_child::{Confinement, Worker};
pub use worker::work;

use std::time::Duration;

use weft_core::seam::sandbox::Limits;

/// Default limits of a program.
pub const LIMITS: Limits = Limits {
    time: Duration::from_secs(10),
    memory_bytes: 64 << 20,
    output_bytes: 1 << 20,
    printed_bytes: 64 << 10,
};
/// Default number of programs that run concurrently.
pub const AT_ONCE: usize = 4;
