//! What was said before, as runs look it up.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::{CanvasId, SessionId, TenantId};

/// Messages that one look gives, at most.
pub const MESSAGES_MAX: usize = 2_000;

/// Whose messages.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationQuery {
    /// The canvas that is talked to.
    pub canvas: CanvasId,
    /// The conversation.
    pub session: SessionId,
    /// The other conversations of this user with the canvas, too; absent, or empty for nobody in particular: this
    /// conversation alone.
    pub user: Option<String>,
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastMessage {
    /// In which conversation.
    pub session: SessionId,
    /// `user` or `assistant`.
    pub role: String,
    /// What.
    pub content: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The conversations of a tenant. What is said in the turn under way is not among them.
#[async_trait]
pub trait Conversations: Send + Sync {
    /// The last messages, [`MESSAGES_MAX`] at most, of one conversation after the other, each from its oldest on. Never
    /// those of another tenant, canvas or user.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn messages(&self, tenant: &TenantId, query: &ConversationQuery) -> Result<Vec<PastMessage>>;
}

/// Where nothing was said.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoConversations;

#[async_trait]
impl Conversations for NoConversations {
    async fn messages(&self, _: &TenantId, _: &ConversationQuery) -> Result<Vec<PastMessage>> {
        Ok(Vec::new())
    }
}
