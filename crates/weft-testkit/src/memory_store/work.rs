//! An in-memory queue of work.

use std::collections::HashSet;

use weft_core::Result;
use weft_core::id::{RunId, RunKey, TenantId};
use weft_core::seam::work_queue::{
    Lease, StoredWork, Taken, Work, WorkFilter, WorkOutcome, WorkQueue, WorkState,
};
use weft_core::{Error, ErrorKind, async_trait};

use super::{MemoryStore, missing, page};

pub(super) struct Queued {
    pub(super) stored: StoredWork,
    fence: i64,
}

impl Queued {
    fn new(work: &Work, now_ms: i64) -> Self {
        let stored = StoredWork {
            work: work.clone(),
            state: WorkState::Waiting { from_ms: work.due_ms },
            attempts: 0,
            crashes: 0,
            reason: String::new(),
            pushed_ms: now_ms,
        };
        Self { stored, fence: 0 }
    }
}

fn check(work: &[Work]) -> Result<()> {
    if work.iter().any(|work| work.run.id.as_str().is_empty() || work.canvas.as_str().is_empty()) {
        return Err(Error::invalid("work without a run or a canvas cannot be queued"));
    }
    Ok(())
}

fn at(work: &Work) -> (TenantId, RunId) {
    (work.run.tenant.clone(), work.run.id.clone())
}

impl MemoryStore {
    /// Changes work if this lease is the current one.
    fn with_lease(&self, lease: &Lease, change: impl FnOnce(&mut StoredWork)) -> Result<()> {
        let at = (lease.run.tenant.clone(), lease.run.id.clone());
        let mut tables = self.tables();
        let held = |queued: &&mut Queued| {
            queued.fence == lease.fence && matches!(queued.stored.state, WorkState::Taken { .. })
        };
        let queued = tables.work.get_mut(&at).filter(held).ok_or_else(|| {
            let message = format!("the work of run {} belongs to another worker now, or done", lease.run.id);
            Error::new(ErrorKind::Conflict, message)
        })?;
        change(&mut queued.stored);
        Ok(())
    }
}

fn ready_ms(stored: &StoredWork) -> Option<i64> {
    match stored.state {
        WorkState::Waiting { from_ms } => Some(from_ms),
        WorkState::Taken { until_ms } => Some(until_ms),
        WorkState::Done { .. } | WorkState::Abandoned { .. } => None,
    }
}

#[async_trait]
impl WorkQueue for MemoryStore {
    async fn push_within(&self, work: &[Work], now_ms: i64, open_max: u64) -> Result<u64> {
        check(work)?;
        let Some(first) = work.first() else { return Ok(0) };
        let mut tables = self.tables();
        let is_open = |stored: &StoredWork| {
            stored.work.run.tenant == first.run.tenant
                && stored.work.source == first.source
                && stored.state.is_open()
        };
        let open = tables.work.values().filter(|queued| is_open(&queued.stored)).count();
        let mut fresh: Vec<&Work> = work.iter().collect();
        let mut seen = HashSet::new();
        fresh.retain(|work| !tables.work.contains_key(&at(work)) && seen.insert(at(work)));
        let room = usize::try_from(open_max).unwrap_or(usize::MAX).saturating_sub(open);
        let passed_over = fresh.len().saturating_sub(room);
        for work in fresh.into_iter().skip(passed_over) {
            tables.work.insert(at(work), Queued::new(work, now_ms));
        }
        Ok(passed_over as u64)
    }

    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<Taken>> {
        let mut tables = self.tables();
        let mut ready: Vec<&mut Queued> = tables
            .work
            .values_mut()
            .filter(|queued| ready_ms(&queued.stored).is_some_and(|ready| ready <= now_ms))
            .collect();
        ready.sort_by_key(|queued| (ready_ms(&queued.stored), queued.stored.work.run.id.clone()));
        let count_max = usize::try_from(count_max).unwrap_or(usize::MAX);
        let take = |queued: &mut Queued| {
            queued.fence += 1;
            queued.stored.attempts += 1;
            queued.stored.crashes += u32::from(matches!(queued.stored.state, WorkState::Taken { .. }));
            queued.stored.state = WorkState::Taken { until_ms };
            let lease = Lease { run: queued.stored.work.run.clone(), fence: queued.fence };
            let stored = queued.stored.clone();
            queued.stored.reason.clear();
            Taken { lease, stored }
        };
        Ok(ready.into_iter().take(count_max).map(take).collect())
    }

    async fn renew(&self, lease: &Lease, until_ms: i64) -> Result<()> {
        self.with_lease(lease, |stored| stored.state = WorkState::Taken { until_ms })
    }

    async fn settle(&self, lease: &Lease, settled: &WorkOutcome, now_ms: i64) -> Result<()> {
        self.with_lease(lease, |stored| match settled {
            WorkOutcome::Done => stored.state = WorkState::Done { at_ms: now_ms },
            WorkOutcome::Abandoned { reason } => {
                stored.state = WorkState::Abandoned { at_ms: now_ms };
                stored.reason.clone_from(reason);
            }
            WorkOutcome::RetryAt { from_ms, reason } => {
                stored.state = WorkState::Waiting { from_ms: *from_ms };
                stored.reason.clone_from(reason);
            }
            WorkOutcome::Released { from_ms, reason } => {
                stored.state = WorkState::Waiting { from_ms: *from_ms };
                stored.attempts -= 1;
                stored.reason.clone_from(reason);
            }
        })
    }

    async fn get(&self, run: &RunKey) -> Result<StoredWork> {
        let at = (run.tenant.clone(), run.id.clone());
        let found = self.tables().work.get(&at).map(|queued| queued.stored.clone());
        found.ok_or_else(|| missing("work for run", run.id.as_str()))
    }

    async fn list(&self, tenant: &TenantId, filter: &WorkFilter) -> Result<(Vec<StoredWork>, u64)> {
        let mut found: Vec<_> = self
            .tables()
            .work
            .values()
            .map(|queued| &queued.stored)
            .filter(|stored| {
                stored.work.run.tenant == *tenant
                    && filter.source.as_ref().is_none_or(|source| *source == stored.work.source)
                    && (!filter.open || stored.state.is_open())
            })
            .cloned()
            .collect();
        found.sort_by(|a, b| (a.work.due_ms, &a.work.run.id).cmp(&(b.work.due_ms, &b.work.run.id)));
        found.reverse();
        Ok(page(found, filter.offset, filter.limit))
    }

    async fn withdraw(&self, tenant: &TenantId, source: &str) -> Result<u64> {
        let mut tables = self.tables();
        let before = tables.work.len();
        tables.work.retain(|_, Queued { stored, .. }| {
            stored.work.run.tenant != *tenant
                || stored.work.source != source
                || !matches!(stored.state, WorkState::Waiting { .. })
        });
        Ok((before - tables.work.len()) as u64)
    }

    async fn withdraw_runs(&self, tenant: &TenantId, runs: &[RunId]) -> Result<u64> {
        let mut tables = self.tables();
        let before = tables.work.len();
        tables.work.retain(|_, Queued { stored, .. }| {
            stored.work.run.tenant != *tenant
                || !runs.contains(&stored.work.run.id)
                || !matches!(stored.state, WorkState::Waiting { .. })
        });
        Ok((before - tables.work.len()) as u64)
    }

    async fn remove_settled(&self, tenant: &TenantId, source: &str) -> Result<u64> {
        let mut tables = self.tables();
        let before = tables.work.len();
        tables.work.retain(|_, Queued { stored, .. }| {
            stored.work.run.tenant != *tenant
                || stored.work.source != source
                || !matches!(stored.state, WorkState::Done { .. } | WorkState::Abandoned { .. })
        });
        Ok((before - tables.work.len()) as u64)
    }

    async fn prune(&self, before_ms: i64) -> Result<u64> {
        let mut tables = self.tables();
        let before = tables.work.len();
        tables.work.retain(|_, queued| match queued.stored.state {
            WorkState::Done { at_ms } | WorkState::Abandoned { at_ms } => at_ms >= before_ms,
            WorkState::Waiting { .. } | WorkState::Taken { .. } => true,
        });
        Ok((before - tables.work.len()) as u64)
    }
}
