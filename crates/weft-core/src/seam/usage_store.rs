//! What models were used for, to be looked at from several sides.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::TenantId;
use crate::seam::chat_model::Usage;
use crate::usage::{ModelUse, UsageOwner};

/// A side to look from.
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
    /// Whoever the session belongs to.
    User,
    /// The session.
    Session,
}

impl UsageBy {
    /// Every side.
    pub const ALL: [Self; 6] = [Self::Day, Self::Agent, Self::Node, Self::Model, Self::User, Self::Session];

    /// The word for it in requests and on the command line.
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

    /// From its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|side| side.as_str() == word)
    }
}

/// What is to be added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageFilter {
    /// From this day on.
    pub since_day: i64,
    /// Only what is so on these sides, such as one model.
    pub only: Vec<(UsageBy, String)>,
    /// A line for each that differs on these sides; none: one line for everything.
    pub by: Vec<UsageBy>,
    /// How many lines at most.
    pub limit: u64,
}

/// What was used in all that is the same on the sides that were asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageLine {
    /// What it is on each of these sides, in their order; a day is its number.
    pub of: Vec<String>,
    /// What models have read and written.
    pub usage: Usage,
    /// What that cost, in millionths.
    pub micros: u64,
}

/// Where it is kept what was used of models. What a run has used is written with its end, by
/// [`RunStore::finish`](super::RunStore::finish), and stays when the run is removed.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Notes what work on a dataset or a memory has used outside of runs: it has no agent, no session and no user, while what was
    /// used for the files of a conversation has those of the conversation. Its day is the one of `at_ms`, in milliseconds since
    /// 1970. Each call adds to what is there. Where these are in the same store nothing is
    /// noted for one that is gone: nothing of a tenant comes back that was removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn note_usage(&self, owner: &UsageOwner, at_ms: i64, uses: &[ModelUse]) -> Result<()>;

    /// What a tenant has used, the dearest first and then what has most tokens; nothing is left out of a line.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn usage(&self, tenant: &TenantId, filter: &UsageFilter) -> Result<Vec<UsageLine>>;

    /// Forgets what a tenant has used before a day. How many entries there were.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn prune_usage(&self, tenant: &TenantId, before_day: i64) -> Result<u64>;
}
