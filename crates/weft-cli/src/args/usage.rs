//! Flags of `weft usage`.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use weft_app::spending::USAGE_DAYS_MAX;
use weft_core::seam::usage_store::UsageBy;

/// What a side is, in the help of the command.
fn about(side: UsageBy) -> &'static str {
    match side {
        UsageBy::Day => "The day on which a run ended (UTC)",
        UsageBy::Agent => "The agent",
        UsageBy::Node => "The node of its canvas",
        UsageBy::Model => "The model",
        UsageBy::User => "The user of the session",
        UsageBy::Session => "The session",
    }
}

/// Reads one side by its word.
fn side() -> impl TypedValueParser<Value = UsageBy> {
    let known = UsageBy::ALL.map(|side| PossibleValue::new(side.as_str()).help(about(side)));
    PossibleValuesParser::new(known).try_map(|word| UsageBy::parse(&word).ok_or("there is no such dimension"))
}

/// Flags of `weft usage`.
#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// Dimensions to group by, separated by commas
    #[arg(long, value_name = "DIMENSIONS", value_delimiter = ',', default_value = "model", value_parser = side())]
    pub by: Vec<UsageBy>,
    /// Number of days to show, including today
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=i64::from(USAGE_DAYS_MAX)))]
    pub days: u32,
    /// Tenant whose usage to show
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Print a line of JSON for each group
    #[arg(long)]
    pub json: bool,
}
