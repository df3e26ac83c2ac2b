//! Slots shared by tenants. Waiters are served round-robin by tenant, so a tenant with a single waiter is not delayed
//! by one with a thousand.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;

/// Maximum number of waiters per tenant. Each holds its work in memory.
pub const WAITING_MAX: usize = 10_000;

/// How long a caller that was refused should wait before it tries again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A fixed number of slots. A free slot goes to the next tenant in turn: every waiting tenant gets one before any
/// tenant gets a second one.
#[derive(Clone, Debug)]
pub struct FairSlots(Arc<Mutex<TenantLine>>);

#[derive(Debug)]
struct TenantLine {
    free: usize,
    limit: WaitingLimit,
    waiting: HashMap<TenantId, VecDeque<oneshot::Sender<Slot>>>,
    /// The waiting tenants, in the order of their turns.
    turns: VecDeque<TenantId>,
}

/// How many callers may wait for a slot.
#[derive(Clone, Copy, Debug)]
enum WaitingLimit {
    /// This many of each tenant.
    PerTenant(usize),
    /// This many in total. A tenant may have only as many waiters as it leaves room for others, so no single tenant
    /// takes more than half, and a tenant that has used up its share does not cause others to be refused.
    Shared(usize),
}

/// A slot. Dropping it frees it.
#[derive(Debug)]
pub struct Slot(Option<Arc<Mutex<TenantLine>>>);

fn locked(line: &Mutex<TenantLine>) -> MutexGuard<'_, TenantLine> {
    // A slot has to be returned even after another holder has panicked.
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FairSlots {
    /// Creates this many slots; at least one.
    pub fn new(count: usize) -> Self {
        Self::limited(count, WaitingLimit::PerTenant(WAITING_MAX))
    }

    /// Like [`FairSlots::new`], for work that is too large for [`WAITING_MAX`] waiters per tenant: at most `waiting_max`
    /// wait in total, and no tenant can take all of that.
    pub fn with_waiting_max(count: usize, waiting_max: usize) -> Self {
        Self::limited(count, WaitingLimit::Shared(waiting_max))
    }

    fn limited(count: usize, limit: WaitingLimit) -> Self {
        // Without a single slot, everybody would wait forever.
        let (free, waiting, turns) = (count.max(1), HashMap::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(TenantLine { free, limit, waiting, turns })))
    }

    /// Waits for a slot. A caller that stops waiting leaves the queue.
    ///
    /// # Errors
    /// `RateLimited` when the tenant already has as many waiters as it may have.
    pub async fn acquire(&self, tenant: &TenantId) -> Result<Slot> {
        let coming = {
            let mut line = locked(&self.0);
            // If a slot is free there are no waiters: a returned slot is passed on before it counts as free.
            if line.free > 0 {
                line.free -= 1;
                return Ok(Slot(Some(Arc::clone(&self.0))));
            }
            if !line.has_room(tenant) {
                let full = Error::new(ErrorKind::RateLimited, "too many others are already waiting")
                    .help("try again when some of them are done");
                return Err(Error { retry_after: Some(RETRY_AFTER), ..full });
            }
            let waiting = line.waiting.entry(tenant.clone()).or_default();
            let (give, coming) = oneshot::channel();
            let first = waiting.is_empty();
            waiting.push_back(give);
            // A tenant whose waiters have all gone away may have kept its turn.
            if first && !line.turns.contains(tenant) {
                line.turns.push_back(tenant.clone());
            }
            coming
        };
        coming.await.map_err(|_| Error::internal("an assigned slot was never handed over"))
    }

    /// Like [`FairSlots::acquire`], with an error that names what cannot be processed, such as `the picture`.
    ///
    /// # Errors
    /// As [`FairSlots::acquire`].
    pub async fn acquire_for(&self, tenant: &TenantId, what: &str) -> Result<Slot> {
        self.acquire(tenant).await.map_err(|error| {
            let message = format!("cannot process {what} now: {}", error.message);
            Error { message, ..error }
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(line) = self.0.take() else { return };
        let mut slot = Self(Some(Arc::clone(&line)));
        loop {
            // The next waiter is chosen while holding the lock but notified after releasing it, because a slot
            // returned by a waiter that has gone away is dropped here, too.
            let next = {
                let mut line = locked(&line);
                let next = line.next();
                if next.is_none() {
                    line.free += 1;
                    // It is free now: the drop of `slot` below must not free it a second time.
                    slot.0 = None;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(slot) {
                Ok(()) => return,
                // The waiter went away between being chosen and being notified.
                Err(back) => slot = back,
            }
        }
    }
}

/// Counts the waiters of a tenant. Those that have gone away are still queued, because they are otherwise removed only
/// when it is their turn.
fn present(waiting: &mut VecDeque<oneshot::Sender<Slot>>) -> usize {
    waiting.retain(|other| !other.is_closed());
    waiting.len()
}

impl TenantLine {
    /// Returns whether one more caller of this tenant may wait.
    fn has_room(&mut self, tenant: &TenantId) -> bool {
        match self.limit {
            WaitingLimit::PerTenant(most) => self.waiting.get_mut(tenant).map_or(0, present) < most,
            WaitingLimit::Shared(most) => {
                let all: usize = self.waiting.values_mut().map(present).sum();
                let own = self.waiting.get(tenant).map_or(0, VecDeque::len);
                own < most.saturating_sub(all)
            }
        }
    }

    fn next(&mut self) -> Option<oneshot::Sender<Slot>> {
        while let Some(tenant) = self.turns.pop_front() {
            let Some(waiting) = self.waiting.get_mut(&tenant) else { continue };
            let next = waiting.pop_front();
            if waiting.is_empty() {
                // Tenants come and go; empty queues would otherwise accumulate.
                drop(self.waiting.remove(&tenant));
            } else {
                self.turns.push_back(tenant);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn tenants_take_turns() {
        let slots = FairSlots::new(1);
        let (loud, quiet) = (TenantId::from("loud"), TenantId::from("quiet"));
        let first = slots.acquire(&loud).now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> = (0..24).map(|_| Box::pin(async { slots.acquire(&loud).await })).collect();
        waiting.iter_mut().for_each(|one| assert!(one.now_or_never().is_none()));
        let mut other = Box::pin(slots.acquire(&quiet));
        assert!((&mut other).now_or_never().is_none());
        // One of the loud tenant was queued before; then it is the other's turn.
        drop(first);
        let second = (&mut waiting[0]).now_or_never().unwrap().unwrap();
        assert!((&mut other).now_or_never().is_none());
        drop(second);
        let served = (&mut other).now_or_never().expect("the other tenant is served").unwrap();
        assert!((&mut waiting[1]).now_or_never().is_none());
        drop(served);
        assert!((&mut waiting[1]).now_or_never().is_some());
    }

    #[test]
    fn a_cancelled_waiter_takes_no_place() {
        let slots = FairSlots::new(2);
        let tenant = TenantId::from("t");
        let held: Vec<_> = (0..2).map(|_| slots.acquire(&tenant).now_or_never().unwrap().unwrap()).collect();
        for _ in 0..100 {
            let mut gone = Box::pin(slots.acquire(&tenant));
            assert!((&mut gone).now_or_never().is_none());
        }
        let mut late = Box::pin(slots.acquire(&tenant));
        assert!((&mut late).now_or_never().is_none());
        drop(held);
        assert!((&mut late).now_or_never().is_some());
        assert_eq!(locked(&slots.0).free, 2);
        assert!(locked(&slots.0).turns.is_empty());
    }

    #[test]
    fn a_refused_tenant_does_not_affect_others() {
        let slots = FairSlots::with_waiting_max(1, 8);
        let (loud, quiet) = (TenantId::from("loud"), TenantId::from("quiet"));
        let first = slots.acquire(&loud).now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(slots.acquire(&loud))).collect();
        waiting.iter_mut().for_each(|one| assert!(one.now_or_never().is_none()));
        let refused = slots.acquire(&loud).now_or_never().unwrap().unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (ErrorKind::RateLimited, Some(RETRY_AFTER)));
        let named = slots.acquire_for(&loud, "`a.pdf`").now_or_never().unwrap().unwrap_err();
        assert_eq!(named.message, format!("cannot process `a.pdf` now: {}", refused.message));
        assert_eq!((named.kind, named.retry_after), (refused.kind, refused.retry_after));
        // The rest is shared in the same way, and the other one is served next but one.
        let mut others: Vec<_> = (0..2).map(|_| Box::pin(slots.acquire(&quiet))).collect();
        others.iter_mut().for_each(|one| assert!(one.now_or_never().is_none()));
        assert!(slots.acquire(&quiet).now_or_never().unwrap().is_err());
        drop(first);
        let second = (&mut waiting[0]).now_or_never().unwrap().unwrap();
        drop(second);
        assert!((&mut others[0]).now_or_never().unwrap().is_ok());
        // A waiter that leaves makes room, and one that was never admitted leaves nothing behind.
        let stranger = TenantId::from("stranger");
        let full = FairSlots::with_waiting_max(1, 0);
        let _held = full.acquire(&loud).now_or_never().unwrap().unwrap();
        assert!(full.acquire(&stranger).now_or_never().unwrap().is_err());
        assert!(locked(&full.0).waiting.is_empty());
        drop(waiting);
        drop(others);
        assert!(slots.acquire(&loud).now_or_never().unwrap().is_ok());
    }
}
