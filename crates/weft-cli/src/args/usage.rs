//! Flags of `weft usage`.

use clap::{Args, ValueEnum};

/// What lines differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageSide {
    /// The day on which a run ended (UTC)
    Day,
    /// The agent
    Agent,
    /// The node of its canvas
    Node,
    /// The model
    Model,
    /// Whose session it was
    User,
    /// The session
    Session,
}

/// Flags of `weft usage`.
#[derive(Debug, Args)]
pub struct UsageArgs {
    /// A line for each that differs in these, with commas between
    #[arg(long, value_name = "SIDES", value_delimiter = ',', default_value = "model")]
    pub by: Vec<UsageSide>,
    /// The last days, today included
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_660))]
    pub days: u32,
    /// Of which tenant
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Print a line of JSON for each
    #[arg(long)]
    pub json: bool,
}
