//! Checks of the repository as a whole.
//!
//! `cargo xtask layers`, `sizes`, `forgotten`, `unused`, `rebuilt`, or `check` for all five. Each prints what it has checked;
//! problems are reported with their locations, and the exit code is then 1.

#![expect(clippy::print_stdout, reason = "a command for people at a terminal")]

mod examples;
mod features;
mod findings;
mod forgotten;
mod generated;
mod kills;
mod layers;
mod measure;
mod metadata;
mod mutants;
mod rebuilt;
mod sampled;
mod simulate;
mod sizes;
mod source;
mod unused;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::findings::Findings;

const USAGE: &str = "\
usage: cargo xtask <command>

  layers      which crate may use which, and who may open a connection
  sizes       lengths of files, conditional code, number of packages
  forgotten   components, sample canvases and the feature list agree
  unused      dependencies that no source of their crate mentions
  rebuilt     packages that the program and the workspace need with different features
  check       all of them

  simulate    random histories of runs in trouble: --runs N (100000), --seed S (the first);
              with --seed alone this one only, told in full
  mutants     every sample with a mistake in it, all that a program makes: named by `check`, or the
              same: --every N (1), --canvas NAME (all)
  kills       the program ended by SIGKILL at every entry of every journal and started again:
              --every N (1), --canvas NAME (all)
  generated   writes the pages anew that are made from what the program declares
  measure     what the workloads of docs/performance.md cost beside their floors: w1 … w10 (all)";

type Check = fn(&Path) -> Result<Findings>;

/// All checks, by name.
const CHECKS: [(&str, Check); 5] = [
    ("layers", layers::check),
    ("sizes", sizes::check),
    ("forgotten", forgotten::check),
    ("unused", unused::check),
    ("rebuilt", rebuilt::check),
];

fn main() -> Result<ExitCode> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let rest: Vec<String> = std::env::args().skip(2).collect();
    if wanted == "simulate" {
        return simulate::run(&rest);
    }
    if wanted == "mutants" {
        return mutants::run(&rest);
    }
    if wanted == "kills" {
        return kills::run(&rest);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    if wanted == "generated" {
        return generated::run(root);
    }
    if wanted == "measure" {
        return measure::run(root, &rest);
    }
    let chosen: Vec<_> =
        CHECKS.into_iter().filter(|(name, _)| wanted == "check" || wanted == *name).collect();
    if chosen.is_empty() {
        println!("{USAGE}");
        return Ok(ExitCode::from(2));
    }
    let mut problems = 0;
    for (name, check) in chosen {
        let findings = check(root)?;
        problems += findings.problems.len();
        println!("{name}");
        print!("{findings}");
    }
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
