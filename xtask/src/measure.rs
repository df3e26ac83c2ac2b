//! Runs the workloads of docs/performance.md. The measurements, and the lower bounds that they are compared with, are
//! an example of weft-testkit; this command builds it and the program in a profile that gives meaningful figures.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::metadata;

/// A profile in the root manifest that is optimized but still quick to rebuild.
const PROFILE: &str = "measure";

/// Builds the program and measures the workloads with these names; all of them if no name is given.
pub(crate) fn run(root: &Path, workloads: &[String]) -> Result<ExitCode> {
    let built = metadata::target_directory(root)?.join(PROFILE);
    cargo(&["build", "--profile", PROFILE, "-p", "weft-cli", "--bin", "weft"])?;
    cargo(&["build", "--profile", PROFILE, "-p", "weft-testkit", "--example", "measure"])?;
    let mut measure = Command::new(built.join("examples").join("measure"));
    let status = measure.arg(built.join("weft")).args(workloads).status();
    let status = status.context("cannot start what measures")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let status = metadata::cargo().args(arguments).status().context("cannot start cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}
