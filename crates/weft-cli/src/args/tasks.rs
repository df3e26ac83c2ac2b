//! The flags of `weft tasks`.

use clap::{Args, Subcommand};

use super::TenantArgs;
use super::free_text::free_text;

/// Flags of `weft tasks`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TasksArgs {
    #[command(flatten)]
    pub tenant: TenantArgs,
    #[command(subcommand)]
    pub command: Option<TasksCommand>,
    #[command(flatten)]
    pub list: TasksListArgs,
}

/// What to do with tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List tasks, oldest first; only open ones by default
    List(TasksListArgs),
    /// Show a task
    Show(TasksShowArgs),
    /// Answer a task and resume its run
    Answer(TasksAnswerArgs),
}

/// Flags of `weft tasks list`.
#[derive(Debug, Args)]
pub(crate) struct TasksListArgs {
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Only those of this canvas
    #[arg(long, value_name = "ID")]
    pub canvas: Option<String>,
    /// Only those of this kind: form, tool_approval, plan_review or credential
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Only those with this status: open, answered, timed_out, dropped or all
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub limit: u64,
    /// Print a line of JSON for each task
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft tasks show`.
#[derive(Debug, Args)]
pub(crate) struct TasksShowArgs {
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
pub(crate) struct TasksAnswerArgs {
    /// The task
    #[arg(value_name = "ID")]
    pub id: String,
    /// A value for a field of the form: as typed for a field of text, else read as JSON if it is JSON;
    /// repeatable
    #[arg(long = "input", value_name = "KEY=VALUE")]
    pub inputs: Vec<String>,
    /// Approve the call or the plan
    #[arg(long)]
    pub approve: bool,
    /// Deny the call or the plan
    #[arg(long)]
    pub deny: bool,
    /// Reason for the denial
    #[arg(long, value_name = "WHY", requires = "deny", allow_hyphen_values = true, value_parser = free_text)]
    pub because: Option<String>,
    /// Approve the call with this JSON object as its arguments, or the plan with this text
    #[arg(long, value_name = "JSON|TEXT", allow_hyphen_values = true, value_parser = free_text)]
    pub edit: Option<String>,
    /// Try again, now that the key is corrected
    #[arg(long)]
    pub retry: bool,
    /// Let the node fail for lack of a key
    #[arg(long)]
    pub give_up: bool,
    /// Use this model for everything
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Print every event as a line of JSON instead of the answer
    #[arg(long)]
    pub events: bool,
}
