//! Share tokens: what a page that shows one agent or one assistant gives to everybody who opens it.

use async_trait::async_trait;

use crate::error::Result;
use crate::id::{CanvasId, TenantId};

/// Share tokens of one agent or assistant, at most.
pub const SHARES_MAX: u64 = 100;

/// What a share token opens, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ShareTarget {
    /// One agent.
    Agent(CanvasId),
    /// One chat assistant.
    Chat(CanvasId),
    /// Every agent and chat assistant of the tenant, as long as there is an API key with this hash. Older clients call it the beta
    /// token of the key.
    OfKey(CanvasId),
}

impl ShareTarget {
    /// The id of the agent or the assistant, or the hash of the key.
    pub fn id(&self) -> &CanvasId {
        match self {
            Self::Agent(id) | Self::Chat(id) | Self::OfKey(id) => id,
        }
    }

    /// `agent`, `chat` or `key`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Chat(_) => "chat",
            Self::OfKey(_) => "key",
        }
    }
}

/// A share token as stored: never the token itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareToken {
    /// Whose agent or assistant it is.
    pub tenant: TenantId,
    /// What it opens.
    pub target: ShareTarget,
    /// SHA-256 of the token, in lower-case hex.
    pub hash: String,
    /// What people call it.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// From then on it opens nothing; absent: never.
    pub expires_ms: Option<i64>,
    /// When somebody last showed it, to the minute or so; absent while nobody has.
    pub last_used_ms: Option<i64>,
}

impl ShareToken {
    /// What names the token in lists.
    pub fn id(&self) -> &str {
        crate::seam::token_store::hash_id(&self.hash)
    }
}

/// Where share tokens are kept, apart from API keys.
#[async_trait]
pub trait ShareStore: Send + Sync {
    /// Stores a token.
    ///
    /// # Errors
    /// `Conflict` when its hash is there already; `QuotaExceeded` for one more than [`SHARES_MAX`].
    async fn add_share(&self, share: &ShareToken) -> Result<()>;

    /// The token with this hash, also one that has expired.
    ///
    /// # Errors
    /// `NotFound`.
    async fn share(&self, hash: &str) -> Result<ShareToken>;

    /// Notes that a token was shown. A time never goes back, and one that is not there is passed over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn share_used(&self, hash: &str, at_ms: i64) -> Result<()>;

    /// The tokens of one agent or assistant, the oldest first, at most `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn shares(
        &self,
        tenant: &TenantId,
        target: &ShareTarget,
        count_max: u64,
    ) -> Result<Vec<ShareToken>>;

    /// Removes one token of an agent or an assistant.
    ///
    /// # Errors
    /// `NotFound`, also for one of another agent or tenant.
    async fn remove_share(&self, tenant: &TenantId, target: &ShareTarget, hash: &str) -> Result<()>;

    /// Removes all tokens of an agent or an assistant. How many.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_shares(&self, tenant: &TenantId, target: &ShareTarget) -> Result<u64>;
}
