//! The flags of `weft schedule`.

use clap::{Args, Subcommand, ValueEnum};

/// What to do with schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Make a schedule and print its id
    Add(ScheduleAddArgs),
    /// List the schedules
    List(ScheduleListArgs),
    /// Show a schedule, when it fires next and what it has run
    Show(ScheduleShowArgs),
    /// Remove a schedule; its runs stay
    Remove(ScheduleIdArgs),
    /// Let a schedule fire from now on
    Enable(ScheduleIdArgs),
    /// Let a schedule fire no more
    Disable(ScheduleIdArgs),
    /// Ask for one run now and print its id
    Run(ScheduleIdArgs),
}

/// Flags of `weft schedule add`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("time").required(true).args(["cron", "every"]))]
pub(crate) struct ScheduleAddArgs {
    /// The file of the canvas, or the id of an agent that is stored
    #[arg(value_name = "CANVAS")]
    pub canvas: String,
    /// Fire at these times: minute, hour, day of month, month and day of week; seconds may stand first
    #[arg(long, value_name = "EXPRESSION")]
    pub cron: Option<String>,
    /// The time zone of --cron, such as Europe/Berlin; UTC without it
    #[arg(long, value_name = "NAME", requires = "cron")]
    pub zone: Option<String>,
    /// Fire again and again after this time, such as 90s, 15m, 2h or 1d
    #[arg(long, value_name = "TIME")]
    pub every: Option<String>,
    /// The question
    #[arg(long, value_name = "TEXT")]
    pub query: Option<String>,
    /// A form value, read as JSON if it is JSON and as text otherwise; repeatable
    #[arg(long = "input", value_name = "KEY=VALUE")]
    pub inputs: Vec<String>,
    /// Let all runs go on with this session; each has a new one without it
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// What happens to times that pass while nobody is there to start the run
    #[arg(long, value_enum, default_value_t = MisfireArg::Once)]
    pub misfire: MisfireArg,
    /// With --misfire all: make up for so many at most
    #[arg(long, value_name = "N")]
    pub misfire_max: Option<u32>,
    /// What it is called in lists
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Make it without letting it fire
    #[arg(long)]
    pub disabled: bool,
}

/// What happens to missed times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MisfireArg {
    /// Nothing
    Skip,
    /// One run makes up for all of them
    Once,
    /// The last ones are made up for, each
    All,
}

/// Flags of `weft schedule list`.
#[derive(Debug, Args)]
pub(crate) struct ScheduleListArgs {
    /// Only those of this agent
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// At most this many
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
