//! The flags of `weft runs`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::TenantArgs;

/// What to do with runs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    List(RunsListArgs),
    /// Print the journal of a run
    Show(RunsShowArgs),
    /// Go on with interrupted runs by the end of their process
    Resume(RunsResumeArgs),
    /// Remove runs that need not be kept any longer
    Prune(RunsPruneArgs),
    /// Do a run again from its journal, with nothing outside, and print its events
    Replay(RunsReplayArgs),
    /// Begin a run that shares the beginning of another one up to a step
    Fork(RunsForkArgs),
    /// Compare two runs node by node
    Diff(RunsDiffArgs),
}

/// Flags of `weft runs replay`.
#[derive(Debug, Args)]
pub(crate) struct RunsReplayArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print no events, only where the run is no longer the same
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    pub tenant: TenantArgs,
}

/// Flags of `weft runs fork`.
#[derive(Debug, Args)]
pub(crate) struct RunsForkArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub id: String,
    /// The node whose end is the last thing that both runs share
    #[arg(long, value_name = "NODE")]
    pub at: String,
    /// Which of its activations, as `weft runs show` numbers them; the last without it
    #[arg(long, value_name = "N")]
    pub activation: Option<u32>,
    /// Let the node have given this output, read as JSON if it is JSON and as text otherwise; repeatable
    #[arg(long, value_name = "OUTPUT=VALUE")]
    pub set: Vec<String>,
    /// Let a node that branches go on here instead; repeatable
    #[arg(long, value_name = "NODE")]
    pub to: Vec<String>,
    /// The id of the session that comes into being
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Use this model for everything, as a run does that was begun with it: which one that was is kept nowhere
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Print every event as a line of JSON instead of the answer
    #[arg(long)]
    pub events: bool,
    #[command(flatten)]
    pub tenant: TenantArgs,
}

/// Flags of `weft runs diff`.
#[derive(Debug, Args)]
pub(crate) struct RunsDiffArgs {
    /// The first run
    #[arg(value_name = "ID")]
    pub first: String,
    /// The second run
    #[arg(value_name = "ID")]
    pub second: String,
    /// Show what is the same as well
    #[arg(long)]
    pub all: bool,
    /// Print the comparison as one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub tenant: TenantArgs,
}

/// Flags of `weft runs resume`.
#[derive(Debug, Args)]
pub(crate) struct RunsResumeArgs {
    /// The run
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub id: Option<String>,
    /// Every run that was cut off
    #[arg(long)]
    pub all: bool,
    /// Use this model for everything, as a run does that was begun with it: which one that was is kept nowhere
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    #[command(flatten)]
    pub tenant: TenantArgs,
}

/// Flags of `weft runs prune`.
#[derive(Debug, Args)]
pub(crate) struct RunsPruneArgs {
    /// Those that ended longer ago than this: 30d, 12h, 45m
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub older_than: Option<Duration>,
    /// All but so many of each session, the newest ones
    #[arg(long, value_name = "N")]
    pub keep: Option<u64>,
    /// Only say which
    #[arg(long)]
    pub dry_run: bool,
}

/// Reads a time such as `30d`.
///
/// # Errors
/// What is wrong with it.
fn age(text: &str) -> Result<Duration, String> {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let parse =
        |(unit, seconds): (&str, u64)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(seconds);
    let seconds = units.into_iter().find_map(parse);
    seconds.map(Duration::from_secs).ok_or_else(|| "write a number and d, h, m or s, such as 30d".to_owned())
}

/// Flags of `weft runs list`.
#[derive(Debug, Args)]
pub(crate) struct RunsListArgs {
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub limit: u64,
    /// Print a line of JSON for each run
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub tenant: TenantArgs,
}

/// Flags of `weft runs show`.
#[derive(Debug, Args)]
pub(crate) struct RunsShowArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print a line of JSON for each record
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub tenant: TenantArgs,
}
