//! Every sample with a mistake in it, as many as a program makes. The mistakes themselves are a test of weft-engine, which
//! knows no command line.

use std::process::ExitCode;

use anyhow::Result;

use crate::metadata;
use crate::sampled::Sampled;

/// Starts the test that makes the mistakes.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut test = metadata::cargo();
    test.args(["test", "-q", "-p", "weft-engine", "--test", "it", "--"]);
    test.args(["--ignored", "--exact", "--nocapture", "mutants::all"]);
    Sampled::read(arguments)?.start(&mut test, "WEFT_MUTANTS")
}
