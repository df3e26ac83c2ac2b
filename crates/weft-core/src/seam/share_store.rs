//! Share tokens, which a page that presents one agent or assistant hands to everyone who opens it.

use weft_macros::async_trait;

use crate::error::Result;
use crate::id::{CanvasId, TenantId, UserId};
use crate::seam::token_store::{ID_CHARS, hash_id};

/// Maximum number of share tokens of one agent or assistant.
pub const SHARES_MAX: u64 = 100;

/// What a share token gives access to; it gives access to nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ShareTarget {
    /// One agent.
    Agent(CanvasId),
    /// One chat assistant.
    Chat(CanvasId),
    /// Every agent and chat assistant of the tenant, as long as an API key with this hash exists. Older clients call
    /// this the beta token of the key.
    OfKey(CanvasId),
}

impl ShareTarget {
    /// Returns the id of the agent or assistant, or the hash of the key.
    pub fn id(&self) -> &CanvasId {
        match self {
            Self::Agent(id) | Self::Chat(id) | Self::OfKey(id) => id,
        }
    }

    /// Returns `agent`, `chat` or `key`.
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
    /// The tenant that owns the agent or assistant.
    pub tenant: TenantId,
    /// What it gives access to.
    pub target: ShareTarget,
    /// SHA-256 of the token, in lower-case hex.
    pub hash: String,
    /// Its name.
    pub name: String,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it expires, in milliseconds since 1970; absent means never.
    pub expires_ms: Option<i64>,
    /// When it was last used, to within about a minute; absent if it never was.
    pub last_used_ms: Option<i64>,
}

impl ShareToken {
    /// Returns the id that lists show.
    pub fn id(&self) -> &str {
        hash_id(&self.hash)
    }
}

/// Prefix of the ids that stand for share tokens.
const VISITOR_PREFIX: &str = "share-";

/// Returns the user id that stands for everyone with a share token, by the id of the token. The conversations and
/// uploads of these visitors belong to it. It is never the id of a user: those are 32 hex digits, so an export or
/// the erasure of a user's data never finds what belongs to a token.
pub fn visitor(token_id: &str) -> UserId {
    format!("{VISITOR_PREFIX}{token_id}").into()
}

/// Returns whether a user id is one that stands for a share token; see [`visitor`].
pub fn is_visitor(user: &str) -> bool {
    let is_id = |id: &str| id.len() == ID_CHARS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    user.strip_prefix(VISITOR_PREFIX).is_some_and(is_id)
}

/// Stores share tokens, separately from API keys.
#[async_trait]
pub trait ShareStore: Send + Sync {
    /// Stores a token.
    ///
    /// # Errors
    /// `Conflict` when its hash already exists; `QuotaExceeded` if there would be more than [`SHARES_MAX`].
    async fn add_share(&self, share: &ShareToken) -> Result<()>;

    /// Returns the token with this hash, even if it has expired.
    ///
    /// # Errors
    /// `NotFound`.
    async fn share(&self, hash: &str) -> Result<ShareToken>;

    /// Records that a token was used. The recorded time never goes back. A missing token is ignored.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn share_used(&self, hash: &str, at_ms: i64) -> Result<()>;

    /// Returns up to `count_max` tokens of one agent or assistant, oldest first.
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

    /// Removes all tokens of an agent or an assistant. Returns how many were removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_shares(&self, tenant: &TenantId, target: &ShareTarget) -> Result<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_for_no_user() {
        let token = hash_id("0123456789abcdef0123456789abcdef");
        assert!(is_visitor(visitor(token).as_str()));
        for user in [UserId::generate().as_str(), "share-holders", "share-", token, "default"] {
            assert!(!is_visitor(user), "{user}");
        }
    }
}
