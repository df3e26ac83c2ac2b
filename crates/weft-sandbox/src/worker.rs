//! The inner side of a process: reads one program, runs it, tells what became of it, and ends.
//!
//! ```text
//! standard input    one line of JSON, a Program; then it stays open as long as the result is wanted
//! standard output   JSON, a Ran
//! exit code         0, or LATE, or REFUSED
//! ```

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use weft_core::seam::sandbox::{Program, Ran};

use crate::confine::confine;
use crate::quick;

/// The program went on after its time was up and could not be interrupted.
pub const LATE: u8 = 64;
/// The request makes no sense, or the worker cannot be confined.
pub const REFUSED: u8 = 65;
/// Nobody wants the result any more.
const UNWANTED: u8 = 66;
/// How much later than its limit a program ends that cannot be interrupted.
const GRACE: Duration = Duration::from_millis(250);

/// Runs the program on standard input and writes what became of it to standard output. This is all
/// that a worker does; it must be called before anything else has started a thread or opened a file.
pub fn work() -> ExitCode {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let Some(program) = read.ok().and_then(|_| serde_json::from_str::<Program>(&line).ok()) else {
        return ExitCode::from(REFUSED);
    };
    let late = program.limits.time.saturating_add(GRACE);
    let started = ended_when(LATE, move || thread::sleep(late))
        .and_then(|()| ended_when(UNWANTED, wait_for_the_end_of_input))
        .and_then(|()| quick::on_its_thread(move || confine(program.limits).map(|()| run(&program))));
    match started {
        Ok(Ok(ran)) if tell(&ran).is_ok() => ExitCode::SUCCESS,
        _ => ExitCode::from(REFUSED),
    }
}

fn run(program: &Program) -> Ran {
    // Whoever wants it to stop ends the process.
    quick::execute(program, &Arc::new(AtomicBool::new(false)))
}

/// Ends the process as soon as `wait` returns, whatever else it does.
fn ended_when(code: u8, wait: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let watch = move || {
        wait();
        std::process::exit(i32::from(code));
    };
    thread::Builder::new().spawn(watch).map(drop)
}

fn wait_for_the_end_of_input() {
    let mut rest = [0; 64];
    while std::io::stdin().lock().read(&mut rest).is_ok_and(|count| count > 0) {}
}

fn tell(ran: &Ran) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, ran)?;
    out.flush()
}
