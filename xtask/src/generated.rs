//! Pages that are made from what the program declares. That they are up to date is a test of weft-cli.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::examples;

/// Each page, and what the program is asked for it.
const PAGES: [(&str, &[&str]); 5] = [
    ("docs/components.md", &["components", "--markdown"]),
    ("docs/canvas.schema.json", &["schema", "canvas"]),
    ("docs/api.md", &["schema", "api", "--markdown"]),
    ("docs/settings.md", &["settings", "--markdown"]),
    ("openapi.json", &["schema", "api"]),
];

/// Writes every page anew.
pub fn run(root: &Path) -> Result<ExitCode> {
    // The program shows them on its pages.
    std::fs::write(root.join(examples::FILE), examples::text(&examples::shown(root)?)?)
        .with_context(|| format!("cannot write {}", examples::FILE))?;
    for (page, arguments) in PAGES {
        let mut program = Command::new("cargo");
        program.args(["run", "-q", "-p", "weft-cli", "--"]).args(arguments);
        let output = program.output().context("cannot start cargo")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(root.join(page), output.stdout).with_context(|| format!("cannot write {page}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
