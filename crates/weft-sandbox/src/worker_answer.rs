//! The outcome of an order to a worker, as it is written to standard output.

use std::io::Write as _;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use weft_core::seam::sandbox::Ran;

/// The outcome of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SandboxAnswer {
    /// The program was run.
    Ran(Ran),
    /// The program was not run: the interpreter has to be prepared first.
    Unprepared,
    /// The interpreter has been prepared.
    Prepared,
    /// The component has been compiled; its machine code follows this line.
    Compiled,
    /// The interpreter or the component cannot be prepared or set up, for this reason.
    Unable(String),
}

/// Writes the outcome of an order.
///
/// # Errors
/// When the reader is gone.
pub(crate) fn tell(told: &SandboxAnswer) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, told)?;
    out.flush()
}

/// Writes the outcome and exits. If that fails, the error cannot be reported to anyone.
pub(crate) fn say(told: &SandboxAnswer) -> ExitCode {
    drop(tell(told));
    ExitCode::SUCCESS
}
