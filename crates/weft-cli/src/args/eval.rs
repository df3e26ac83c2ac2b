//! The flags of `weft eval`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::free_text::free_text;

/// Flags of `weft eval`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Exit codes: 0 all passed, 1 some failed, 2 a file is not valid.")]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub command: Option<EvalCommand>,
    /// Eval files; for a folder, every eval.yaml and *.eval.yaml in it
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// Run only cases whose file or name contains this text
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Use real models, tools and services instead of the recording
    #[arg(long)]
    pub live: bool,
    /// Write their answers to the files as the new recording
    #[arg(long, requires = "live")]
    pub update: bool,
    /// Use this model for everything
    #[arg(long, value_name = "NAME", requires = "live")]
    pub model: Option<String>,
    /// Fail a call that differs from the recorded one
    #[arg(long, conflicts_with = "live")]
    pub strict: bool,
    /// Number of cases to run concurrently
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Write the report as JUnit XML for continuous integration
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the report as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What else to do with evals.
#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Write a new eval from new questions or a past run
    Record(EvalRecordArgs),
}

/// Flags of `weft eval record`.
#[derive(Debug, Args)]
pub(crate) struct EvalRecordArgs {
    /// The canvas; not needed for a run whose canvas is still where it was
    #[arg(value_name = "CANVAS", required_unless_present = "run")]
    pub canvas: Option<PathBuf>,
    /// A question; repeatable, for a conversation
    #[arg(long = "query", value_name = "TEXT", conflicts_with = "run", allow_hyphen_values = true, value_parser = free_text)]
    pub queries: Vec<String>,
    /// A form value of the first turn: as typed for a field of text, else read as JSON if it is JSON; repeatable
    #[arg(long = "input", value_name = "KEY=VALUE", conflicts_with = "run")]
    pub inputs: Vec<String>,
    /// Record this run, and the turns of its session before it
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// Use this model for everything
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub model: Option<String>,
}
