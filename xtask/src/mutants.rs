//! Every sample with a mistake in it, as many as a program makes. The mistakes themselves are a test of weft-engine, which
//! knows no command line.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

/// Starts the test that makes the mistakes.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let (mut every, mut canvas) = ("1", None);
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().with_context(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--every" if value.parse::<u32>().is_ok_and(|every| every > 0) => every = value,
            "--every" => bail!("--every {value} is not a number from 1 on"),
            "--canvas" => canvas = Some(value.as_str()),
            other => bail!("there is no {other}: --every N and --canvas NAME"),
        }
    }
    let mut test = Command::new("cargo");
    test.args(["test", "-q", "-p", "weft-engine", "--test", "it", "--"]);
    test.args(["--ignored", "--exact", "--nocapture", "mutants::all"]).env("WEFT_MUTANTS_EVERY", every);
    if let Some(canvas) = canvas {
        test.env("WEFT_MUTANTS_CANVAS", canvas);
    }
    let status = test.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
