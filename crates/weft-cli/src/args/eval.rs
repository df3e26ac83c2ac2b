//! The flags of `weft eval`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Flags of `weft eval`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Exit codes: 0 all passed, 1 some failed, 2 a file is not valid.")]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub command: Option<EvalCommand>,
    /// Evals; of a folder, every eval.yaml and *.eval.yaml in it
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// Only cases whose file and name have this in them
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Ask models, tools and services as they are, not the recording
    #[arg(long)]
    pub live: bool,
    /// Write what they answered into the files
    #[arg(long, requires = "live")]
    pub update: bool,
    /// Use this model for everything
    #[arg(long, value_name = "NAME", requires = "live")]
    pub model: Option<String>,
    /// Let a call fail that asks something else than was recorded
    #[arg(long)]
    pub strict: bool,
    /// This many cases at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Write the report for a server for continuous integration
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the report as one page of HTML
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What else to do with evals.
#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Write a new eval: of questions that are asked now, or of a run of the past
    Record(EvalRecordArgs),
}

/// Flags of `weft eval record`.
#[derive(Debug, Args)]
pub(crate) struct EvalRecordArgs {
    /// The canvas; not needed for a run whose canvas is still where it was
    #[arg(value_name = "CANVAS", required_unless_present = "run")]
    pub canvas: Option<PathBuf>,
    /// A question; repeatable, for a conversation
    #[arg(long = "query", value_name = "TEXT", conflicts_with = "run")]
    pub queries: Vec<String>,
    /// A form value of the first turn, read as JSON if it is JSON and as text otherwise; repeatable
    #[arg(long = "input", value_name = "KEY=VALUE", conflicts_with = "run")]
    pub inputs: Vec<String>,
    /// Record this run, and the turns of its session before it
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Write it although there is one
    #[arg(long)]
    pub force: bool,
    /// Use this model for everything
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub model: Option<String>,
}
