//! The workloads of docs/performance.md. What is measured and beside which floors is an example of
//! weft-testkit; here both it and the program are built so that figures mean something.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::metadata;

/// The profile of the root manifest that is optimized and still quick to build again.
const PROFILE: &str = "measure";

/// Builds the program and measures the workloads that are named; all without a name.
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
