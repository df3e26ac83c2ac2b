//! What the runs of a canvas and of a tenant have used, so that budgets of a day, a month or for ever
//! hold over all of them.

use async_trait::async_trait;

use crate::budget::Spent;
use crate::error::Result;
use crate::id::{CanvasId, TenantId};
use crate::seam::run_store::RunLease;

/// What the runs of one canvas have used on one day.
#[derive(Clone, Debug, PartialEq)]
pub struct DaySpent {
    /// The canvas.
    pub canvas: CanvasId,
    /// Days since 1970, in UTC.
    pub day: i64,
    /// How much.
    pub spent: Spent,
}

/// Where it is kept what runs have used. Runs and canvases that are deleted have been paid for all the
/// same: what they used stays.
#[async_trait]
pub trait SpendingStore: Send + Sync {
    /// Notes what a run has used in all so far. What is more than was noted for it before is added to
    /// its canvas's `day` (days since 1970, in UTC); the same noted again adds nothing.
    ///
    /// # Errors
    /// `NotFound` when there is no such run; `Conflict` when another process has taken it over since;
    /// otherwise when the store cannot be written, and then
    /// nothing was.
    async fn note(&self, lease: &RunLease, day: i64, spent: Spent) -> Result<()>;

    /// What the runs of a tenant, or those of one of its canvases, have used since the beginning of a
    /// day.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn spent(&self, tenant: &TenantId, canvas: Option<&CanvasId>, since_day: i64) -> Result<Spent>;

    /// The same by canvas and day, latest day first, then by canvas; at most `count_max`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn days(&self, tenant: &TenantId, since_day: i64, count_max: u64) -> Result<Vec<DaySpent>>;
}
