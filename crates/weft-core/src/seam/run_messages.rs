//! Messages that wait for runs of other processes: each is left where all processes see it, until the process that
//! works on the run has handed it to the agent there.

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{ProcessId, RunKey};

/// Messages that wait for one run, at most: those of this process and those of others each.
pub const MESSAGES_MAX: usize = 16;

/// So many wait already.
pub fn too_many() -> Error {
    let message = format!("{MESSAGES_MAX} messages wait for the agent already, as many as may");
    Error::new(ErrorKind::Conflict, message).help("wait until it has read some of them")
}

/// A message to the agent at work in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMessage {
    /// Which run.
    pub run: RunKey,
    /// Names it among the messages of the run.
    pub id: String,
    /// What it says.
    pub text: String,
    /// When it was left, in milliseconds since 1970.
    pub sent_ms: i64,
}

/// Where messages wait for runs.
#[async_trait]
pub trait RunMessages: Send + Sync {
    /// Leaves a message for a run. Whether it was left: it is not when there is no such run, or it has ended.
    ///
    /// # Errors
    /// `Conflict` when [`MESSAGES_MAX`] wait for the run, or one by this id; when the store cannot be written.
    async fn leave_message(&self, message: &RunMessage) -> Result<bool>;

    /// The messages that wait for unfinished runs of a process, those that were left first before the others, at most
    /// `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn messages_for(&self, owner: &ProcessId, count_max: u64) -> Result<Vec<RunMessage>>;

    /// Whether a message still waits.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn message_waits(&self, run: &RunKey, id: &str) -> Result<bool>;

    /// Takes messages away: an agent has read them, or whoever left them no longer wants to be heard. How many of
    /// them waited.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_messages(&self, run: &RunKey, ids: &[String]) -> Result<u64>;
}
