//! The command line.

mod dataset;
mod eval;
mod free_text;
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

use self::free_text::free_text;

pub(crate) use self::dataset::{
    DatasetAddArgs, DatasetChunksArgs, DatasetCommand, DatasetDocumentsArgs, DatasetEmbedArgs,
    DatasetIngestArgs, DatasetListArgs, DatasetMethodArgs, DatasetNameArgs, DatasetRemoveArgs,
    DatasetSearchArgs, DatasetShowArgs,
};
pub(crate) use self::eval::{EvalArgs, EvalCommand, EvalRecordArgs};
pub(crate) use self::models::{ModelsAddArgs, ModelsCommand, ModelsListArgs};
pub(crate) use self::runs::{
    RunsCancelArgs, RunsCommand, RunsDiffArgs, RunsForkArgs, RunsListArgs, RunsPruneArgs, RunsReplayArgs,
    RunsResumeArgs, RunsShowArgs,
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
    AuditArgs, RoleArg, UserArgs, UserCommand, UserCreateArgs, UserInviteArgs, UserListArgs, UserRemoveArgs,
    UserRoleArgs,
};

/// Checks, runs and serves agent canvases.
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
    /// Data folder for canvases, sessions and runs
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask a sample canvas that answers from sample documents with citations
    Demo(DemoArgs),
    /// Check canvases and report every problem
    Check(CheckArgs),
    /// Show the components of canvases with their parameters and outputs
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
    /// List, inspect, resume and compare runs
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },
    /// Show the usage of runs by canvas and day
    Spending(SpendingArgs),
    /// Show the usage of models by model, agent, node, user, session or day
    Usage(UsageArgs),
    /// Run recorded runs as tests, without outside services
    Eval(EvalArgs),
    /// List and answer the tasks that runs wait for
    Tasks(TasksArgs),
    /// Serve agents to an MCP client over standard input and output, or manage configured MCP servers
    Mcp(McpArgs),
    /// List the tools of plugins
    Plugins(PluginsArgs),
    /// Run canvases automatically at set times
    Schedule {
        #[command(flatten)]
        tenant: TenantArgs,
        #[command(subcommand)]
        command: ScheduleCommand,
    },
    /// Allow ./weft.toml to start programs, choose addresses and extend permissions
    Trust(TrustArgs),
    /// List the templates for new canvases
    Templates(TemplatesArgs),
    /// Create a folder with a canvas from a template
    New(NewArgs),
    /// Set, list and remove the secrets that canvases use
    Secret {
        /// What to do
        #[command(subcommand)]
        command: SecretCommand,
    },
    /// Add and list models, including those that run in Weft's own process
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },
    /// Create, list and revoke API keys
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Create, change, list and remove users
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
    /// Copy the store and all files into a new folder, even while a server is running
    Backup(BackupArgs),
    /// Serve the HTTP API
    Serve(ServeArgs),
    /// Execute scheduled runs and queued documents, without the HTTP API
    Worker(WorkerArgs),
}

/// Flags of `weft trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
}

/// Flags of `weft demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Question; without it, three sample questions are asked
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
    /// Exit with code 2 on warnings as well
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
    /// What to print the schema of
    #[arg(value_enum, default_value = "canvas")]
    pub of: SchemaOf,
    /// Print a readable page instead; API only
    #[arg(long)]
    pub markdown: bool,
}

/// What there is a schema of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// JSON Schema of canvases
    Canvas,
    /// OpenAPI document of the HTTP API
    Api,
}

/// Flags of `weft run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The canvas
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The question
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = free_text)]
    pub query: Option<String>,
    /// A form value: as typed for a field of text, else read as JSON if it is JSON; repeatable
    #[arg(long = "input", value_name = "KEY=VALUE")]
    pub inputs: Vec<String>,
    /// A file to attach to the question; repeatable
    #[arg(long = "file", value_name = "PATH")]
    pub attached: Vec<PathBuf>,
    /// Write the files that the run creates to this folder
    #[arg(long, value_name = "FOLDER")]
    pub save_files: Option<PathBuf>,
    /// Start or continue this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Do not run this node: use these outputs, a JSON object, or those it had in an earlier run; repeatable
    #[arg(long = "pin", value_name = "NODE=JSON|NODE@RUN")]
    pub pins: Vec<String>,
    /// Use this model for everything
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Print every event as a line of JSON instead of the answer
    #[arg(long)]
    pub events: bool,
    /// Interleave the pieces of messages that are written concurrently
    #[arg(long, requires = "events")]
    pub parallel_messages: bool,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
}

/// Flags that turn `weft run` into a measurement.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub(crate) struct MeasuringArgs {
    /// With --bench-json: number of runs, each in a new session
    #[arg(long, value_name = "N", requires = "bench_json", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub repeat: Option<u32>,
    /// With --bench-json: number of runs before measuring starts
    #[arg(long, value_name = "N", requires = "bench_json")]
    pub warmup: Option<u32>,
    /// With --bench-json: number of concurrent runs
    #[arg(long, value_name = "N", requires = "bench_json", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub concurrency: Option<u32>,
    /// Use the OpenAI-compatible server at this URL for every model
    #[arg(long, value_name = "URL")]
    pub llm_base_url: Option<String>,
    /// Measure runs, and print their times as one JSON object instead of the answer
    #[arg(long, conflicts_with_all = ["events", "session", "inputs", "attached", "save_files", "pins"])]
    pub bench_json: bool,
    /// With --bench-json: keep a journal in a SQLite file
    #[arg(long, requires = "bench_json")]
    pub with_journal: bool,
}

/// Flags of `weft chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The canvas
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Start or continue this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Use this model for everything
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// Flags of `weft components`.
#[derive(Debug, Args)]
pub(crate) struct ComponentsArgs {
    /// Show the details of these components instead of one line for each
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
    /// Number of days to show, including today
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
    /// Connect to the servers and list their tools, marking new, changed and rejected ones
    List(McpListArgs),
    /// Accept the current definitions of a server's tools
    Accept(McpAcceptArgs),
    /// Sign in to a server that requires a person's authorization
    Login(McpLoginArgs),
    /// Remove the authorization for a server
    Logout(McpLogoutArgs),
}

/// Flags of `weft mcp`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub serving: McpServeArgs,
    /// Subcommand; without one, agents are served
    #[command(subcommand)]
    pub command: Option<McpCommand>,
}

/// Flags of `weft mcp` alone.
#[derive(Debug, Args)]
pub(crate) struct McpServeArgs {
    /// Store and publish the canvas in FILE as the agent ID first; repeatable
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
    /// Tools, by the server's own names; default: all new or changed ones
    #[arg(value_name = "TOOL")]
    pub tools: Vec<String>,
}

/// Flags of `weft mcp login`.
#[derive(Debug, Args)]
pub(crate) struct McpLoginArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub server: String,
    /// Scopes to request, separated by spaces; default: those the server asks for
    #[arg(long, value_name = "SCOPES")]
    pub scope: Option<String>,
    /// Local port that the browser is redirected to; 0: any free port
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
    /// Folder to create; it becomes a data folder
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Store and publish the canvas in FILE as the agent ID, with the documents next to it; repeatable
    #[arg(long = "agent", value_name = "ID=FILE")]
    pub agents: Vec<std::ffi::OsString>,
}

/// Flags of `weft serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to listen on; port 0: any free port
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Store and publish the canvas in FILE as the agent ID; repeatable
    #[arg(long = "agent", value_name = "ID=FILE")]
    pub agents: Vec<std::ffi::OsString>,
    /// Require no token; loopback addresses only
    #[arg(long)]
    pub no_auth: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use weft_core::seam::usage_store::UsageBy;

    #[test]
    fn the_command_definition_is_valid() {
        Cli::command().debug_assert();
        // Neither command accepts more days than usage is kept for.
        for command in ["usage", "spending"] {
            let read = |days: &str| Cli::try_parse_from(["weft", command, "--days", days]).is_ok();
            assert!(read("3660") && !read("3661") && !read("0"), "{command}");
        }
        let Command::Usage(args) = Cli::parse_from(["weft", "usage", "--by", "day,model"]).command else {
            panic!("another command")
        };
        assert_eq!(args.by, [UsageBy::Day, UsageBy::Model]);
    }

    #[test]
    fn every_flag_is_described_in_more_than_a_word() {
        fn check(command: &clap::Command) {
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains(' '), "{} {}: {help:?}", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
