//! The flags of `weft schedule`.

use clap::{Args, Subcommand, ValueEnum};
use weft_app::schedule::MADE_UP_MAX;

use super::free_text::free_text;

/// What to do with schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Create a schedule and print its id
    Add(ScheduleAddArgs),
    /// List the schedules
    List(ScheduleListArgs),
    /// Show a schedule, its next time and its past runs
    Show(ScheduleShowArgs),
    /// Remove a schedule and its queued runs; past runs are kept
    Remove(ScheduleIdArgs),
    /// Enable a schedule
    Enable(ScheduleIdArgs),
    /// Disable a schedule
    Disable(ScheduleIdArgs),
    /// Queue one run now and print its id
    Run(ScheduleIdArgs),
}

/// Flags of `weft schedule add`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("time").required(true).args(["cron", "every"]))]
pub(crate) struct ScheduleAddArgs {
    /// File of a canvas, or id of a stored agent
    #[arg(value_name = "CANVAS")]
    pub canvas: String,
    /// Cron expression: minute, hour, day of month, month, day of week; optionally preceded by seconds
    #[arg(long, value_name = "EXPRESSION")]
    pub cron: Option<String>,
    /// Time zone of --cron, such as Europe/Berlin; default: UTC
    #[arg(long, value_name = "NAME", conflicts_with = "every")]
    pub zone: Option<String>,
    /// Interval between runs, such as 90s, 15m, 2h or 1d
    #[arg(long, value_name = "TIME")]
    pub every: Option<String>,
    /// The question
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = free_text)]
    pub query: Option<String>,
    /// A form value: as typed for a field of text, else read as JSON if it is JSON; repeatable
    #[arg(long = "input", value_name = "KEY=VALUE")]
    pub inputs: Vec<String>,
    /// Continue this session in every run; default: a new session for each
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// What to do about times missed while no process was running
    #[arg(long, value_enum, default_value_t = MisfireArg::Once)]
    pub misfire: MisfireArg,
    /// With --misfire all: maximum number of missed runs to make up for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MADE_UP_MAX)))]
    pub misfire_max: Option<u32>,
    /// Name to show in lists
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Create it disabled
    #[arg(long)]
    pub disabled: bool,
}

/// What happens to missed times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MisfireArg {
    /// Nothing
    Skip,
    /// One run for all missed times
    Once,
    /// One run for each of the last missed times
    All,
}

/// Flags of `weft schedule list`.
#[derive(Debug, Args)]
pub(crate) struct ScheduleListArgs {
    /// Only those of this agent
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub limit: u64,
    /// Print a line of JSON for each schedule
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft schedule show`.
#[derive(Debug, Args)]
pub(crate) struct ScheduleShowArgs {
    /// The schedule
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print it as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// A schedule.
#[derive(Debug, Args)]
pub(crate) struct ScheduleIdArgs {
    /// The schedule
    #[arg(value_name = "ID")]
    pub id: String,
}
