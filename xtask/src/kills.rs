//! Kills and restarts the program as often as requested. The harness is a test of weft-cli, which must be built with
//! fault points.

use std::process::ExitCode;

use anyhow::Result;

use crate::metadata;
use crate::sampled::Sampled;

/// Starts the harness.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut test = metadata::cargo();
    test.args(["test", "-q", "-p", "weft-cli", "--features", "fault-points", "--test", "kills", "--"]);
    test.arg("--nocapture");
    Sampled::read(arguments)?.start(&mut test, "WEFT_KILLS")
}
