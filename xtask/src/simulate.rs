//! Random histories of runs with faults, as many as requested. The simulation is a test of weft-engine, which has no
//! command line.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::metadata;

/// Default number of runs.
const RUNS: &str = "100000";

/// Runs the test with the simulation.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (mut runs, mut seed) = (None, None);
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().with_context(|| format!("{name} needs a number"))?;
        value.parse::<u64>().with_context(|| format!("{name} {value} is not a number"))?;
        match name.as_str() {
            "--runs" => runs = Some(value.as_str()),
            "--seed" => seed = Some(value.as_str()),
            other => bail!("there is no {other}: --runs N and --seed S"),
        }
    }
    let mut test = metadata::cargo();
    test.args(["test", "-q", "-p", "weft-engine", "--test", "it", "--"]);
    test.args(["--ignored", "--exact", "--nocapture", "simulation::many"]);
    if let Some(runs) = runs.or(seed.is_none().then_some(RUNS)) {
        test.env("WEFT_SIMULATE_RUNS", runs);
    }
    if let Some(seed) = seed {
        test.env("WEFT_SIMULATE_SEED", seed);
    }
    let status = test.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
