//! Writes the documentation pages that are generated from the program's declarations. A test of weft-cli compares them
//! with the program's output, and can also write them, so nothing has to be built in addition to the tests.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::examples;
use crate::metadata;

/// The test that compares the pages.
const TEST: &str = "components::the_pages_match_the_output_of_the_program";

/// Writes all generated pages.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    // The examples are shown on the program's own pages.
    std::fs::write(root.join(examples::FILE), examples::text(&examples::shown(root)?)?)
        .with_context(|| format!("cannot write {}", examples::FILE))?;
    let mut test = metadata::cargo();
    test.args(["test", "-q", "--workspace", "--test", "it", "--", "--exact", TEST])
        .env("WEFT_WRITE_PAGES", "1");
    let status = test.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
