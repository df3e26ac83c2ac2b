//! The command line.

mod dataset;
mod eval;
mod models;
mod runs;
mod schedule;
mod secret;
mod tasks;
mod templates;
mod tenant;
mod token;
mod usage;
mod user;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use weft_app::config::listen_address;
use weft_app::spending::USAGE_DAYS_MAX;

pub(crate) use self::dataset::{
    DatasetAddArgs, DatasetChunksArgs, DatasetCommand, DatasetDocumentsArgs, DatasetEmbedArgs,
    DatasetIngestArgs, DatasetListArgs, DatasetMethodArgs, DatasetNameArgs, DatasetRemoveArgs,
    DatasetSearchArgs, DatasetShowArgs,
};
pub(crate) use self::eval::{EvalArgs, EvalCommand, EvalRecordArgs};
pub(crate) use self::models::{ModelsAddArgs, ModelsCommand, ModelsListArgs};
pub(crate) use self::runs::{
    RunsCommand, RunsDiffArgs, RunsForkArgs, RunsListArgs, RunsPruneArgs, RunsReplayArgs, RunsResumeArgs,
    RunsShowArgs,
};
pub(crate) use self::schedule::{
    MisfireArg, ScheduleAddArgs, ScheduleCommand, ScheduleListArgs, ScheduleShowArgs,
};
pub(crate) use self::secret::{SecretArgs, SecretCommand, SecretListArgs};
pub(crate) use self::tasks::{TasksAnswerArgs, TasksArgs, TasksCommand, TasksListArgs, TasksShowArgs};
pub(crate) use self::templates::{NewArgs, TemplatesArgs};
pub(crate) use self::tenant::{TenantArgs, TenantCommand, TenantListArgs, TenantRemoveArgs};
pub(crate) use self::token::{TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs};
pub(crate) use self::usage::UsageArgs;
pub(crate) use self::user::{
    AuditArgs, RoleArg, UserArgs, UserCommand, UserCreateArgs, UserInviteArgs, UserListArgs, UserRoleArgs,
};

/// Runs agent canvases: checks them, runs them, serves them.
#[derive(Debug, Parser)]
#[command(name = "weft", version, about, max_term_width = 100, propagate_version = true)]
#[command(after_help = "Answers and other data go to standard output, everything else to standard error.\n\
    Exit codes: 0 success, 1 the run failed, 2 wrong usage or an invalid canvas, 3 the run waits for a person.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Common {
    /// Read settings from this file instead of ./weft.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Keep canvases, sessions and runs in this folder
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask the sample canvas, which answers from sample documents with citations
    Demo(DemoArgs),
    /// Check canvases and say everything that is wrong with them
    Check(CheckArgs),
    /// Show what canvases can be made of: parameters and outputs of every component
    Components(ComponentsArgs),
    /// Print every setting with its default
    Settings(SettingsArgs),
    /// Print the JSON Schema of canvases, or the OpenAPI document of the HTTP API
    Schema(SchemaArgs),
    /// Run a canvas once and print the answer
    Run(RunArgs),
    /// Talk to a canvas in the terminal
    Chat(ChatArgs),
    /// Read documents into datasets and search them
    Dataset {
        #[command(flatten)]
        tenant: TenantArgs,
        #[command(subcommand)]
        command: DatasetCommand,
    },
    /// Look at what has run
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },
    /// Show what runs have used, by canvas and day
    Spending(SpendingArgs),
    /// Show what models were used for, by model, agent, node, user, session or day
    Usage(UsageArgs),
    /// Run recorded runs as tests, with nothing outside
    Eval(EvalArgs),
    /// Look at what runs ask of people, and answer
    Tasks(TasksArgs),
    /// Offer agents to an MCP client over standard input and output, or look at the servers of others
    Mcp(McpArgs),
    /// Show the tools of plugins
    Plugins(PluginsArgs),
    /// Let canvases run by themselves at certain times
    Schedule {
        #[command(flatten)]
        tenant: TenantArgs,
        #[command(subcommand)]
        command: ScheduleCommand,
    },
    /// Let ./weft.toml start programs, choose addresses and widen what is allowed
    Trust(TrustArgs),
    /// List the canvases to begin with
    Templates(TemplatesArgs),
    /// Make a folder with a canvas to begin with
    New(NewArgs),
    /// Put, list and remove the secrets that canvases name
    Secret {
        /// What to do
        #[command(subcommand)]
        command: SecretCommand,
    },
    /// Add and list models, also those that run in Weft's own process
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },
    /// Make, list and revoke the tokens of the HTTP API
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Make, change, list and remove the users who sign in
    User {
        /// What to do
        #[command(subcommand)]
        command: UserCommand,
    },
    /// List and remove tenants
    Tenant {
        /// What to do
        #[command(subcommand)]
        command: TenantCommand,
    },
    /// Show who changed what
    Audit(AuditArgs),
    /// Copy the store and all files into a new folder, also while a server runs
    Backup(BackupArgs),
    /// Serve the HTTP API
    Serve(ServeArgs),
    /// Start the runs that schedules ask for, and nothing else
    Worker(WorkerArgs),
}

/// Flags of `weft trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// Flags of `weft demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// What to ask; without it three sample questions are asked
    pub question: Option<String>,
    /// Use this model for everything
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// Flags of `weft check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The canvases
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print the findings as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Exit with 2 on warnings, too
    #[arg(long)]
    pub strict: bool,
}

/// Flags of `weft settings`.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// Print a page with tables instead of the file
    #[arg(long)]
    pub markdown: bool,
}

/// Flags of `weft schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Of what
    #[arg(value_enum, default_value = "canvas")]
    pub of: SchemaOf,
    /// Print a page for people instead; there is one of the API
    #[arg(long)]
    pub markdown: bool,
}

/// What there is a schema of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// Canvases: JSON Schema
    Canvas,
    /// The HTTP API: OpenAPI
    Api,
}

/// Flags of `weft run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The canvas
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The question
    #[arg(long, value_name = "TEXT")]
    pub query: Option<String>,
    /// A form value, read as JSON if it is JSON and as text otherwise; repeatable
    #[arg(long = "input", value_name = "KEY=VALUE")]
    pub inputs: Vec<String>,
    /// A file that comes with the question; repeatable
    #[arg(long = "file", value_name = "PATH")]
    pub attached: Vec<PathBuf>,
    /// Write the files that the run makes to this folder
    #[arg(long, value_name = "FOLDER")]
    pub save_files: Option<PathBuf>,
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
    /// Tell messages that are written at the same time at the same time, piece by piece
    #[arg(long, requires = "events")]
    pub parallel_messages: bool,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
}

/// Flags that turn `weft run` into a measurement.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub(crate) struct MeasuringArgs {
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
pub(crate) struct ChatArgs {
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

/// Flags of `weft components`.
#[derive(Debug, Args)]
pub(crate) struct ComponentsArgs {
    /// Show all of these components instead of a line for each
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Print JSON: name, summary, JSON Schema of the parameters, outputs
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print the reference page, docs/components.md
    #[arg(long)]
    pub markdown: bool,
}

/// Flags of `weft spending`.
#[derive(Debug, Args)]
pub(crate) struct SpendingArgs {
    /// The last days, today included
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=i64::from(USAGE_DAYS_MAX)))]
    pub days: u32,
    /// Print a line of JSON for each canvas and day
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub tenant: TenantArgs,
}

/// What to do with the servers of tools.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Connect to the servers and show their tools, with those that are new, changed or refused
    List(McpListArgs),
    /// Accept the definitions of a server's tools as they are now
    Accept(McpAcceptArgs),
    /// Sign in at a server that wants a person to allow what agents do there
    Login(McpLoginArgs),
    /// Forget what was allowed at a server
    Logout(McpLogoutArgs),
}

/// Flags of `weft mcp`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub serving: McpServeArgs,
    /// What to do; without it agents are offered
    #[command(subcommand)]
    pub command: Option<McpCommand>,
}

/// Flags of `weft mcp` alone.
#[derive(Debug, Args)]
pub(crate) struct McpServeArgs {
    /// Store and publish this canvas before; repeatable
    #[arg(long = "agent", value_name = "ID=FILE")]
    pub agents: Vec<std::ffi::OsString>,
}

/// Flags of `weft mcp list`.
#[derive(Debug, Args)]
pub(crate) struct McpListArgs {
    /// Only this server
    #[arg(value_name = "SERVER")]
    pub server: Option<String>,
    /// Print a line of JSON for each tool
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft plugins`.
#[derive(Debug, Args)]
pub(crate) struct PluginsArgs {
    /// Print a line of JSON for each tool
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft mcp accept`.
#[derive(Debug, Args)]
pub(crate) struct McpAcceptArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub server: String,
    /// The tools, by the server's own names; without any, all that are new or changed
    #[arg(value_name = "TOOL")]
    pub tools: Vec<String>,
}

/// Flags of `weft mcp login`.
#[derive(Debug, Args)]
pub(crate) struct McpLoginArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub server: String,
    /// What to allow, words with spaces between them; without it what the server asks for
    #[arg(long, value_name = "SCOPES")]
    pub scope: Option<String>,
    /// The port of this machine that the browser comes back to; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}

/// Flags of `weft mcp logout`.
#[derive(Debug, Args)]
pub(crate) struct McpLogoutArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub server: String,
}

/// Flags of `weft backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The folder to make; it becomes a data folder
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Store and publish the canvas in FILE as the agent ID, and search the documents beside it; repeatable
    #[arg(long = "agent", value_name = "ID=FILE")]
    pub agents: Vec<std::ffi::OsString>,
}

/// Flags of `weft serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes any free one
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Store and publish the canvas in FILE as the agent ID; repeatable
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
    use weft_core::seam::usage_store::UsageBy;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
        // What is forgotten cannot be told of, by either command.
        for command in ["usage", "spending"] {
            let read = |days: &str| Cli::try_parse_from(["weft", command, "--days", days]).is_ok();
            assert!(read("3660") && !read("3661") && !read("0"), "{command}");
        }
        let Command::Usage(args) = Cli::parse_from(["weft", "usage", "--by", "day,model"]).command else {
            panic!("another command")
        };
        assert_eq!(args.by, [UsageBy::Day, UsageBy::Model]);
    }
}
