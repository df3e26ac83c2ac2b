//! The inner side of a process: reads one program, runs it, tells what became of it, and ends.
//!
//! ```text
//! standard input    one line of JSON, a Program; then it stays open as long as the result is wanted
//! standard output   JSON, a Ran
//! exit code         as weft-child says
//! ```

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weft_child::{REFUSED, confine, watched};
use weft_core::seam::sandbox::{Limits, Program, Ran};

use crate::quick;

/// Runs the program on standard input and writes what became of it to standard output. This is all
/// that a worker does; it must be called before anything else has started a thread or opened a file.
pub fn work() -> ExitCode {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let Some(program) = read.ok().and_then(|_| serde_json::from_str::<Program>(&line).ok()) else {
        return ExitCode::from(REFUSED);
    };
    let Limits { time, memory_bytes, .. } = program.limits;
    let started = watched(time)
        .and_then(|()| quick::on_its_thread(move || confine(time, memory_bytes).map(|()| run(&program))));
    match started {
        Ok(Ok(ran)) if tell(&ran).is_ok() => ExitCode::SUCCESS,
        _ => ExitCode::from(REFUSED),
    }
}

fn run(program: &Program) -> Ran {
    // Whoever wants it to stop ends the process.
    quick::execute(program, &Arc::new(AtomicBool::new(false)))
}

fn tell(ran: &Ran) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, ran)?;
    out.flush()
}
