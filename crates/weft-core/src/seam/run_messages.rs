//! Messages to runs of other processes. Each message is left where all processes can see it, until the process that
//! works on the run has passed it to the agent there.

use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{ProcessId, RunKey};

/// Maximum number of messages waiting for one run. Applies separately to those of this process and those of others.
pub const MESSAGES_MAX: usize = 16;

/// The error for a run that has the maximum number of waiting messages.
pub fn too_many() -> Error {
    let message = format!("{MESSAGES_MAX} messages are already waiting for the agent, which is the maximum");
    Error::new(ErrorKind::Conflict, message).help("wait until it has read some of them")
}

/// A message to the agent at work in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMessage {
    /// The run.
    pub run: RunKey,
    /// Its id, unique among the messages of the run.
    pub id: String,
    /// Its text.
    pub text: String,
    /// When it was left, in milliseconds since 1970.
    pub sent_ms: i64,
}

/// Stores messages that wait for runs.
#[async_trait]
pub trait RunMessages: Send + Sync {
    /// Leaves a message for a run. Returns whether it was left: it is not if the run does not exist or has ended.
    ///
    /// # Errors
    /// `Conflict` when [`MESSAGES_MAX`] messages, or one with this id, already wait for the run; when the store
    /// cannot be written.
    async fn leave_message(&self, message: &RunMessage) -> Result<bool>;

    /// Returns up to `count_max` messages that wait for unfinished runs of a process, in the order in which they were
    /// left.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn messages_for(&self, owner: &ProcessId, count_max: u64) -> Result<Vec<RunMessage>>;

    /// Returns whether a message is still waiting.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn message_waits(&self, run: &RunKey, id: &str) -> Result<bool>;

    /// Removes messages that an agent has read, or that their sender withdraws. Returns how many of them were
    /// waiting.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_messages(&self, run: &RunKey, ids: &[String]) -> Result<u64>;
}
