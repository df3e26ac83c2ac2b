//! Places for what the machine does a few of at the same time. Tenants take turns.

use weft_core::fair::{FairSlots, Slot};
use weft_core::{Error, Result, TenantId};

/// Waits for a place. Whoever stops waiting leaves the line.
///
/// # Errors
/// `RateLimited` when as many of this tenant wait already as may.
pub(crate) async fn acquire(slots: &FairSlots, tenant: &TenantId, what: &str) -> Result<Slot> {
    slots.acquire(tenant).await.map_err(|error| {
        let message = format!("cannot work on {what} now: {}", error.message);
        Error { message, ..error }
    })
}
