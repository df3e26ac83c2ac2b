//! Tests that run over all samples and can be restricted to a part of them on the command line.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

/// The selected part: every Nth case, and only those of one canvas.
pub(crate) struct Sampled<'a> {
    every: &'a str,
    canvas: Option<&'a str>,
}

impl<'a> Sampled<'a> {
    /// Parses the arguments of a command.
    pub(crate) fn read(arguments: &'a [String]) -> Result<Self> {
        let mut sampled = Self { every: "1", canvas: None };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            let value = rest.next().with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--every" if value.parse::<u32>().is_ok_and(|every| every > 0) => sampled.every = value,
                "--every" => bail!("--every {value} is not a number from 1 on"),
                "--canvas" => sampled.canvas = Some(value.as_str()),
                other => bail!("there is no {other}: --every N and --canvas NAME"),
            }
        }
        Ok(sampled)
    }

    /// Runs a test and passes it the selection in environment variables with this prefix.
    pub(crate) fn start(&self, test: &mut Command, variables: &str) -> Result<ExitCode> {
        test.env(format!("{variables}_EVERY"), self.every);
        if let Some(canvas) = self.canvas {
            test.env(format!("{variables}_CANVAS"), canvas);
        }
        let status = test.status().context("cannot start cargo")?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
