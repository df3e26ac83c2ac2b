//! Conversations.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::id::{CanvasId, RunId, SessionId, SessionKey, TenantId};
use crate::seam::run_store::RunLease;
use crate::seam::task_store::TaskChange;
use crate::value::Json;

/// Maximum size of what a turn reads of the messages before it, in bytes.
// More than the context of a model holds. Their number alone limits nothing: an answer may be large.
pub const HISTORY_BYTES_MAX: usize = 8 << 20;

/// One conversation with one version of one canvas.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its tenant and id.
    pub key: SessionKey,
    /// The canvas.
    pub canvas: CanvasId,
    /// The content hash of the canvas version it runs on. Empty: each turn supplies the version to run. Sessions of
    /// chat assistants do this, so that they always use the assistant's current settings.
    pub canvas_version: Arc<str>,
    /// The user.
    pub user_id: String,
    /// Its name in lists.
    pub name: String,
    /// The engine's state between turns: globals, turn count, a suspended run. Plain data.
    pub state: Json,
    /// Counts the changes; a writer must supply the current value.
    pub revision: i64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last changed, in milliseconds since 1970.
    pub updated_ms: i64,
}

impl Session {
    /// Creates a session in this state, without a user or a name.
    pub fn new(
        key: SessionKey,
        canvas: impl Into<CanvasId>,
        canvas_version: impl Into<Arc<str>>,
        state: Json,
        now_ms: i64,
    ) -> Self {
        Self {
            key,
            canvas: canvas.into(),
            canvas_version: canvas_version.into(),
            user_id: String::new(),
            name: String::new(),
            state,
            revision: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
    /// The run that it belongs to; absent for the opening message.
    pub run: Option<RunId>,
    /// The sources it cites, or all that were found if the turn asked for them ([`TurnInput::all_sources`]):
    /// `{chunks, doc_aggs}`; null if there are none.
    ///
    /// [`TurnInput::all_sources`]: crate::TurnInput::all_sources
    pub reference: Json,
    /// When a question was asked or an answer was complete, in milliseconds since 1970.
    pub created_ms: i64,
    /// Its reader's feedback.
    pub feedback: Option<Feedback>,
}

/// Returns the latest of these messages whose contents together have at most this size; at least the last one. They
/// are given and returned oldest first.
pub fn latest_within(bytes_max: usize, mut messages: Vec<SessionMessage>) -> Vec<SessionMessage> {
    let mut left = bytes_max;
    let fits = |message: &&SessionMessage| {
        left.checked_sub(message.content.len()).is_some_and(|rest| {
            left = rest;
            true
        })
    };
    let count = messages.iter().rev().take_while(fits).count().max(1);
    messages.split_off(messages.len().saturating_sub(count))
}

/// The position of a message in its conversation. Later positions compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessagePosition {
    /// The session revision that added it.
    pub revision: i64,
    /// Its position among the messages added by that revision.
    pub place: i64,
}

/// A reader's feedback on an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    /// Whether the answer was good.
    pub good: bool,
    /// The reason.
    pub words: String,
}

/// The changes that a turn makes to its session.
#[derive(Clone, Copy, Debug)]
pub struct SessionCommit<'a> {
    /// The revision it is based on.
    pub revision: i64,
    /// The new state.
    pub state: &'a Json,
    /// The messages to append.
    pub messages: &'a [SessionMessage],
    /// Changes to the human tasks of the session; absent leaves them as they are.
    pub tasks: Option<&'a TaskChange>,
    /// The lease of the run that makes the change; absent if no run does. The session then must have no run under way,
    /// whose own change would fail in the end.
    pub lease: Option<&'a RunLease>,
}

/// The sort order of a list of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionOrder {
    /// By when they were last changed.
    #[default]
    Updated,
    /// By when they started.
    Created,
    /// By name.
    Name,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionFilter {
    /// Of one canvas.
    pub canvas: Option<CanvasId>,
    /// One session.
    pub id: Option<String>,
    /// Of one user.
    pub user_id: Option<String>,
    /// With this name.
    pub name: Option<String>,
    /// Part of the name, without regard to the case of English letters.
    pub keywords: String,
    /// The sort order.
    pub order: SessionOrder,
    /// Only those created after this one, given by its creation time and id; ids break ties. Does not affect the
    /// total count.
    pub after: Option<(i64, SessionId)>,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
    /// Oldest first instead of newest first.
    pub ascending: bool,
}

/// Stores conversations. The cost of a turn does not grow with the length of the conversation.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Stores a new session with its opening messages, atomically.
    ///
    /// # Errors
    /// `Conflict` when the id is taken; `QuotaExceeded` for one too many.
    async fn create(&self, session: &Session, opening: &[SessionMessage]) -> Result<()>;

    /// Returns a session.
    ///
    /// # Errors
    /// `NotFound`.
    async fn load(&self, key: &SessionKey) -> Result<Session>;

    /// Returns the revision of a session, without loading its state.
    ///
    /// # Errors
    /// `NotFound`.
    async fn revision(&self, key: &SessionKey) -> Result<i64> {
        Ok(self.load(key).await?.revision)
    }

    /// Returns the last `count_max` messages that existed at this revision of the session, oldest first; the current
    /// ones for `i64::MAX`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn messages(&self, key: &SessionKey, revision: i64, count_max: u64) -> Result<Vec<SessionMessage>>;

    /// Returns the same messages as [`SessionStore::messages`], as far as a turn needs them: without their sources and
    /// feedback, and of a long conversation as many of the latest as [`HISTORY_BYTES_MAX`] allows. Of the messages up
    /// to one revision, these are always the same: a run that is repeated has to find those that it has found before.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn history(&self, key: &SessionKey, revision: i64, count_max: u64) -> Result<Vec<SessionMessage>> {
        let messages = self.messages(key, revision, count_max).await?.into_iter();
        let said =
            messages.map(|message| SessionMessage { reference: Json::Null, feedback: None, ..message });
        Ok(latest_within(HISTORY_BYTES_MAX, said.collect()))
    }

    /// Returns about how many bytes each of the last `count_max` messages takes, the latest first. They tell how many
    /// messages fit into memory before any is read.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn message_sizes(&self, key: &SessionKey, count_max: u64) -> Result<Vec<u64>> {
        let messages = self.messages(key, i64::MAX, count_max).await?;
        let size = |message: &SessionMessage| message.content.len() + message.reference.to_string().len();
        Ok(messages.iter().rev().map(|message| size(message) as u64).collect())
    }

    /// Returns up to `count_max` messages after a position, or from the first one on, oldest first, each with its
    /// position. Reads a conversation of any length page by page.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn messages_after(
        &self,
        key: &SessionKey,
        after: Option<MessagePosition>,
        count_max: u64,
    ) -> Result<Vec<(MessagePosition, SessionMessage)>>;

    /// Replaces the state, appends messages and changes the human tasks, atomically, and increments the revision.
    ///
    /// # Errors
    /// `Conflict` when the revision is not the stored one because the session has been changed concurrently, when
    /// another process has taken the run over since, and without a lease when a run of the session has not ended.
    async fn commit(&self, key: &SessionKey, commit: SessionCommit<'_>) -> Result<()>;

    /// Renames a session, even while one of its turns is running.
    ///
    /// # Errors
    /// `NotFound`.
    async fn rename(&self, key: &SessionKey, name: &str) -> Result<()>;

    /// Stores a reader's feedback on the answer of a run.
    ///
    /// # Errors
    /// `NotFound` when the session has no answer of that run.
    async fn judge(&self, key: &SessionKey, run: &RunId, feedback: &Feedback) -> Result<()>;

    /// Removes the question and the answer of a run, and the run itself if it has ended.
    ///
    /// # Errors
    /// `NotFound` when the session has no message of that run.
    async fn forget_run(&self, key: &SessionKey, run: &RunId) -> Result<()>;

    /// Returns sessions that match a filter, with their states set to null, and their total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &SessionFilter) -> Result<(Vec<Session>, u64)>;

    /// Removes a session with its messages and runs.
    ///
    /// # Errors
    /// `NotFound`.
    async fn delete(&self, key: &SessionKey) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_messages_that_fit_are_kept() {
        let message = |content: &str| SessionMessage {
            role: "user".to_owned(),
            content: content.to_owned(),
            run: None,
            reference: Json::Null,
            created_ms: 1,
            feedback: None,
        };
        let all = ["ééé", "a", "", "bcd"].map(message).to_vec();
        for (bytes_max, count) in [(usize::MAX, 4), (10, 4), (9, 3), (4, 3), (3, 2), (2, 1), (0, 1)] {
            assert_eq!(latest_within(bytes_max, all.clone()), all[4 - count..], "{bytes_max}");
        }
        assert_eq!(latest_within(0, Vec::new()), []);
    }
}
