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
    /// Resume runs that were interrupted by the end of their process
    Resume(RunsResumeArgs),
    /// Stop a run that has not ended, also one that waits for a person or was interrupted
    Cancel(RunsCancelArgs),
    /// Remove old runs, of all tenants
    Prune(RunsPruneArgs),
    /// Replay a run from its journal, without outside services, and print its events
    Replay(RunsReplayArgs),
    /// Start a new run that shares the steps of another up to a node
    Fork(RunsForkArgs),
    /// Compare two runs node by node
    Diff(RunsDiffArgs),
}

/// Flags of `weft runs cancel`.
#[derive(Debug, Args)]
pub(crate) struct RunsCancelArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub id: String,
    #[command(flatten)]
    pub tenant: TenantArgs,
}

/// Flags of `weft runs replay`.
#[derive(Debug, Args)]
pub(crate) struct RunsReplayArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print no events, only where the replay differs
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
    /// The last node that both runs share
    #[arg(long, value_name = "NODE")]
    pub at: String,
    /// Activation of that node, as numbered by `weft runs show`; default: the last
    #[arg(long, value_name = "N")]
    pub activation: Option<u32>,
    /// Replace an output of the node, read as JSON if it is JSON and as text otherwise; repeatable
    #[arg(long, value_name = "OUTPUT=VALUE")]
    pub set: Vec<String>,
    /// Let a branching node continue with this node instead; repeatable
    #[arg(long, value_name = "NODE")]
    pub to: Vec<String>,
    /// Id of the new session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Use this model for everything; required again for runs started with --model, which is not stored
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
    /// Show what is equal as well
    #[arg(long)]
    pub all: bool,
    /// Print the comparison as one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub tenant: TenantArgs,
}

/// Flags of `weft runs resume`.
// In a group, so that the message about a missing id names --all as well.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["id", "all"]))]
pub(crate) struct RunsResumeArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Resume every interrupted run, of all tenants
    #[arg(long, conflicts_with = "tenant")]
    pub all: bool,
    /// Use this model for everything; required again for runs started with --model, which is not stored
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    #[command(flatten)]
    pub tenant: TenantArgs,
}

/// Flags of `weft runs prune`.
#[derive(Debug, Args)]
pub(crate) struct RunsPruneArgs {
    /// Runs that ended longer ago than this: 30d, 12h, 45m
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Number of newest runs to keep per session, at least 1
    #[arg(long, value_name = "N", value_parser = kept)]
    pub keep: Option<u64>,
    /// Only list the runs that would be removed
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

/// Reads the number of runs to keep. In the settings, 0 means that there is no limit; here it would remove all runs.
///
/// # Errors
/// What is wrong with it.
fn kept(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("it must be at least 1; --older-than 0s removes all runs that have ended".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("it must be a whole number".to_owned()),
    }
}

/// Flags of `weft runs list`.
#[derive(Debug, Args)]
pub(crate) struct RunsListArgs {
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Maximum number of entries
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
