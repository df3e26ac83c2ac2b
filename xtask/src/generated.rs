//! Pages that are made from what the program declares. A test of weft-cli compares them with what the program prints,
//! and writes them when it is asked to: so nothing is built that the tests do not need anyway.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::examples;
use crate::metadata;

/// The test that compares the pages.
const TEST: &str = "components::the_pages_are_what_the_program_prints";

/// Writes every page anew.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    // The program shows them on its pages.
    std::fs::write(root.join(examples::FILE), examples::text(&examples::shown(root)?)?)
        .with_context(|| format!("cannot write {}", examples::FILE))?;
    let mut test = metadata::cargo();
    test.args(["test", "-q", "--workspace", "--test", "it", "--", "--exact", TEST])
        .env("WEFT_WRITE_PAGES", "1");
    let status = test.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
