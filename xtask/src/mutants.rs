//! Runs every sample with each mistake that a program can generate. The mutations are a test of weft-engine, which has
//! no command line.

use std::process::ExitCode;

use anyhow::Result;

use crate::metadata;
use crate::sampled::Sampled;

/// Runs the test with the mutations.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut test = metadata::cargo();
    test.args(["test", "-q", "-p", "weft-engine", "--test", "it", "--"]);
    test.args(["--ignored", "--exact", "--nocapture", "mutants::all"]);
    Sampled::read(arguments)?.start(&mut test, "WEFT_MUTANTS")
}
