//! Past messages, as runs look them up.

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::id::{CanvasId, SessionId, TenantId};

/// Maximum number of messages returned by one query.
pub const MESSAGES_MAX: usize = 2_000;

/// Which messages to return.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationQuery {
    /// The canvas of the conversations.
    pub canvas: CanvasId,
    /// The conversation.
    pub session: SessionId,
    /// Also include the other conversations of this user with the canvas. If absent, or empty for no user in
    /// particular, only this conversation.
    pub user: Option<String>,
}

/// A message of an earlier turn, as a component reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastMessage {
    /// The conversation it belongs to.
    pub session: SessionId,
    /// `user` or `assistant`.
    pub role: String,
    /// Its text.
    pub content: String,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: i64,
}

/// Provides the conversations of a tenant. The messages of the turn in progress are not included.
#[async_trait]
pub trait Conversations: Send + Sync {
    /// Returns the last messages, up to [`MESSAGES_MAX`], grouped by conversation, each conversation oldest first.
    /// Never includes messages of another tenant, canvas or user.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn messages(&self, tenant: &TenantId, query: &ConversationQuery) -> Result<Vec<PastMessage>>;
}

/// There are no past messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoConversations;

#[async_trait]
impl Conversations for NoConversations {
    async fn messages(&self, _: &TenantId, _: &ConversationQuery) -> Result<Vec<PastMessage>> {
        Ok(Vec::new())
    }
}
