//! The inner side of a process: reads one program, runs it, tells what became of it, and ends.
//!
//! ```text
//! standard input    one line of JSON, an Order; then it stays open as long as the result is wanted
//! standard output   JSON, a Ran
//! exit code         as weft-child says
//! ```

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use weft_child::{Bounds, Confinement, REFUSED, confined};
use weft_core::seam::sandbox::{Limits, Program, Ran};

use crate::quick;

/// What a worker is to run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The program.
    pub program: Program,
    /// What becomes of it where the worker cannot be confined.
    #[serde(default)]
    pub confinement: Confinement,
}

/// Runs the program on standard input and writes what became of it to standard output. This is all
/// that a worker does; it must be called before anything else has started a thread or opened a file.
pub fn work() -> ExitCode {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let Some(order) = read.ok().and_then(|_| serde_json::from_str::<Order>(&line).ok()) else {
        return ExitCode::from(REFUSED);
    };
    let Order { program, confinement } = order;
    let Limits { time, memory_bytes, .. } = program.limits;
    let bounds = Bounds { time, memory_bytes, stack_bytes: quick::THREAD_STACK, confinement };
    // Whoever wants it to stop ends the process.
    confined(bounds, move || tell(&quick::execute(&program, &Arc::new(AtomicBool::new(false)))))
}

fn tell(ran: &Ran) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, ran)?;
    out.flush()
}
