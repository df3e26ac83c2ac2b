//! Slots for work that runs a few at a time. Tenants take turns.

use weft_core::fair::{FairSlots, Slot};
use weft_core::{Error, Result, TenantId};

/// Waits for a slot. Dropping the future leaves the queue.
///
/// # Errors
/// `RateLimited` when the queue has no room for this tenant.
pub(crate) async fn acquire(slots: &FairSlots, tenant: &TenantId, what: &str) -> Result<Slot> {
    slots.acquire(tenant).await.map_err(|error| {
        let message = format!("cannot process {what} now: {}", error.message);
        Error { message, ..error }
    })
}
