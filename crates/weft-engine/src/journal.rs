//! Numbers what happened, stores it, and only then shows it.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use weft_core::id::generate;
use weft_core::seam::run_store::StoredEntry;
use weft_core::seam::{Clock, RunStore};
use weft_core::{Entry, Error, ErrorKind, Record, Result, RunId, RunKey};

use crate::feed::Feed;

/// Entries that may wait for the store before the run itself waits.
const WAITING_MAX: usize = 1_024;

/// The journal of one run, as its driver writes it. While one batch is being stored the next one
/// gathers, so the number of writes follows the speed of the store.
pub struct Journal {
    key: RunKey,
    store: Option<Arc<dyn RunStore>>,
    feed: Arc<Feed>,
    clock: Arc<dyn Clock>,
    seq: u64,
    event: u64,
    shown: (u64, u64),
    waiting: Vec<Arc<Entry>>,
    in_flight: Option<BoxFuture<'static, Result<Vec<Arc<Entry>>>>>,
    /// Who waits for which entry to be stored.
    awaited: VecDeque<(u64, oneshot::Sender<()>)>,
    /// Why nothing more can be stored from here.
    broken: Option<Broken>,
}

/// Why a journal cannot be gone on with.
#[derive(Clone, Debug)]
pub enum Broken {
    /// Somebody else writes it now: the run belongs to them.
    Lost(Arc<Error>),
    /// The store did not take it, however often it was asked. Whether it did all the same is for whoever
    /// picks the run up to see.
    Unsure(Arc<Error>),
    /// The store will never take it.
    Refused(Arc<Error>),
}

impl Broken {
    fn new(error: Error) -> Self {
        match error.kind {
            ErrorKind::Conflict => Self::Lost(error.into()),
            ErrorKind::NotFound | ErrorKind::Invalid => Self::Refused(error.into()),
            _ => Self::Unsure(error.into()),
        }
    }

    fn error(&self) -> Error {
        let (Self::Lost(cause) | Self::Unsure(cause) | Self::Refused(cause)) = self;
        Error::new(cause.kind, "cannot write down what the run does").because(Arc::clone(cause))
    }
}

impl Journal {
    /// The same journal, to be gone on with after its last entry.
    #[must_use]
    pub fn after(self, seq: u64, event: u64) -> Self {
        Self { seq, event, shown: (seq, event), ..self }
    }

    /// Adds a record, and tells `safe` when it is stored.
    pub fn note_awaited(&mut self, record: Record, safe: oneshot::Sender<()>) {
        self.note(record);
        self.awaited.push_back((self.seq, safe));
    }

    /// An empty journal. Without a store entries are shown at once.
    pub fn new(
        key: RunKey,
        store: Option<Arc<dyn RunStore>>,
        feed: Arc<Feed>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            key,
            store,
            feed,
            clock,
            seq: 0,
            event: 0,
            shown: (0, 0),
            waiting: Vec::new(),
            in_flight: None,
            awaited: VecDeque::new(),
            broken: None,
        }
    }

    /// Adds a record. It is stored and shown soon; see [`Journal::flush`].
    pub fn note(&mut self, record: Record) {
        // First of all: should it break, no number is left out.
        let at_ms = self.clock.now_ms();
        self.seq += 1;
        let event = record.is_event().then(|| {
            self.event += 1;
            self.event
        });
        self.waiting.push(Arc::new(Entry { seq: self.seq, event, at_ms, record }));
    }

    /// Whose it is.
    pub fn run(&self) -> &RunId {
        &self.key.id
    }

    /// The time that entries carry.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Whether the run should wait for the store before it goes on.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Whether there is a store behind it.
    pub fn is_stored(&self) -> bool {
        self.store.is_some()
    }

    /// Whether a write is under way.
    pub fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Begins to write what is waiting, unless a write is under way.
    ///
    /// # Errors
    /// When a record cannot be written as JSON, or an earlier write has failed.
    pub fn begin_write(&mut self) -> Result<()> {
        if let Some(broken) = &self.broken {
            return Err(broken.error());
        }
        if self.in_flight.is_some() || self.waiting.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.waiting);
        let Some(store) = self.store.clone() else {
            self.show(&entries);
            return Ok(());
        };
        let stored = entries.iter().map(|entry| self.stored(entry)).collect::<Result<Vec<_>>>()?;
        let key = self.key.clone();
        self.in_flight = Some(
            async move {
                store.append(&key, stored).await?;
                Ok(entries)
            }
            .boxed(),
        );
        Ok(())
    }

    fn stored(&self, entry: &Entry) -> Result<StoredEntry> {
        let record = serde_json::to_string(&entry.record).map_err(|cause| {
            Error::internal(format!("cannot write entry {} of run {}", entry.seq, self.key.id)).because(cause)
        })?;
        Ok(StoredEntry { seq: entry.seq, event: entry.event, at_ms: entry.at_ms, record: record.into() })
    }

    /// Waits for the write under way and shows what it stored. Never returns when there is none, so
    /// that it can stand in a `select!`; may be dropped and called again.
    ///
    /// # Errors
    /// When the store refuses; then nothing of the batch is shown.
    pub async fn written(&mut self) -> Result<()> {
        let Some(write) = self.in_flight.as_mut() else { return std::future::pending().await };
        let result = write.await;
        self.in_flight = None;
        match result {
            Ok(entries) => {
                self.show(&entries);
                Ok(())
            }
            Err(error) => {
                // Whoever waits for an entry to be safe is told that it will not be.
                self.awaited.clear();
                Err(self.broken.insert(Broken::new(error)).error())
            }
        }
    }

    fn show(&mut self, entries: &[Arc<Entry>]) {
        for entry in entries {
            self.shown = (entry.seq, entry.event.unwrap_or(self.shown.1));
        }
        self.feed.show(entries);
        while let Some((_, safe)) = self.awaited.pop_front_if(|(seq, _)| *seq <= self.shown.0) {
            // Whoever waited may be gone.
            let _ = safe.send(());
        }
    }

    /// Stores and shows everything.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn flush(&mut self) -> Result<()> {
        loop {
            if self.in_flight.is_some() {
                self.written().await?;
            }
            self.begin_write()?;
            if self.in_flight.is_none() {
                return Ok(());
            }
        }
    }

    /// Why nothing more can be stored from here, if that is so.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// Goes back to what was stored last: what came after it was never shown, so the numbers go on from
    /// there.
    pub fn go_back(&mut self) {
        self.broken = None;
        self.in_flight = None;
        self.waiting.clear();
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

/// The name of a writer, which no other one has.
pub fn writer() -> Arc<str> {
    generate().into()
}
