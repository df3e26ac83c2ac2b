//! Model usage, which can be aggregated along several dimensions.

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::id::TenantId;
use crate::tokens::Usage;
use crate::usage::{ModelUse, UsageOwner};

/// A dimension to aggregate by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// The day (days since 1970, in UTC) on which the run ended.
    Day,
    /// The canvas.
    Agent,
    /// The node of the canvas.
    Node,
    /// The model.
    Model,
    /// The user that the session belongs to.
    User,
    /// The session.
    Session,
}

impl UsageBy {
    /// Every dimension.
    pub const ALL: [Self; 6] = [Self::Day, Self::Agent, Self::Node, Self::Model, Self::User, Self::Session];

    /// Returns the name used for it in requests and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Agent => "agent",
            Self::Node => "node",
            Self::Model => "model",
            Self::User => "user",
            Self::Session => "session",
        }
    }

    /// Parses its name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|side| side.as_str() == word)
    }
}

/// Which usage to aggregate, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageFilter {
    /// Only from this day on.
    pub since_day: i64,
    /// Only usage with these values of dimensions, such as one model.
    pub only: Vec<(UsageBy, String)>,
    /// Return one line per combination of values in these dimensions; empty means one line in total.
    pub by: Vec<UsageBy>,
    /// Maximum number of lines.
    pub limit: u64,
}

/// The total usage for one combination of values in the requested dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageLine {
    /// The values in these dimensions, in order; a day is its number.
    pub of: Vec<String>,
    /// The tokens that models read and wrote.
    pub usage: Usage,
    /// The cost, in millionths.
    pub micros: u64,
}

/// Stores model usage. The usage of a run is written when it ends, by [`RunStore::finish`](super::RunStore::finish),
/// and stays when the run is removed.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Records usage outside of runs. Usage for a dataset or a memory has no agent, session or user; usage for the
    /// files of a conversation has those of the conversation. It is charged to the day of `at_ms`, in milliseconds
    /// since 1970. Each call adds to what is stored. If owners are in the same store, nothing is recorded for one
    /// that no longer exists, so that no data of a removed tenant reappears.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn note_usage(&self, owner: &UsageOwner, at_ms: i64, uses: &[ModelUse]) -> Result<()>;

    /// Returns the usage of a tenant, the most expensive first and then by number of tokens; every line is complete.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn usage(&self, tenant: &TenantId, filter: &UsageFilter) -> Result<Vec<UsageLine>>;

    /// Removes the usage of a tenant before a day. Returns how many entries were removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn prune_usage(&self, tenant: &TenantId, before_day: i64) -> Result<u64>;
}
