//! Conversations.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::{CanvasId, RunId, SessionId, SessionKey, TenantId};
use crate::seam::run_store::RunLease;
use crate::seam::task_store::TaskChange;
use crate::value::Json;

/// One conversation with one version of one canvas.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Which tenant it belongs to, and its id.
    pub key: SessionKey,
    /// The canvas.
    pub canvas: CanvasId,
    /// The content hash of the canvas version it runs on. Empty: each turn brings the version that it runs, as those of
    /// chat assistants do, which are always answered by what the assistant is like now.
    pub canvas_version: Arc<str>,
    /// Who talks.
    pub user_id: String,
    /// What it is called in lists.
    pub name: String,
    /// The engine's state between turns: globals, turn count, a paused run. Plain data.
    pub state: Json,
    /// Counts the changes; a writer must know the current one.
    pub revision: i64,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// Milliseconds since 1970.
    pub updated_ms: i64,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
    /// The run that it belongs to; absent for the opening words.
    pub run: Option<RunId>,
    /// The sources it cites: `{chunks, doc_aggs}`; null when none.
    pub reference: Json,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// What its reader thinks of it.
    pub feedback: Option<Feedback>,
}

/// Where a message stands in its conversation. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessagePosition {
    /// The revision that it came with.
    pub revision: i64,
    /// Its place among those that came with it.
    pub place: i64,
}

/// What a reader thinks of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    /// Whether it was good.
    pub good: bool,
    /// Why.
    pub words: String,
}

/// What a turn changes in its session.
#[derive(Clone, Copy, Debug)]
pub struct SessionCommit<'a> {
    /// The revision that it is based on.
    pub revision: i64,
    /// What replaces the state.
    pub state: &'a Json,
    /// What follows the messages.
    pub messages: &'a [SessionMessage],
    /// What becomes of the human tasks of the session; absent: they stay as they are.
    pub tasks: Option<&'a TaskChange>,
    /// The right to the run that changes it; absent when no run does.
    pub lease: Option<&'a RunLease>,
}

/// What a list of sessions is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionOrder {
    /// When they were changed.
    #[default]
    Updated,
    /// When they began.
    Created,
    /// Their names.
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
    /// In which order.
    pub order: SessionOrder,
    /// Only those that were made after this one, which is a time of creation and an id; of those that were made at the same
    /// time their ids decide. All of them count.
    pub after: Option<(i64, SessionId)>,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
    /// Oldest first instead of newest first.
    pub ascending: bool,
}

/// Where conversations are kept. The cost of a turn does not grow with the conversation.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Stores a new session with its opening messages. Whole or not at all.
    ///
    /// # Errors
    /// `Conflict` when the id is taken.
    async fn create(&self, session: &Session, opening: &[SessionMessage]) -> Result<()>;

    /// A session.
    ///
    /// # Errors
    /// `NotFound`.
    async fn load(&self, key: &SessionKey) -> Result<Session>;

    /// The revision of a session, without its state.
    ///
    /// # Errors
    /// `NotFound`.
    async fn revision(&self, key: &SessionKey) -> Result<i64> {
        Ok(self.load(key).await?.revision)
    }

    /// The last `count_max` messages that were there when the session had this revision, oldest first;
    /// those that are there now for `i64::MAX`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn messages(&self, key: &SessionKey, revision: i64, count_max: u64) -> Result<Vec<SessionMessage>>;

    /// Up to `count_max` messages after one, or from the first one on, oldest first, each with its position: a conversation
    /// of any length page by page.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn messages_after(
        &self,
        key: &SessionKey,
        after: Option<MessagePosition>,
        count_max: u64,
    ) -> Result<Vec<(MessagePosition, SessionMessage)>>;

    /// Replaces the state, appends messages and changes the human tasks, whole or not at all, and raises
    /// the revision.
    ///
    /// # Errors
    /// `Conflict` when the revision is not the stored one: somebody else has changed the session; and when
    /// another process has taken the run over since.
    async fn commit(&self, key: &SessionKey, commit: SessionCommit<'_>) -> Result<()>;

    /// Gives a session another name, also while a turn of it runs.
    ///
    /// # Errors
    /// `NotFound`.
    async fn rename(&self, key: &SessionKey, name: &str) -> Result<()>;

    /// Keeps what a reader thinks of the answer of a run.
    ///
    /// # Errors
    /// `NotFound` when the session has no answer of that run.
    async fn judge(&self, key: &SessionKey, run: &RunId, feedback: &Feedback) -> Result<()>;

    /// Removes the question and the answer of a run, and the run itself if it has ended.
    ///
    /// # Errors
    /// `NotFound` when the session has no message of that run.
    async fn forget_run(&self, key: &SessionKey, run: &RunId) -> Result<()>;

    /// Sessions by filter without their states, which are null, and how many there are in all.
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
