//! Runs and their journals in memory.

use async_trait::async_trait;
use weft_core::id::{RunKey, TenantId};
use weft_core::seam::run_store::{self, Retention, RunFilter, RunStore, StoredEntry, StoredRun};
use weft_core::{Ending, Error, Result};

use super::{MemoryStore, conflict, missing, page};

pub(super) struct Journaled {
    pub(super) run: StoredRun,
    entries: Vec<StoredEntry>,
}

#[async_trait]
impl RunStore for MemoryStore {
    async fn create(&self, run: &StoredRun) -> Result<()> {
        let at = (run.key.tenant.clone(), run.key.id.clone());
        let mut tables = self.tables();
        if tables.runs.contains_key(&at) {
            return Err(conflict(format!("there is a run `{}` already", run.key.id)));
        }
        let at_work = tables.runs.values().map(|journal| &journal.run).find(|other| {
            other.key.tenant == run.key.tenant && other.session == run.session && other.ending.is_none()
        });
        if let Some(other) = at_work.filter(|_| run.ending.is_none()) {
            return Err(run_store::at_work(&run.session, &other.key.id));
        }
        tables.runs.insert(at, Journaled { run: run.clone(), entries: Vec::new() });
        Ok(())
    }

    async fn append(&self, key: &RunKey, entries: Vec<StoredEntry>) -> Result<()> {
        let at = (key.tenant.clone(), key.id.clone());
        let mut tables = self.tables();
        let journal = tables.runs.get_mut(&at).ok_or_else(|| missing("run", key.id.as_str()))?;
        let Some(first) = entries.first().map(|entry| entry.seq) else { return Ok(()) };
        if entries.windows(2).any(|two| two[1].seq.checked_sub(two[0].seq) != Some(1)) {
            return Err(Error::invalid(format!("the entries for the run `{}` have a gap", key.id)));
        }
        let last = journal.entries.last().map_or(0, |entry| entry.seq);
        if first != last + 1 {
            return Err(conflict(format!(
                "the journal of the run `{}` ends at {last}, entry {first} does not follow",
                key.id
            )));
        }
        journal.entries.extend(entries);
        Ok(())
    }

    async fn alive(&self, runs: &[RunKey], now_ms: i64) -> Result<()> {
        let mut tables = self.tables();
        for key in runs {
            let at = (key.tenant.clone(), key.id.clone());
            if let Some(journal) = tables.runs.get_mut(&at).filter(|j| j.run.ending.is_none()) {
                journal.run.alive_ms = journal.run.alive_ms.max(now_ms);
            }
        }
        Ok(())
    }

    async fn claim(&self, run: &RunKey, seen_alive_ms: i64, now_ms: i64) -> Result<bool> {
        // The time must change, or another one who has seen the same would take the run as well.
        let Some(next_ms) = seen_alive_ms.checked_add(1) else { return Ok(false) };
        let at = (run.tenant.clone(), run.id.clone());
        let mut tables = self.tables();
        let free = |j: &&mut Journaled| j.run.ending.is_none() && j.run.alive_ms == seen_alive_ms;
        let Some(journal) = tables.runs.get_mut(&at).filter(free) else { return Ok(false) };
        journal.run.alive_ms = now_ms.max(next_ms);
        Ok(true)
    }

    async fn finish(&self, key: &RunKey, ending: Ending, finished_ms: i64) -> Result<()> {
        let at = (key.tenant.clone(), key.id.clone());
        let mut tables = self.tables();
        let journal = tables.runs.get_mut(&at).ok_or_else(|| missing("run", key.id.as_str()))?;
        journal.run.ending = Some(ending);
        journal.run.finished_ms = Some(finished_ms);
        Ok(())
    }

    async fn get(&self, key: &RunKey) -> Result<StoredRun> {
        let at = (key.tenant.clone(), key.id.clone());
        let found = self.tables().runs.get(&at).map(|j| j.run.clone());
        found.ok_or_else(|| missing("run", key.id.as_str()))
    }

    async fn entries(&self, key: &RunKey, after_seq: u64, count_max: u64) -> Result<Vec<StoredEntry>> {
        let at = (key.tenant.clone(), key.id.clone());
        let tables = self.tables();
        let journal = tables.runs.get(&at).ok_or_else(|| missing("run", key.id.as_str()))?;
        let count_max = usize::try_from(count_max).unwrap_or(usize::MAX);
        Ok(journal.entries.iter().filter(|e| e.seq > after_seq).take(count_max).cloned().collect())
    }

    async fn expired(&self, tenant: &TenantId, keep: &Retention, count_max: u64) -> Result<Vec<StoredRun>> {
        let tables = self.tables();
        let of_tenant: Vec<_> =
            tables.runs.values().map(|j| &j.run).filter(|r| r.key.tenant == *tenant).collect();
        let newer_than = |run: &StoredRun| {
            let newer = |other: &&&StoredRun| {
                other.session == run.session
                    && (other.started_ms, &other.key.id) > (run.started_ms, &run.key.id)
            };
            of_tenant.iter().filter(newer).count() as u64
        };
        let mut found: Vec<StoredRun> = Vec::new();
        for run in &of_tenant {
            let (newer, Some(ending)) = (newer_than(run), run.ending) else { continue };
            let old =
                keep.ended_before_ms.is_some_and(|before| run.finished_ms.is_some_and(|at| at < before));
            let beyond = keep.per_session_max.is_some_and(|max| newer >= max);
            if (old || beyond) && !(newer == 0 && ending == Ending::Waiting) {
                found.push((*run).clone());
            }
        }
        found.sort_by(|a, b| (a.finished_ms, &a.key.id).cmp(&(b.finished_ms, &b.key.id)));
        Ok(page(found, 0, count_max).0)
    }

    async fn remove(&self, runs: &[RunKey]) -> Result<u64> {
        let mut tables = self.tables();
        let before = tables.runs.len();
        for key in runs {
            let at = (key.tenant.clone(), key.id.clone());
            if tables.runs.get(&at).is_some_and(|journal| journal.run.ending.is_some()) {
                tables.runs.remove(&at);
            }
        }
        Ok((before - tables.runs.len()) as u64)
    }

    async fn list(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<StoredRun>> {
        let mut found: Vec<_> = self
            .tables()
            .runs
            .values()
            .map(|j| &j.run)
            .filter(|r| {
                r.key.tenant == *tenant
                    && filter.session.as_ref().is_none_or(|session| *session == r.session)
                    && (!filter.unfinished || r.ending.is_none())
            })
            .cloned()
            .collect();
        found.sort_by(|a, b| (a.started_ms, &a.key.id).cmp(&(b.started_ms, &b.key.id)));
        found.reverse();
        Ok(page(found, filter.offset, filter.limit).0)
    }
}
