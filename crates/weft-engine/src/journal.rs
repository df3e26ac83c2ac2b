//! Numbers what happened, stores it, and only then shows it.

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

/// Entries that may wait for the store before the run itself waits.
const WAITING_MAX: usize = 1_024;

/// Entries that are written although more can be done without waiting for anything.
const GATHERED_MAX: usize = 64;

/// While so many bytes are being written the run itself waits: what it would produce by then waits in
/// memory, too.
const IN_FLIGHT_BYTES_MAX: u64 = 8 << 20;

/// Room for a record as JSON to begin with; most have less.
const RECORD_BYTES: usize = 256;
/// What of a record is no content: names and numbers of the journal itself.
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

/// The journal of one run, as its driver writes it. While one batch is being stored the next one
/// gathers, so the number of writes follows the speed of the store.
pub struct RunJournal {
    lease: RunLease,
    store: Option<Arc<dyn RunStore>>,
    feed: Arc<Feed>,
    /// Where it is counted what was stored; absent for runs that are tried out.
    counts: Option<Arc<RunCounts>>,
    clock: Arc<dyn Clock>,
    /// The numbers of the last entry and of the last event that were given out.
    seq: u64,
    event: u64,
    /// How many bytes have been written, and are being written now.
    bytes: u64,
    in_flight_bytes: u64,
    /// The numbers of the last entry and of the last event that are stored, and so were shown.
    shown: (u64, u64),
    /// What gathers for the next write.
    waiting: Vec<Arc<Entry>>,
    masks: Masks,
    /// How entries are stored that hold a secret, by number.
    sealed: BTreeMap<u64, Arc<str>>,
    /// The write under way, one at most. It is looked at only when it wakes its run: that is woken by every word.
    in_flight: FuturesUnordered<BoxFuture<'static, Result<Vec<Arc<Entry>>>>>,
    /// Who waits for which entry to be stored.
    awaited: VecDeque<(u64, oneshot::Sender<Duration>)>,
    /// When the write under way began, as [`Clock::running`] tells it.
    asked: Duration,
    /// Why nothing more can be stored from here.
    broken: Option<JournalFailure>,
}

/// Why a journal cannot be gone on with.
#[derive(Clone, Debug)]
pub enum JournalFailure {
    /// Somebody else writes it now: the run belongs to them.
    Lost(Arc<Error>),
    /// The store did not take it, however often it was asked. Whether it did all the same is for whoever
    /// picks the run up to see.
    Unsure(Arc<Error>),
    /// The store will never take it.
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
    /// The same journal, to be gone on with after its last entry; it has so many bytes.
    #[must_use]
    pub fn after(self, seq: u64, event: u64, bytes: u64) -> Self {
        Self { seq, event, shown: (seq, event), bytes, ..self }
    }

    /// The same journal, whose records are counted.
    #[must_use]
    pub fn counted_in(self, counts: Arc<RunCounts>) -> Self {
        Self { counts: Some(counts), ..self }
    }

    /// How many bytes its entries have, as far as they have been written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a record, and tells `safe` when it is stored: how old the word of the store is at most.
    pub fn note_awaited(&mut self, record: Record, safe: oneshot::Sender<Duration>) {
        self.note(record);
        self.awaited.push_back((self.seq, safe));
    }

    /// Tells `safe` when everything so far is stored, as [`RunJournal::note_awaited`].
    pub fn await_stored(&mut self, safe: oneshot::Sender<Duration>) {
        if self.seq > self.shown.0 {
            self.awaited.push_back((self.seq, safe));
        } else {
            // Whoever waited may be gone.
            let _ = safe.send(self.asked);
        }
    }

    /// An empty journal. Without a store entries are shown at once.
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

    /// From here on secrets are masked in what is shown, and sealed in what is stored.
    pub fn mask(&mut self, masks: Masks) {
        self.masks = masks;
    }

    /// Adds a record. It is stored and shown soon; see [`RunJournal::flush`].
    pub fn note(&mut self, record: Record) {
        // First of all: should it break, no number is left out.
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
        // A secret that is a word of the journal's own would make it unreadable.
        let Ok(shown) = serde_json::from_str(&shown(&sealed)) else { return record };
        // Else somebody has written what looks like a mark, which is gone now.
        if is_sealed(&sealed) {
            self.sealed.insert(self.seq, sealed.into());
        }
        shown
    }

    /// Whose it is.
    pub fn run(&self) -> &RunId {
        &self.lease.run.id
    }

    /// The time that entries carry.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Whether the run should wait for the store before it goes on.
    pub fn is_full(&self) -> bool {
        let large = self.is_writing() && self.in_flight_bytes > IN_FLIGHT_BYTES_MAX;
        large || self.waiting.len() >= WAITING_MAX
    }

    /// Whether there is a store behind it.
    pub fn is_stored(&self) -> bool {
        self.store.is_some()
    }

    /// Whether a write is under way.
    pub fn is_writing(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether something waits to be written, and no write is under way.
    pub fn can_write(&self) -> bool {
        self.in_flight.is_empty() && !self.waiting.is_empty()
    }

    /// Whether so much waits to be written that nobody should wait for more.
    pub fn has_gathered(&self) -> bool {
        self.broken.is_some() || self.waiting.len() >= GATHERED_MAX
    }

    /// Begins to write what is waiting, unless a write is under way.
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
            // Nothing is written, but whoever watches keeps it all.
            let entries = std::mem::take(&mut self.waiting);
            self.asked = self.clock.running();
            self.bytes += entries.iter().map(|entry| kept_bytes(&entry.record)).sum::<u64>();
            self.show(&entries);
            return Ok(());
        };
        let (entries, stored) = self.take()?;
        let lease = self.lease.clone();
        // Whoever waits for an entry to be safe does not wait for the words of others.
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

    /// Takes what waits, as it is shown and as it is stored.
    fn take(&mut self) -> Result<(Vec<Arc<Entry>>, Vec<StoredEntry>)> {
        let entries = std::mem::take(&mut self.waiting);
        self.asked = self.clock.running();
        let mut text = Vec::with_capacity(RECORD_BYTES);
        let stored = entries.iter().map(|entry| self.stored(entry, &mut text)).collect::<Result<Vec<_>>>()?;
        self.in_flight_bytes = stored.iter().map(|entry| entry.record.len() as u64).sum();
        self.bytes += self.in_flight_bytes;
        Ok((entries, stored))
    }

    /// An entry for the store; `text` is room for its record, which many share.
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

    /// Waits for the write under way and shows what it stored. Never returns when there is none, so
    /// that it can stand in a `select!`; may be dropped and called again.
    ///
    /// # Errors
    /// When the store refuses; then nothing of the batch is shown.
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
        // Whoever waits for an entry to be safe is told that it will not be.
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
            // Whoever waited may be gone.
            let _ = safe.send(self.asked);
        }
    }

    /// Stores and shows everything.
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

    /// Stores everything, the last record included, together with how the run has ended, and shows it.
    ///
    /// # Errors
    /// When the store refuses the records. The inner one when it has them and refuses the note of the end.
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

    /// Why nothing more can be stored from here, if that is so.
    pub fn broken(&self) -> Option<&JournalFailure> {
        self.broken.as_ref()
    }

    /// Goes back to what was stored last: what came after it was never shown, so the numbers go on from
    /// there.
    pub fn go_back(&mut self) {
        self.broken = None;
        self.in_flight.clear();
        self.waiting.clear();
        self.sealed.clear();
        self.awaited.clear();
        (self.seq, self.event) = self.shown;
    }

    /// Shows the last record without storing it: there is nowhere to store it.
    pub fn show_unstored(&mut self, record: Record) {
        self.go_back();
        self.note(record);
        let entries = std::mem::take(&mut self.waiting);
        self.show(&entries);
    }
}

/// A record as it is stored: with marks in place of secrets.
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

/// Whether only readers wait for it.
fn is_text(record: &Record) -> bool {
    matches!(record, Record::Said { .. })
}

/// About how many bytes a record takes in memory, where it is not written. What there is much of is not
/// written for the sake of its length.
fn kept_bytes(record: &Record) -> u64 {
    let content = match record {
        Record::NodeStarted { .. } => 0,
        Record::Said { text, .. } => text.len(),
        Record::NodeFinished { inputs, outputs, .. } => outputs_weight(inputs) + outputs_weight(outputs),
        other => return written_bytes(other),
    };
    (RECORD_BYTES + content) as u64
}

/// How many bytes a record has as JSON.
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
    // What cannot be written as JSON is an error where it is written.
    let _ = serde_json::to_writer(&mut count, record);
    count.0
}

/// The name of a writer, which no other one has.
pub(crate) fn writer() -> Arc<str> {
    generate().into()
}
