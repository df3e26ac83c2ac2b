//! The audit log: who did what.

use async_trait::async_trait;

use crate::error::Result;
use crate::id::TenantId;

/// Something that somebody did, or was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// Whose data it was about.
    pub tenant: TenantId,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Tells it from others of the same millisecond.
    pub id: String,
    /// Who: `user:ID`, `key:ID` (an API key), `share:ID`, `cli` or `nobody`.
    pub actor: String,
    /// What: `PUT /api/v1/agents/{id}`, `login` …
    pub action: String,
    /// On what: the path of the request, an address, or another name.
    pub target: String,
    /// 0 when it was done, else the code of the refusal or failure.
    pub outcome: u16,
    /// The network address that it came from; empty when there was none.
    pub address: String,
}

/// Where a page of the log ends: the time and the id of its last entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPosition {
    /// Its time.
    pub at_ms: i64,
    /// Its id.
    pub id: String,
}

/// Which entries are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Those of this actor.
    pub actor: Option<String>,
    /// Those not before this time.
    pub since_ms: Option<i64>,
    /// Those before this time.
    pub until_ms: Option<i64>,
    /// Those that come after this one in the order of the list.
    pub after: Option<AuditPosition>,
    /// The oldest first instead of the newest.
    pub ascending: bool,
    /// How many at most.
    pub limit: u64,
}

/// Where the audit log is kept. Nothing in it is ever changed.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Adds an entry.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn add_audit(&self, entry: &AuditEntry) -> Result<()>;

    /// Entries of a tenant by time, and by id within a millisecond.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn audit(&self, tenant: &TenantId, filter: &AuditFilter) -> Result<Vec<AuditEntry>>;

    /// Removes the entries of all tenants that are older. How many.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_audit_before(&self, before_ms: i64) -> Result<u64>;
}
