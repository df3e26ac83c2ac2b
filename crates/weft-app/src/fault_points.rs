//! Kills this process, as `kill -9` would, at a chosen entry of the journal. Only in builds for the test harness that
//! proves that runs survive it: the feature `fault-points` is off by default.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use weft_core::id::TenantId;
use weft_core::seam::RunStore;
use weft_core::seam::run_store::{
    FinishedRun, GiveWayWord, Retention, RunFilter, RunLease, RunRequest, StoredEntry, StoredRun,
};
use weft_core::{Error, ProcessId, Result, RunKey, async_trait};

/// Where this process is killed; set once, when it starts.
static POINT: OnceLock<FaultPoint> = OnceLock::new();

/// Where a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPoint {
    /// When the entry with this number, counted from 1 by the process, is about to be stored and those before it are
    /// stored.
    Before(u64),
    /// When the entry is stored, before anything else learns of it.
    After(u64),
}

impl FaultPoint {
    /// Parses `before:N` or `after:N`.
    ///
    /// # Errors
    /// `Invalid` for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = || {
            Error::invalid(format!("`{text}` is not a fault point"))
                .help("write before:N or after:N, from 1 on")
        };
        let (side, entry) = text.split_once(':').ok_or_else(refuse)?;
        match (side, entry.parse()) {
            ("before", Ok(entry @ 1..)) => Ok(Self::Before(entry)),
            ("after", Ok(entry @ 1..)) => Ok(Self::After(entry)),
            _ => Err(refuse()),
        }
    }

    /// Returns how many entries are stored when it is reached.
    fn stored(self) -> u64 {
        match self {
            Self::Before(entry) => entry - 1,
            Self::After(entry) => entry,
        }
    }

    fn entry(self) -> u64 {
        let (Self::Before(entry) | Self::After(entry)) = self;
        entry
    }

    /// Makes this process end there. Only the first call has an effect.
    pub fn set(self) {
        POINT.get_or_init(|| self);
    }
}

/// Wraps the store so that the process is killed at the fault point, if one is set.
pub(crate) fn on_the_way_to(store: Arc<dyn RunStore>) -> Arc<dyn RunStore> {
    match POINT.get() {
        Some(point) => Arc::new(Deadly { store, point: *point, arrived: AtomicU64::new(0) }),
        None => store,
    }
}

struct Deadly {
    store: Arc<dyn RunStore>,
    point: FaultPoint,
    /// Number of entries that were appended.
    arrived: AtomicU64,
}

impl Deadly {
    /// Returns how many of these entries are stored before this process is killed; `None` if it is not killed among
    /// them.
    fn kept(&self, entries: &[StoredEntry]) -> Option<usize> {
        let count = entries.len() as u64;
        let before = self.arrived.fetch_add(count, Ordering::SeqCst);
        if before >= self.point.entry() || before + count < self.point.entry() {
            return None;
        }
        let kept = self.point.stored().saturating_sub(before);
        Some(together(entries, usize::try_from(kept).unwrap_or(usize::MAX)))
    }

    /// Stores this many entries and kills this process.
    async fn end_after<T>(&self, lease: &RunLease, mut entries: Vec<StoredEntry>, kept: usize) -> Result<T> {
        entries.truncate(kept);
        if !entries.is_empty() {
            self.store.append(lease, entries).await?;
        }
        end().await
    }
}

async fn end() -> ! {
    // A process that cannot be killed hangs, and the harness sees that it has not ended.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::future::pending().await
}

/// Returns how many entries are stored if at least `kept` are. Nodes that read a streamed text end in one step with
/// the node that wrote it: the engine passes their entries together, and a store keeps all of an append or nothing.
fn together(entries: &[StoredEntry], kept: usize) -> usize {
    let ends = |entry: &StoredEntry| entry.record.starts_with(r#"{"type":"node_finished""#);
    let between = |at: usize| at > 0 && at < entries.len() && ends(&entries[at - 1]) && ends(&entries[at]);
    (kept..entries.len()).find(|at| !between(*at)).unwrap_or(entries.len())
}

#[async_trait]
impl RunStore for Deadly {
    async fn append(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        match self.kept(&entries) {
            None => self.store.append(lease, entries).await,
            Some(kept) => self.end_after(lease, entries, kept).await,
        }
    }

    async fn append_text(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        match self.kept(&entries) {
            None => self.store.append_text(lease, entries).await,
            Some(kept) => self.end_after(lease, entries, kept).await,
        }
    }

    async fn end(
        &self,
        lease: &RunLease,
        entries: Vec<StoredEntry>,
        finished: FinishedRun,
    ) -> Result<Result<()>> {
        match self.kept(&entries) {
            None => self.store.end(lease, entries, finished).await,
            // All entries are one step, which is stored now without anything having learned of it.
            Some(kept) if kept == entries.len() => {
                self.store.end(lease, entries, finished).await??;
                end().await
            }
            Some(kept) => self.end_after(lease, entries, kept).await,
        }
    }

    async fn create(&self, run: &StoredRun) -> Result<()> {
        self.store.create(run).await
    }

    async fn announce(&self, run: &StoredRun, revision: i64) -> Result<bool> {
        self.store.announce(run, revision).await
    }

    async fn claim(&self, run: &RunKey, seen: i64, by: &ProcessId) -> Result<Option<RunLease>> {
        self.store.claim(run, seen, by).await
    }

    async fn release(&self, leases: &[RunLease]) -> Result<()> {
        self.store.release(leases).await
    }

    async fn request_cancel(&self, run: &RunKey, now_ms: i64) -> Result<bool> {
        self.store.request_cancel(run, now_ms).await
    }

    async fn say_of_giving_way(&self, run: &RunKey, word: GiveWayWord) -> Result<bool> {
        self.store.say_of_giving_way(run, word).await
    }

    async fn requests(&self, owner: &ProcessId) -> Result<Vec<RunRequest>> {
        self.store.requests(owner).await
    }

    async fn unattended(&self, gone: &[ProcessId], count_max: u64) -> Result<Vec<StoredRun>> {
        self.store.unattended(gone, count_max).await
    }

    async fn finish(&self, lease: &RunLease, finished: FinishedRun) -> Result<()> {
        self.store.finish(lease, finished).await
    }

    async fn get(&self, key: &RunKey) -> Result<StoredRun> {
        self.store.get(key).await
    }

    async fn entries(&self, key: &RunKey, after_seq: u64, count_max: u64) -> Result<Vec<StoredEntry>> {
        self.store.entries(key, after_seq, count_max).await
    }

    async fn expired(&self, tenant: &TenantId, keep: &Retention, count_max: u64) -> Result<Vec<StoredRun>> {
        self.store.expired(tenant, keep, count_max).await
    }

    async fn remove(&self, runs: &[RunKey]) -> Result<u64> {
        self.store.remove(runs).await
    }

    async fn list(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<StoredRun>> {
        self.store.list(tenant, filter).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_endings_of_one_step_are_stored_together() {
        let entry = |kind: &str| StoredEntry {
            seq: 1,
            event: None,
            at_ms: 0,
            record: format!(r#"{{"type":"{kind}"}}"#).into(),
        };
        let entries = ["said", "node_finished", "node_finished", "run_finished"].map(entry);
        assert_eq!([0, 1, 2, 3, 4, 9].map(|kept| together(&entries, kept)), [0, 1, 3, 3, 4, 4]);
    }

    #[test]
    fn fault_points_are_parsed_strictly() {
        assert_eq!(FaultPoint::parse("before:1").unwrap(), FaultPoint::Before(1));
        assert_eq!(FaultPoint::parse("after:12").unwrap(), FaultPoint::After(12));
        for wrong in ["", "before", "before:0", "after:x", "during:3", "after:-1"] {
            assert!(FaultPoint::parse(wrong).is_err(), "{wrong}");
        }
    }
}
