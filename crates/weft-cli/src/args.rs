//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Runs agent canvases: checks them, runs them, serves them.
#[derive(Debug, Parser)]
#[command(name = "weft", version, about, max_term_width = 100, propagate_version = true)]
#[command(after_help = "Answers and other data go to standard output, everything else to standard error.\n\
    Exit codes: 0 success, 1 the run failed, 2 wrong usage or an invalid canvas, 3 the run waits for a person.")]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// Read settings from this file instead of ./weft.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Keep canvases, sessions and runs in this folder
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask the sample canvas, which answers from sample documents with citations
    Demo(DemoArgs),
    /// Check canvases and say everything that is wrong with them
    Check(CheckArgs),
    /// Run a canvas once and print the answer
    Run(RunArgs),
    /// Talk to a canvas in the terminal
    Chat(ChatArgs),
    /// Look at what has run
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },
    /// Show what runs have used, by canvas and day
    Spending(SpendingArgs),
    /// Run recorded runs as tests, with nothing outside
    Eval(EvalArgs),
    /// Look at what runs ask of people, and answer
    Tasks(TasksArgs),
    /// Look at the servers of tools and accept what they offer
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// Let canvases run by themselves at certain times
    Schedule {
        #[command(subcommand)]
        command: ScheduleCommand,
    },
    /// Serve the HTTP API
    Serve(ServeArgs),
    /// Start the runs that schedules ask for, and nothing else
    Worker(WorkerArgs),
}

/// Flags of `weft demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// What to ask; without it three sample questions are asked
    pub question: Option<String>,
    /// Use this model for everything
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// Flags of `weft check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The canvases
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print the findings as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The canvas
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The question
    #[arg(long, value_name = "TEXT")]
    pub query: Option<String>,
    /// A form value, read as JSON if it is JSON and as text otherwise; repeatable
    #[arg(long = "input", value_name = "KEY=VALUE")]
    pub inputs: Vec<String>,
    /// Begin this session, or go on with it
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Do not run this node; it gives this JSON object, or what it gave in a run; repeatable
    #[arg(long = "pin", value_name = "NODE=JSON|NODE@RUN")]
    pub pins: Vec<String>,
    /// Use this model for everything
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Print every event as a line of JSON instead of the answer
    #[arg(long)]
    pub events: bool,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
}

/// Flags that turn `weft run` into a measurement.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub struct MeasuringArgs {
    /// Run this often, each time in a new session, and print times instead of the answer
    #[arg(long, value_name = "N", requires = "bench_json", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub repeat: Option<u32>,
    /// Run this often before the clock starts
    #[arg(long, value_name = "N", requires = "bench_json")]
    pub warmup: Option<u32>,
    /// This many runs at the same time
    #[arg(long, value_name = "N", requires = "bench_json", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub concurrency: Option<u32>,
    /// Ask the OpenAI-compatible server at this address for every model
    #[arg(long, value_name = "URL")]
    pub llm_base_url: Option<String>,
    /// Print the times as one JSON object
    #[arg(long, conflicts_with_all = ["events", "session"])]
    pub bench_json: bool,
    /// Keep a journal in a SQLite file while measuring
    #[arg(long, requires = "bench_json")]
    pub with_journal: bool,
}

/// Flags of `weft chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// The canvas
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Begin this session, or go on with it
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Use this model for everything
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// Flags of `weft eval`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Exit codes: 0 all passed, 1 some failed, 2 a file is not valid.")]
pub struct EvalArgs {
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
pub enum EvalCommand {
    /// Write a new eval: of questions that are asked now, or of a run of the past
    Record(EvalRecordArgs),
}

/// Flags of `weft eval record`.
#[derive(Debug, Args)]
pub struct EvalRecordArgs {
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

/// What to do with runs.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List runs, newest first
    List(RunsListArgs),
    /// Print the journal of a run
    Show(RunsShowArgs),
    /// Go on with runs that were cut off by the end of their process
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
pub struct RunsReplayArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print no events, only where the run is no longer the same
    #[arg(long)]
    pub quiet: bool,
}

/// Flags of `weft runs fork`.
#[derive(Debug, Args)]
pub struct RunsForkArgs {
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
    /// Print every event as a line of JSON instead of the answer
    #[arg(long)]
    pub events: bool,
}

/// Flags of `weft runs diff`.
#[derive(Debug, Args)]
pub struct RunsDiffArgs {
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
}

/// Flags of `weft runs resume`.
#[derive(Debug, Args)]
pub struct RunsResumeArgs {
    /// The run
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub id: Option<String>,
    /// Every run that was cut off
    #[arg(long)]
    pub all: bool,
}

/// Flags of `weft runs prune`.
#[derive(Debug, Args)]
pub struct RunsPruneArgs {
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
pub struct RunsListArgs {
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub limit: u64,
    /// Print a line of JSON for each run
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft runs show`.
#[derive(Debug, Args)]
pub struct RunsShowArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print a line of JSON for each record
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft spending`.
#[derive(Debug, Args)]
pub struct SpendingArgs {
    /// The last days, today included
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub days: u32,
    /// Print a line of JSON for each canvas and day
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft tasks`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TasksArgs {
    #[command(subcommand)]
    pub command: Option<TasksCommand>,
    #[command(flatten)]
    pub list: TasksListArgs,
}

/// What to do with tasks.
#[derive(Debug, Subcommand)]
pub enum TasksCommand {
    /// List tasks, oldest first; those that are open unless --status says otherwise
    List(TasksListArgs),
    /// Print what a task asks
    Show(TasksShowArgs),
    /// Answer a task and go on with its run
    Answer(TasksAnswerArgs),
}

/// Flags of `weft tasks list`.
#[derive(Debug, Args)]
pub struct TasksListArgs {
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Only those of this canvas
    #[arg(long, value_name = "ID")]
    pub canvas: Option<String>,
    /// Only those of this kind: form, tool_approval, plan_review or credential
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Those with this status: open, answered, timed_out, dropped or all
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub limit: u64,
    /// Print a line of JSON for each task
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft tasks show`.
#[derive(Debug, Args)]
pub struct TasksShowArgs {
    /// The task
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft tasks answer`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("decision").required(true).args(["inputs", "approve", "deny", "edit", "retry", "give_up"]))]
pub struct TasksAnswerArgs {
    /// The task
    #[arg(value_name = "ID")]
    pub id: String,
    /// A value for a field of the form, read as JSON if it is JSON and as text otherwise; repeatable
    #[arg(long = "input", value_name = "KEY=VALUE")]
    pub inputs: Vec<String>,
    /// Let the call be made, or the plan be carried out
    #[arg(long)]
    pub approve: bool,
    /// Do not
    #[arg(long)]
    pub deny: bool,
    /// Why not
    #[arg(long, value_name = "WHY", requires = "deny")]
    pub because: Option<String>,
    /// Let the call be made with this JSON object as its arguments, or the plan be this text
    #[arg(long, value_name = "JSON|TEXT")]
    pub edit: Option<String>,
    /// The key has been put right: try again
    #[arg(long)]
    pub retry: bool,
    /// Go on without it
    #[arg(long)]
    pub give_up: bool,
    /// Use this model for everything
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Print every event as a line of JSON instead of the answer
    #[arg(long)]
    pub events: bool,
}

/// What to do with the servers of tools.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Connect to the servers and show their tools, with those that are new, changed or refused
    List(McpListArgs),
    /// Accept the definitions of a server's tools as they are now
    Accept(McpAcceptArgs),
}

/// Flags of `weft mcp list`.
#[derive(Debug, Args)]
pub struct McpListArgs {
    /// Only this server
    #[arg(value_name = "SERVER")]
    pub server: Option<String>,
    /// Print a line of JSON for each tool
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft mcp accept`.
#[derive(Debug, Args)]
pub struct McpAcceptArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub server: String,
    /// The tools, by the server's own names; without any, all that are new or changed
    #[arg(value_name = "TOOL")]
    pub tools: Vec<String>,
}

/// What to do with schedules.
#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
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
pub struct ScheduleAddArgs {
    /// The file of the canvas, or the id of an agent that is stored
    #[arg(value_name = "CANVAS")]
    pub canvas: String,
    /// Fire at these times: minute, hour, day of month, month and day of week; seconds may stand first
    #[arg(long, value_name = "EXPRESSION", required_unless_present = "every", conflicts_with = "every")]
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
pub enum MisfireArg {
    /// Nothing
    Skip,
    /// One run makes up for all of them
    Once,
    /// The last ones are made up for, each
    All,
}

/// Flags of `weft schedule list`.
#[derive(Debug, Args)]
pub struct ScheduleListArgs {
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
pub struct ScheduleShowArgs {
    /// The schedule
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print it as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// A schedule.
#[derive(Debug, Args)]
pub struct ScheduleIdArgs {
    /// The schedule
    #[arg(value_name = "ID")]
    pub id: String,
}

/// Flags of `weft worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Store the canvas in FILE as the agent ID, and search the documents beside it; repeatable
    #[arg(long = "agent", value_name = "ID=FILE")]
    pub agents: Vec<std::ffi::OsString>,
}

/// Flags of `weft serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where to listen; port 0 takes any free one
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Serve the canvas in FILE as the agent ID; repeatable
    #[arg(long = "agent", value_name = "ID=FILE")]
    pub agents: Vec<std::ffi::OsString>,
    /// Ask nobody for a token; only for addresses of this machine
    #[arg(long)]
    pub no_auth: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
