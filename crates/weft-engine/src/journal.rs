//! The journal of a run while it is written: records are numbered, stored, and only then shown to readers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::oneshot;
use weft_core::id::generate;
use weft_core::masking::{Masks, is_sealed, shown};
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredEntry};
use weft_core::seam::{Clock, RunStore};
use weft_core::{Entry, Error, ErrorKind, Record, Result, RunId};

use crate::counts::RunCounts;
use crate::feed::Feed;
use crate::weight::outputs_weight;

/// Maximum number of entries that wait to be stored. The run waits when it is reached.
const WAITING_MAX: usize = 1_024;

/// Number of waiting entries from which a write is started even if the run could produce more without waiting.
const GATHERED_MAX: usize = 64;

/// Maximum size of a write in progress, in bytes, with which the run continues. Beyond it the run waits, because its
/// further entries would accumulate in memory.
const IN_FLIGHT_BYTES_MAX: u64 = 8 << 20;

/// Initial capacity of the buffer for a record as JSON, in bytes. Most records are smaller.
const RECORD_BYTES: usize = 256;
/// Fields of records that are never masked: they hold names and numbers of the journal, not content.
const UNMASKED: [&str; 12] = [
    "activation",
    "by",
    "canvas",
    "canvas_version",
    "effect",
    "frame",
    "key",
    "node",
    "route",
    "session",
    "type",
    "who",
];

/// The journal of one run, as its driver writes it. While one batch is being stored, the next one accumulates, so the
/// batches grow when the store is slow.
pub struct RunJournal {
    lease: RunLease,
    store: Option<Arc<dyn RunStore>>,
    feed: Arc<Feed>,
    /// Counts stored records; absent for trial runs.
    counts: Option<Arc<RunCounts>>,
    clock: Arc<dyn Clock>,
    /// The numbers of the last entry and of the last event that were assigned.
    seq: u64,
    event: u64,
    /// Number of bytes written so far, and of the write in progress.
    bytes: u64,
    in_flight_bytes: u64,
    /// The numbers of the last entry and of the last event that were stored and shown.
    shown: (u64, u64),
    /// Entries for the next write.
    waiting: Vec<Arc<Entry>>,
    masks: Masks,
    /// The stored form of entries that contain a secret, by number.
    sealed: BTreeMap<u64, Arc<str>>,
    /// The write in progress, at most one. It is only polled when it wakes the run, because the run is also woken by
    /// every piece of text.
    in_flight: FuturesUnordered<BoxFuture<'static, Result<Vec<Arc<Entry>>>>>,
    /// Who waits for an entry to be stored, by its number.
    awaited: VecDeque<(u64, oneshot::Sender<Duration>)>,
    /// When the write in progress began, as [`Clock::running`] returns it.
    asked: Duration,
    /// Why this journal cannot store anything more.
    broken: Option<JournalFailure>,
}

/// Why a journal cannot be continued.
#[derive(Clone, Debug)]
pub enum JournalFailure {
    /// Another process has the lease of the run and writes its journal.
    Lost(Arc<Error>),
    /// The store did not confirm the write, in spite of all retries. The process that resumes the run finds out whether
    /// it was stored.
    Unsure(Arc<Error>),
    /// The store refuses the write for good.
    Refused(Arc<Error>),
}

impl JournalFailure {
    fn new(error: Error) -> Self {
        match error.kind {
            ErrorKind::Conflict => Self::Lost(error.into()),
            ErrorKind::NotFound | ErrorKind::Invalid => Self::Refused(error.into()),
            _ => Self::Unsure(error.into()),
        }
    }

    fn error(&self) -> Error {
        let (Self::Lost(cause) | Self::Unsure(cause) | Self::Refused(cause)) = self;
        Error::new(cause.kind, "cannot record what the run does").because(Arc::clone(cause))
    }
}

impl RunJournal {
    /// Continues a journal after its last entry and event; `bytes` is its size so far.
    #[must_use]
    pub fn after(self, seq: u64, event: u64, bytes: u64) -> Self {
        Self { seq, event, shown: (seq, event), bytes, ..self }
    }

    /// Counts the stored records in `counts`.
    #[must_use]
    pub fn counted_in(self, counts: Arc<RunCounts>) -> Self {
        Self { counts: Some(counts), ..self }
    }

    /// Returns the size of its entries in bytes, as far as their writes have begun.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a record, and notifies `safe` when it is stored, with the time at which the confirming write began.
    pub fn note_awaited(&mut self, record: Record, safe: oneshot::Sender<Duration>) {
        self.note(record);
        self.awaited.push_back((self.seq, safe));
    }

    /// Notifies `safe` when everything so far is stored, as [`RunJournal::note_awaited`] does.
    pub fn await_stored(&mut self, safe: oneshot::Sender<Duration>) {
        if self.seq > self.shown.0 {
            self.awaited.push_back((self.seq, safe));
        } else {
            // The receiver may have been dropped.
            let _ = safe.send(self.asked);
        }
    }

    /// Creates an empty journal. Without a store, entries are shown immediately.
    pub fn new(
        lease: RunLease,
        store: Option<Arc<dyn RunStore>>,
        feed: Arc<Feed>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            lease,
            store,
            feed,
            counts: None,
            clock,
            seq: 0,
            event: 0,
            bytes: 0,
            in_flight_bytes: 0,
            shown: (0, 0),
            waiting: Vec::new(),
            masks: Masks::default(),
            sealed: BTreeMap::new(),
            in_flight: FuturesUnordered::new(),
            awaited: VecDeque::new(),
            asked: Duration::ZERO,
            broken: None,
        }
    }

    /// Masks secrets in entries that are shown, and seals them in entries that are stored, from now on.
    pub fn mask(&mut self, masks: Masks) {
        self.masks = masks;
    }

    /// Adds a record. It is stored and shown soon; see [`RunJournal::flush`].
    pub fn note(&mut self, record: Record) {
        // Read first: if the clock panics, no number is skipped.
        let at_ms = self.clock.now_ms();
        self.seq += 1;
        let event = record.is_event().then(|| {
            self.event += 1;
            self.event
        });
        let record = self.masked(record);
        self.waiting.push(Arc::new(Entry { seq: self.seq, event, at_ms, record }));
    }

    fn masked(&mut self, record: Record) -> Record {
        if self.masks.is_empty() {
            return record;
        }
        let Ok(plain) = serde_json::to_value(&record) else { return record };
        let Some(sealed) = self.masks.sealed(&plain, &UNMASKED) else { return record };
        let Ok(sealed) = serde_json::to_string(&sealed) else { return record };
        // A secret that equals a keyword of the journal would make the record unreadable.
        let Ok(shown) = serde_json::from_str(&shown(&sealed)) else { return record };
        // Otherwise the record only contained text that looks like a mark, which was removed.
        if is_sealed(&sealed) {
            self.sealed.insert(self.seq, sealed.into());
        }
        shown
    }

    /// Returns the id of its run.
    pub fn run(&self) -> &RunId {
        &self.lease.run.id
    }

    /// Returns the current time by the clock that entries are stamped with, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Returns whether the run should wait for the store before it continues.
    pub fn is_full(&self) -> bool {
        let large = self.is_writing() && self.in_flight_bytes > IN_FLIGHT_BYTES_MAX;
        large || self.waiting.len() >= WAITING_MAX
    }

    /// Returns whether entries are stored.
    pub fn is_stored(&self) -> bool {
        self.store.is_some()
    }

    /// Returns whether a write is in progress.
    pub fn is_writing(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Returns whether entries wait to be written and no write is in progress.
    pub fn can_write(&self) -> bool {
        self.in_flight.is_empty() && !self.waiting.is_empty()
    }

    /// Returns whether enough entries wait to start a write now, or the journal has failed.
    pub fn has_gathered(&self) -> bool {
        self.broken.is_some() || self.waiting.len() >= GATHERED_MAX
    }

    /// Starts to write the waiting entries, unless a write is in progress.
    ///
    /// # Errors
    /// When a record cannot be written as JSON, or an earlier write has failed.
    pub fn begin_write(&mut self) -> Result<()> {
        if let Some(broken) = &self.broken {
            return Err(broken.error());
        }
        if self.is_writing() || self.waiting.is_empty() {
            return Ok(());
        }
        let Some(store) = self.store.clone() else {
            // Nothing is stored, but the feed keeps all entries in memory, so they count.
            let entries = std::mem::take(&mut self.waiting);
            self.asked = self.clock.running();
            self.bytes += entries.iter().map(|entry| kept_bytes(&entry.record)).sum::<u64>();
            self.show(&entries);
            return Ok(());
        };
        let (entries, stored) = self.take()?;
        let lease = self.lease.clone();
        // The store may delay an append of text, but a caller that waits for an entry should not be delayed.
        let text = self.awaited.is_empty() && entries.iter().all(|entry| is_text(&entry.record));
        let write = async move {
            if text {
                store.append_text(&lease, stored).await?;
            } else {
                store.append(&lease, stored).await?;
            }
            Ok(entries)
        };
        self.in_flight.push(write.boxed());
        Ok(())
    }

    /// Takes the waiting entries, in the form in which they are shown and in the form in which they are stored.
    fn take(&mut self) -> Result<(Vec<Arc<Entry>>, Vec<StoredEntry>)> {
        let entries = std::mem::take(&mut self.waiting);
        self.asked = self.clock.running();
        let mut text = Vec::with_capacity(RECORD_BYTES);
        let stored = entries.iter().map(|entry| self.stored(entry, &mut text)).collect::<Result<Vec<_>>>()?;
        self.in_flight_bytes = stored.iter().map(|entry| entry.record.len() as u64).sum();
        self.bytes += self.in_flight_bytes;
        Ok((entries, stored))
    }

    /// Converts an entry to its stored form; `text` is a buffer that is reused.
    fn stored(&self, entry: &Entry, text: &mut Vec<u8>) -> Result<StoredEntry> {
        if let Some(sealed) = self.sealed.get(&entry.seq) {
            let record = Arc::clone(sealed);
            return Ok(StoredEntry { seq: entry.seq, event: entry.event, at_ms: entry.at_ms, record });
        }
        let fail =
            || Error::internal(format!("cannot write entry {} of run {}", entry.seq, self.lease.run.id));
        text.clear();
        serde_json::to_writer(&mut *text, &entry.record).map_err(|cause| fail().because(cause))?;
        let record = std::str::from_utf8(text).map_err(|cause| fail().because(cause))?.into();
        Ok(StoredEntry { seq: entry.seq, event: entry.event, at_ms: entry.at_ms, record })
    }

    /// Waits for the write in progress and shows its entries. Never returns when there is none, so that it can be a
    /// branch of a `select!`. Cancel safe.
    ///
    /// # Errors
    /// When the store refuses the write; then no entry of the batch is shown.
    pub async fn written(&mut self) -> Result<()> {
        let Some(result) = self.in_flight.next().await else { return std::future::pending().await };
        match result {
            Ok(entries) => {
                self.show(&entries);
                Ok(())
            }
            Err(error) => Err(self.broke(error)),
        }
    }

    fn broke(&mut self, error: Error) -> Error {
        // Dropping the senders tells the receivers that their entries will not be stored.
        self.awaited.clear();
        self.broken.insert(JournalFailure::new(error)).error()
    }

    fn show(&mut self, entries: &[Arc<Entry>]) {
        for entry in entries {
            self.shown = (entry.seq, entry.event.unwrap_or(self.shown.1));
            self.sealed.remove(&entry.seq);
            if let Some(counts) = &self.counts {
                counts.note(&entry.record);
            }
        }
        self.feed.show(entries);
        while let Some((_, safe)) = self.awaited.pop_front_if(|(seq, _)| *seq <= self.shown.0) {
            // The receiver may have been dropped.
            let _ = safe.send(self.asked);
        }
    }

    /// Stores and shows all entries.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn flush(&mut self) -> Result<()> {
        loop {
            if self.is_writing() {
                self.written().await?;
            }
            self.begin_write()?;
            if !self.is_writing() {
                return Ok(());
            }
        }
    }

    /// Stores all entries together with the ending of the run, and shows them.
    ///
    /// # Errors
    /// When the store refuses the entries. The inner result fails when it has stored them but not the ending.
    pub async fn end(&mut self, finished: FinishedRun) -> Result<Result<()>> {
        if self.is_writing() {
            self.written().await?;
        }
        let Some(store) = self.store.clone() else { return self.flush().await.map(Ok) };
        if let Some(broken) = &self.broken {
            return Err(broken.error());
        }
        let (entries, stored) = self.take()?;
        match store.end(&self.lease, stored, finished).await {
            Ok(noted) => {
                self.show(&entries);
                Ok(noted)
            }
            Err(error) => Err(self.broke(error)),
        }
    }

    /// Returns why nothing more can be stored, if that is the case.
    pub fn broken(&self) -> Option<&JournalFailure> {
        self.broken.as_ref()
    }

    /// Discards all entries that were not stored. They were never shown, so their numbers are reused.
    pub fn go_back(&mut self) {
        self.broken = None;
        self.in_flight.clear();
        self.waiting.clear();
        self.sealed.clear();
        self.awaited.clear();
        (self.seq, self.event) = self.shown;
    }

    /// Shows the last record without storing it, after the store has failed.
    pub fn show_unstored(&mut self, record: Record) {
        self.go_back();
        self.note(record);
        let entries = std::mem::take(&mut self.waiting);
        self.show(&entries);
    }
}

/// Returns a record in its stored form, with seals in place of secrets.
///
/// # Errors
/// When it cannot be written as JSON.
pub(crate) fn written(record: &Record, masks: &Masks) -> serde_json::Result<String> {
    if masks.is_empty() {
        return serde_json::to_string(record);
    }
    let plain = serde_json::to_value(record)?;
    match masks.sealed(&plain, &UNMASKED) {
        Some(sealed) => serde_json::to_string(&sealed),
        None => serde_json::to_string(record),
    }
}

/// Returns whether it is text, which only readers wait for.
fn is_text(record: &Record) -> bool {
    matches!(record, Record::Said { .. })
}

/// Returns the approximate size of a record in memory, in bytes. Frequent records are estimated, because serializing
/// them only to measure them would be slow.
fn kept_bytes(record: &Record) -> u64 {
    let content = match record {
        Record::NodeStarted { .. } => 0,
        Record::Said { text, .. } => text.len(),
        Record::NodeFinished { inputs, outputs, .. } => outputs_weight(inputs) + outputs_weight(outputs),
        other => return written_bytes(other),
    };
    (RECORD_BYTES + content) as u64
}

/// Returns the size of a record as JSON, in bytes.
pub(crate) fn written_bytes(record: &Record) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A record that cannot be serialized causes an error when it is written.
    let _ = serde_json::to_writer(&mut count, record);
    count.0
}

/// Returns a unique name for a writer.
pub(crate) fn writer() -> Arc<str> {
    generate().into()
}
