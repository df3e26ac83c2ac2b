//! The audit log: who did what.

use weft_macros::async_trait;

use crate::error::Result;
use crate::id::TenantId;

/// An action that was performed or refused.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// The tenant whose data it concerned.
    pub tenant: TenantId,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// Distinguishes it from other entries of the same millisecond.
    pub id: String,
    /// The actor: `user:ID`, `key:ID` (an API key), `share:ID`, `cli` or `nobody`.
    pub actor: String,
    /// The action: `PUT /api/v1/agents/{id}`, `login` …
    pub action: String,
    /// The object of the action: the path of the request with the ids that its body names, an address, or another name.
    pub target: String,
    /// 0 if it succeeded, otherwise the code of the refusal or failure.
    pub outcome: u16,
    /// The network address it came from; empty if there was none.
    pub address: String,
}

/// The end of a page of the log: the time and the id of its last entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPosition {
    /// Its time.
    pub at_ms: i64,
    /// Its id.
    pub id: String,
}

/// Which entries to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Those of this actor.
    pub actor: Option<String>,
    /// Those not before this time.
    pub since_ms: Option<i64>,
    /// Those before this time.
    pub until_ms: Option<i64>,
    /// Those after this one in list order.
    pub after: Option<AuditPosition>,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    /// Maximum number to return.
    pub limit: u64,
}

/// Stores the audit log. Its entries are never changed, except that the address of a removed user is replaced.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Adds an entry.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn add_audit(&self, entry: &AuditEntry) -> Result<()>;

    /// Returns entries of a tenant, sorted by time, and by id within a millisecond.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn audit(&self, tenant: &TenantId, filter: &AuditFilter) -> Result<Vec<AuditEntry>>;

    /// Replaces the object of all entries, whatever their tenant, whose object is exactly `target`. Returns how many
    /// were changed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn replace_audit_target(&self, target: &str, by: &str) -> Result<u64>;

    /// Removes the entries of all tenants that are older. Returns how many were removed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_audit_before(&self, before_ms: i64) -> Result<u64>;
}
