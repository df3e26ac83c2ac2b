//! Usage of the runs of canvases and tenants, so that daily, monthly and total budgets apply across all of them.

use weft_macros::async_trait;

use crate::budget::Spent;
use crate::error::Result;
use crate::id::{CanvasId, TenantId};
use crate::seam::run_store::RunLease;

/// The day under which usage is kept that belongs to no single day any more: before all days.
pub const FOLDED_DAY: i64 = i64::MIN;

/// The usage of the runs of one canvas on one day.
#[derive(Clone, Debug, PartialEq)]
pub struct DaySpent {
    /// The canvas.
    pub canvas: CanvasId,
    /// Days since 1970, in UTC.
    pub day: i64,
    /// The usage.
    pub spent: Spent,
}

/// Stores the usage of runs. Usage remains when runs and canvases are deleted, since it has been paid for.
#[async_trait]
pub trait SpendingStore: Send + Sync {
    /// Records the total usage of a run so far. What exceeds the amount recorded for it before is added to its
    /// canvas's `day` (days since 1970, in UTC); recording the same total again adds nothing.
    ///
    /// # Errors
    /// `NotFound` when the run does not exist; `Conflict` when another process has taken it over since; otherwise
    /// when the store cannot be written. Nothing was written then.
    async fn note(&self, lease: &RunLease, day: i64, spent: Spent) -> Result<()>;

    /// Returns the usage of the runs of a tenant, or of one of its canvases, since the start of a day; all of it since
    /// [`FOLDED_DAY`].
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn spent(&self, tenant: &TenantId, canvas: Option<&CanvasId>, since_day: i64) -> Result<Spent>;

    /// Returns the same usage by canvas and day, latest day first, then by canvas; up to `count_max` entries.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn days(&self, tenant: &TenantId, since_day: i64, count_max: u64) -> Result<Vec<DaySpent>>;

    /// Replaces the usage of a tenant before a day by one sum per canvas, of [`FOLDED_DAY`]: total budgets still count
    /// it, and no list by day has it any more. Returns how many entries were replaced.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn fold_days(&self, tenant: &TenantId, before_day: i64) -> Result<u64>;
}
