//! A cache of the runs that this process writes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use weft_core::budget::Spent;
use weft_core::id::{CanvasId, RunKey, SessionKey};

use crate::lane::{JournalRow, Traffic};
use crate::pace::{Haste, Pace, RunPace};
use crate::pack::{pack_fast, unpack};
use crate::pieces::LIST;

/// Maximum number of cached runs.
const RUNS_KNOWN_MAX: usize = 16 * 1024;

/// Maximum size of the cached rows of a run, in bytes as written. They are cached until the run ends, when they are
/// merged.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Maximum memory of the cached rows of all runs, in bytes. Rows that are not cached are read again.
const KEPT_BYTES_OF_ALL_MAX: usize = 4 * 1024 * 1024;

/// Size in bytes from which cached rows are packed together. Each row holds a few words of an answer and they have
/// much in common, so packing saves five sixths of the memory.
const PACKED_FROM: usize = 2 * 1024;

/// The cached facts of runs that are being written. The primary key in the database decides, because another process
/// may write as well.
#[derive(Clone)]
pub(crate) struct KnownRuns(Arc<Mutex<KnownState>>);

struct KnownState {
    runs: HashMap<RunKey, KnownRun>,
    /// Memory of the cached rows of all runs, in bytes.
    kept_bytes: usize,
    pace: Pace,
}

/// The cached facts of a run.
struct KnownRun {
    last_seq: u64,
    /// Present if it began in this process.
    home: Option<LocalRun>,
    /// The pace of its appends; absent before the first one.
    heard: Option<RunPace>,
    /// All its rows, as long as their size is below the limit.
    rows: Option<KeptRows>,
}

/// The rows of a run in progress in this process; none of them is a list of pieces.
#[derive(Default)]
struct KeptRows {
    rows: Vec<KeptRow>,
    /// Number of rows at the end that are not packed together, and their size in bytes.
    loose: usize,
    loose_bytes: usize,
    /// Size of all rows in bytes, as written and as cached.
    written_bytes: usize,
    bytes: usize,
}

impl KeptRows {
    fn push(&mut self, first_seq: u64, body: &[u8]) {
        self.written_bytes += body.len();
        self.bytes += body.len();
        self.loose += 1;
        self.loose_bytes += body.len();
        self.rows.push(KeptRow { first_seq, count: 1, body: body.into() });
        if self.loose > 1 && self.loose_bytes >= PACKED_FROM {
            self.pack_loose();
        }
    }

    /// Packs the loose rows into one, unless they cannot be read or would grow.
    fn pack_loose(&mut self) {
        let from = self.rows.len().saturating_sub(self.loose);
        let bytes = std::mem::take(&mut self.loose_bytes);
        self.loose = 0;
        let packed = self.rows.get(from..).and_then(packed);
        if let Some(packed) = packed.filter(|packed| packed.body.len() < bytes) {
            self.bytes -= bytes - packed.body.len();
            self.rows.truncate(from);
            self.rows.push(packed);
        }
    }
}

/// Merges consecutive rows into one.
fn packed(rows: &[KeptRow]) -> Option<KeptRow> {
    let first_seq = rows.first()?.first_seq;
    let mut entries = Vec::new();
    for row in rows {
        // A packed row keeps the number of its first entry only.
        if row.first_seq.checked_sub(first_seq) != u64::try_from(entries.len()).ok() {
            return None;
        }
        entries.extend(unpack(row.first_seq, &row.body).ok()?);
    }
    let count = rows.iter().map(|row| row.count).sum();
    Some(KeptRow { first_seq, count, body: pack_fast(&entries).into() })
}

/// Consecutive rows of the journal, as written by this process.
#[derive(Clone)]
pub(crate) struct KeptRow {
    pub(crate) first_seq: u64,
    /// Number of rows of the table that it represents.
    pub(crate) count: usize,
    /// In the format of [`crate::pack`].
    pub(crate) body: Arc<[u8]>,
}

/// The cached facts of a run that began in this process and that no other process has taken over.
#[derive(Clone)]
pub(crate) struct LocalRun {
    pub(crate) session: SessionKey,
    pub(crate) canvas: CanvasId,
    /// The stored usage of the run, if known.
    pub(crate) noted: Option<Spent>,
}

impl KnownRuns {
    pub(crate) fn new() -> Self {
        let state = KnownState { runs: HashMap::new(), kept_bytes: 0, pace: Pace::new(Instant::now()) };
        Self(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, KnownState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn last_seq(&self, key: &RunKey) -> Option<u64> {
        self.lock().runs.get(key).map(|known| known.last_seq)
    }

    pub(crate) fn home(&self, key: &RunKey) -> Option<LocalRun> {
        self.lock().runs.get(key).and_then(|known| known.home.clone())
    }

    pub(crate) fn noted(&self, key: &RunKey, spent: Option<Spent>) {
        if let Some(home) = self.lock().runs.get_mut(key).and_then(|known| known.home.as_mut()) {
            home.noted = spent;
        }
    }

    /// Adds a run, or updates the number of its last entry as read from the table.
    pub(crate) fn set(&self, key: &RunKey, last_seq: u64, home: Option<LocalRun>) {
        let state = &mut *self.lock();
        if let Some(known) = state.runs.get_mut(key) {
            known.last_seq = last_seq;
            // Another process may have written since, so the cached rows may be incomplete.
            state.kept_bytes -= known.let_go();
            return;
        }
        state.add(key.clone(), last_seq, home);
    }

    /// Records that a row was stored.
    pub(crate) fn appended(&self, JournalRow { lease, first_seq, last_seq, body }: JournalRow) {
        let state = &mut *self.lock();
        let Some(known) = state.runs.get_mut(&lease.run) else {
            return state.add(lease.run, last_seq, None);
        };
        known.last_seq = last_seq;
        let Some(kept) = &mut known.rows else { return };
        // Entries in pieces have to be read from the table in any case.
        let in_pieces = body.first() == Some(&LIST);
        if in_pieces
            || kept.written_bytes + body.len() > KEPT_BYTES_MAX
            || state.kept_bytes + body.len() > KEPT_BYTES_OF_ALL_MAX
        {
            state.kept_bytes -= known.let_go();
            return;
        }
        state.kept_bytes -= kept.bytes;
        kept.push(first_seq, &body);
        state.kept_bytes += kept.bytes;
    }

    pub(crate) fn rows(&self, key: &RunKey) -> Option<Vec<KeptRow>> {
        self.lock().runs.get(key)?.rows.as_ref().map(|kept| kept.rows.clone())
    }

    /// Records that a run appends, and returns how urgent that is. An unknown run counts as its first append.
    pub(crate) fn hear(&self, key: &RunKey, haste: Haste) -> Haste {
        let KnownState { runs, pace, .. } = &mut *self.lock();
        let now = Instant::now();
        match runs.get_mut(key) {
            Some(known) => pace.hear(&mut known.heard, haste, now),
            // Not added here: whether the run exists is known when its row has been stored.
            None => pace.hear(&mut None, haste, now),
        }
    }

    /// Returns until when appends are batched if the most urgent one has this urgency.
    pub(crate) fn gather_until(&self, haste: Haste) -> Option<Instant> {
        self.lock().pace.until(haste, Instant::now())
    }

    /// Records that a write begins, and returns whether few or many runs append.
    pub(crate) fn write(&self) -> Traffic {
        let pace = &mut self.lock().pace;
        pace.write(Instant::now());
        pace.traffic()
    }

    pub(crate) fn forget(&self, key: &RunKey) {
        let state = &mut *self.lock();
        if let Some(mut known) = state.runs.remove(key) {
            state.kept_bytes -= known.let_go();
            known.heard.into_iter().for_each(|heard| state.pace.leave(heard));
        }
    }

    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }
}

impl KnownState {
    fn add(&mut self, key: RunKey, last_seq: u64, home: Option<LocalRun>) {
        // Entries dropped here are read again from the table.
        if self.runs.len() >= RUNS_KNOWN_MAX {
            self.clear();
        }
        let rows = home.is_some().then(KeptRows::default);
        self.runs.insert(key, KnownRun { last_seq, home, heard: None, rows });
    }

    fn clear(&mut self) {
        for (_, known) in self.runs.drain() {
            // Otherwise its next append would be counted as that of one more run.
            if let Some(heard) = known.heard {
                self.pace.leave(heard);
            }
        }
        self.kept_bytes = 0;
    }
}

impl KnownRun {
    /// Drops its cached rows, and returns their size in bytes.
    fn let_go(&mut self) -> usize {
        self.rows.take().map_or(0, |kept| kept.bytes)
    }
}

#[cfg(test)]
mod tests {
    use weft_core::TenantId;
    use weft_core::seam::run_store::{RunLease, StoredEntry};

    use super::*;

    fn begun(known: &KnownRuns, run: &str) -> RunKey {
        let (tenant, key) = (TenantId::from("t"), RunKey::new(&TenantId::from("t"), run));
        let home = LocalRun { session: SessionKey::new(&tenant, "s"), canvas: "c".into(), noted: None };
        known.set(&key, 0, Some(home));
        key
    }

    fn appended(known: &KnownRuns, run: &RunKey, first_seq: u64, body: Vec<u8>) {
        let lease = RunLease { run: run.clone(), fence: 1 };
        known.appended(JournalRow { lease, first_seq, last_seq: first_seq, body });
    }

    /// The row of one word, as it is written per word while few runs stream.
    fn word(nth: u64) -> Vec<u8> {
        let text = format!("w{nth} ");
        let record = serde_json::json!({"type": "said", "activation": 3, "node": "Message:M", "text": text});
        let record = record.to_string().into();
        pack_fast(&[StoredEntry { seq: nth, event: Some(nth), at_ms: 1_795_836_572_000, record }])
    }

    fn kept(known: &KnownRuns, run: &RunKey) -> Option<Vec<u64>> {
        known.rows(run).map(|rows| rows.iter().map(|row| row.first_seq).collect())
    }

    #[test]
    fn rows_of_a_run_are_cached_up_to_a_limit() {
        let known = KnownRuns::new();
        let run = begun(&known, "a");
        appended(&known, &run, 1, vec![1; KEPT_BYTES_MAX / 2]);
        appended(&known, &run, 2, vec![1; KEPT_BYTES_MAX / 2]);
        assert_eq!(kept(&known, &run), Some(vec![1, 2]));
        appended(&known, &run, 3, vec![1]);
        assert_eq!((kept(&known, &run), known.last_seq(&run)), (None, Some(3)));

        let with_pieces = begun(&known, "b");
        appended(&known, &with_pieces, 1, vec![LIST, 0]);
        assert_eq!(kept(&known, &with_pieces), None);

        // Another process may have continued this run, so it may have rows that this process does not know.
        let taken = begun(&known, "c");
        appended(&known, &taken, 1, vec![1]);
        known.set(&taken, 7, None);
        assert_eq!(kept(&known, &taken), None);
    }

    #[test]
    fn streamed_words_are_cached_compressed_and_come_back_unchanged() {
        let known = KnownRuns::new();
        let run = begun(&known, "a");
        let rows: Vec<Vec<u8>> = (1..=200).map(word).collect();
        let written: usize = rows.iter().map(Vec::len).sum();
        (1..).zip(&rows).for_each(|(seq, row)| appended(&known, &run, seq, row.clone()));

        let kept = known.rows(&run).unwrap();
        assert_eq!(kept.iter().map(|row| row.count).sum::<usize>(), rows.len());
        let back: Vec<_> = kept.iter().flat_map(|row| unpack(row.first_seq, &row.body).unwrap()).collect();
        let sent: Vec<_> = (1..).zip(&rows).flat_map(|(seq, row)| unpack(seq, row).unwrap()).collect();
        assert_eq!(back, sent);
        let bytes: usize = kept.iter().map(|row| row.body.len()).sum();
        assert!(bytes * 3 < written, "{bytes} of {written}");
        assert_eq!(known.lock().kept_bytes, bytes);
        known.forget(&run);
        assert_eq!(known.lock().kept_bytes, 0);
    }

    /// Otherwise the rows of a few runs would be written as those of many, which is slower for each of them.
    #[test]
    fn runs_that_were_dropped_from_the_cache_are_counted_once() {
        let known = KnownRuns::new();
        for _ in 0..3 {
            let runs = (0..6).map(|n| begun(&known, &n.to_string()));
            runs.for_each(|run| assert_eq!(known.hear(&run, Haste::Patient), Haste::AtOnce));
            known.forget_all();
        }
        assert_eq!(known.write(), Traffic::Low);
    }

    #[test]
    fn the_cache_of_all_runs_is_limited_and_freed() {
        let known = KnownRuns::new();
        let runs: Vec<RunKey> = (0..300).map(|n| begun(&known, &n.to_string())).collect();
        runs.iter().for_each(|run| appended(&known, run, 1, vec![1; KEPT_BYTES_MAX]));
        let keep = || runs.iter().filter(|run| kept(&known, run).is_some()).count();
        assert_eq!(keep(), KEPT_BYTES_OF_ALL_MAX / KEPT_BYTES_MAX);
        runs.iter().for_each(|run| known.forget(run));
        assert_eq!(known.lock().kept_bytes, 0);
    }
}
