//! The program killed and started again, as often as is asked for. The harness itself is a test of weft-cli,
//! which needs a build with fault points.

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
