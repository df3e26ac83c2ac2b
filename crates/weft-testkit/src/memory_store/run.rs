//! In-memory runs and journals.

use weft_core::id::{RunId, RunKey, SessionKey, TenantId};
use weft_core::seam::ProcessStore;
use weft_core::seam::notice_store::Notice;
use weft_core::seam::process_store::{ProcessPlace, StoredProcess};
use weft_core::seam::run_store::{
    self, FinishedRun, GiveWayWord, Retention, RunFilter, RunLease, RunRequest, RunStore, StoredEntry,
    StoredRun, overtaken,
};
use weft_core::{Ending, Error, ProcessId, Result, async_trait};

use super::{MemoryStore, StoreTables, conflict, missing, page};

pub(super) struct Journaled {
    pub(super) run: StoredRun,
    entries: Vec<StoredEntry>,
}

impl StoreTables {
    /// The run of a lease, if the lease is still valid.
    pub(super) fn held(&mut self, lease: &RunLease, doing: &str) -> Result<&mut Journaled> {
        let at = (lease.run.tenant.clone(), lease.run.id.clone());
        let journal = self.runs.get_mut(&at).ok_or_else(|| missing("run", lease.run.id.as_str()))?;
        if journal.run.fence == lease.fence { Ok(journal) } else { Err(overtaken(lease, doing)) }
    }
}

impl StoreTables {
    /// The unfinished run of a session.
    pub(super) fn at_work(&self, session: &SessionKey) -> Option<RunId> {
        let mut runs = self.runs.values().map(|journal| &journal.run);
        let at_work = runs.find(|run| {
            run.key.tenant == session.tenant && run.session == session.id && run.ending.is_none()
        });
        at_work.map(|run| run.key.id.clone())
    }

    fn announce(&mut self, run: &StoredRun) -> Result<()> {
        let at = (run.key.tenant.clone(), run.key.id.clone());
        if self.runs.contains_key(&at) {
            return Err(conflict(format!("there is a run `{}` already", run.key.id)));
        }
        let at_work = self.runs.values().map(|journal| &journal.run).find(|other| {
            other.key.tenant == run.key.tenant && other.session == run.session && other.ending.is_none()
        });
        if let Some(other) = at_work.filter(|_| run.ending.is_none()) {
            return Err(run_store::at_work(&run.session, &other.key.id));
        }
        self.runs.insert(at, Journaled { run: run.clone(), entries: Vec::new() });
        Ok(())
    }
}

#[async_trait]
impl RunStore for MemoryStore {
    async fn create(&self, run: &StoredRun) -> Result<()> {
        self.tables().announce(run)
    }

    async fn announce(&self, run: &StoredRun, revision: i64) -> Result<bool> {
        let mut tables = self.tables();
        let session = tables.sessions.get(&(run.key.tenant.clone(), run.session.clone()));
        if session.is_none_or(|session| session.session.revision != revision) {
            return Ok(false);
        }
        tables.announce(run).map(|()| true)
    }

    async fn append(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        let key = &lease.run;
        let mut tables = self.tables();
        let journal = tables.held(lease, "append to the journal")?;
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

    async fn claim(&self, run: &RunKey, seen: i64, by: &ProcessId) -> Result<Option<RunLease>> {
        let Some(fence) = seen.checked_add(1) else { return Ok(None) };
        let at = (run.tenant.clone(), run.id.clone());
        let mut tables = self.tables();
        let free = |j: &&mut Journaled| j.run.ending.is_none() && j.run.fence == seen;
        let Some(journal) = tables.runs.get_mut(&at).filter(free) else { return Ok(None) };
        journal.run.fence = fence;
        journal.run.owner = Some(by.clone());
        Ok(Some(RunLease { run: run.clone(), fence }))
    }

    async fn release(&self, leases: &[RunLease]) -> Result<()> {
        let mut tables = self.tables();
        for lease in leases {
            if let Ok(journal) = tables.held(lease, "") {
                journal.run.owner = journal.run.owner.take().filter(|_| journal.run.ending.is_some());
            }
        }
        Ok(())
    }

    async fn request_cancel(&self, run: &RunKey, now_ms: i64) -> Result<bool> {
        let at = (run.tenant.clone(), run.id.clone());
        let mut tables = self.tables();
        let Some(journal) = tables.runs.get_mut(&at).filter(|j| j.run.ending.is_none()) else {
            return Ok(false);
        };
        journal.run.cancel_ms.get_or_insert(now_ms);
        Ok(true)
    }

    async fn say_of_giving_way(&self, run: &RunKey, word: GiveWayWord) -> Result<bool> {
        let at = (run.tenant.clone(), run.id.clone());
        let mut tables = self.tables();
        let Some(journal) = tables.runs.get_mut(&at).filter(|j| j.run.ending.is_none()) else {
            return Ok(false);
        };
        let give_way = &mut journal.run.give_way;
        match word {
            GiveWayWord::Asked => give_way.asked += 1,
            GiveWayWord::Listened => give_way.listened += 1,
        }
        Ok(true)
    }

    async fn requests(&self, owner: &ProcessId) -> Result<Vec<RunRequest>> {
        let tables = self.tables();
        let asked = tables.runs.values().map(|j| &j.run).filter(|run| {
            run.ending.is_none()
                && (run.cancel_ms.is_some() || run.give_way.asked > 0)
                && run.owner.as_ref() == Some(owner)
        });
        let request = |run: &StoredRun| RunRequest {
            run: run.key.clone(),
            cancel: run.cancel_ms.is_some(),
            give_way: run.give_way,
        };
        Ok(asked.map(request).collect())
    }

    async fn unattended(&self, gone: &[ProcessId], count_max: u64) -> Result<Vec<StoredRun>> {
        let tables = self.tables();
        let attended = |run: &StoredRun| {
            let owner = run.owner.as_ref();
            owner.is_some_and(|owner| tables.processes.contains_key(owner) && !gone.contains(owner))
        };
        let mut found: Vec<_> =
            tables.runs.values().map(|j| &j.run).filter(|run| run.ending.is_none()).collect();
        found.retain(|run| !attended(run));
        found.sort_by(|a, b| (a.started_ms, &a.key.id).cmp(&(b.started_ms, &b.key.id)));
        Ok(page(found.into_iter().cloned().collect(), 0, count_max).0)
    }

    async fn finish(&self, lease: &RunLease, finished: FinishedRun) -> Result<()> {
        let mut tables = self.tables();
        let journal = tables.held(lease, "store how the run ended")?;
        journal.run.ending = Some(finished.ending);
        journal.run.finished_ms = Some(finished.at_ms);
        if let Some((day, spent)) = finished.spent {
            let canvas = journal.run.canvas.clone();
            tables.note_spent(&lease.run, &canvas, day, spent);
        }
        tables.note_uses(&lease.run, &finished);
        if finished.ending == Ending::Failed {
            tables.note(&Notice::run_failed(&lease.run, finished.at_ms));
        }
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
                tables.run_messages.retain(|message| message.run != *key);
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
                    && filter
                        .after
                        .as_ref()
                        .is_none_or(|after| (r.started_ms, &r.key.id) < (after.0, &after.1))
            })
            .cloned()
            .collect();
        found.sort_by(|a, b| (a.started_ms, &a.key.id).cmp(&(b.started_ms, &b.key.id)));
        found.reverse();
        Ok(page(found, filter.offset, filter.limit).0)
    }
}

#[async_trait]
impl ProcessStore for MemoryStore {
    async fn beat(&self, id: &ProcessId, place: Option<&ProcessPlace>) -> Result<()> {
        let first = || StoredProcess { id: id.clone(), place: place.cloned(), beat: 0 };
        self.tables().processes.entry(id.clone()).or_insert_with(first).beat += 1;
        Ok(())
    }

    async fn list(&self) -> Result<Vec<StoredProcess>> {
        Ok(self.tables().processes.values().cloned().collect())
    }

    async fn forget(&self, id: &ProcessId, beat: i64) -> Result<bool> {
        let mut tables = self.tables();
        let busy = tables.runs.values().any(|j| j.run.ending.is_none() && j.run.owner.as_ref() == Some(id));
        if busy || tables.processes.get(id).is_none_or(|process| process.beat != beat) {
            return Ok(false);
        }
        Ok(tables.processes.remove(id).is_some())
    }
}
