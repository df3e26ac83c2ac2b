//! Shows the entries of a run to any number of readers, from any place, without ever slowing the
//! run: a reader that falls behind what is kept in memory goes on from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use weft_core::seam::RunStore;
use weft_core::{Entry, Error, ErrorKind, Result, RunKey};

/// Entries kept in memory for readers that are up to date, when there is a store to fall back on.
const KEPT_MAX: usize = 2_048;

/// Entries read from the store at a time.
const PAGE: u64 = 256;

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<Arc<Entry>>,
    closed: bool,
    /// Why it was closed before the run was over.
    broken_off: Option<BrokenOff>,
}

/// A run that this process no longer works on, although it is not over.
#[derive(Clone, Debug)]
pub struct BrokenOff {
    /// What readers branch on.
    pub kind: ErrorKind,
    /// What they are told.
    pub message: Arc<str>,
}

/// The live end of a run's journal.
#[derive(Debug)]
pub struct Feed {
    state: Mutex<State>,
    changed: Notify,
    kept_max: usize,
}

impl Feed {
    /// A feed in front of a store.
    pub fn stored() -> Arc<Self> {
        Self::new(KEPT_MAX)
    }

    /// A feed that keeps everything, for a run without a store. Its length is bounded by the run's
    /// own limits.
    pub fn whole() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    fn new(kept_max: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Notify::new(), kept_max })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows entries, which follow the last ones shown.
    pub fn show(&self, entries: &[Arc<Entry>]) {
        let mut state = self.lock();
        state.kept.extend(entries.iter().cloned());
        while state.kept.len() > self.kept_max {
            state.kept.pop_front();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Nothing more will come from here, although the run is not over: readers get an error after what
    /// has been shown.
    pub fn break_off(&self, why: BrokenOff) {
        let mut state = self.lock();
        state.closed = true;
        state.broken_off = Some(why);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }
}

enum Look {
    Found(Arc<Entry>),
    Behind,
    Over(Option<BrokenOff>),
    Wait,
}

impl Look {
    fn end(state: &State) -> Self {
        if state.closed { Self::Over(state.broken_off.clone()) } else { Self::Wait }
    }
}

/// One reader's place in a run's journal.
pub struct EntryReader {
    feed: Option<Arc<Feed>>,
    store: Option<(Arc<dyn RunStore>, RunKey)>,
    page: VecDeque<Arc<Entry>>,
    next_seq: u64,
    after_event: u64,
}

impl EntryReader {
    /// A reader of the events after number `after_event`; 0 for all.
    pub fn new(
        feed: Option<Arc<Feed>>,
        store: Option<(Arc<dyn RunStore>, RunKey)>,
        after_event: u64,
    ) -> Self {
        Self { feed, store, page: VecDeque::new(), next_seq: 1, after_event }
    }

    /// The next entry that clients see; `None` after the last.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn next_event(&mut self) -> Result<Option<Arc<Entry>>> {
        loop {
            match self.next().await? {
                Some(entry) if entry.event.is_some_and(|event| event > self.after_event) => {
                    return Ok(Some(entry));
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next entry of any kind; `None` after the last.
    ///
    /// # Errors
    /// When the store cannot be read; `Conflict` or `Unavailable` when this process no longer works on
    /// the run, which goes on elsewhere or later.
    pub async fn next(&mut self) -> Result<Option<Arc<Entry>>> {
        loop {
            if let Some(entry) = self.page.pop_front() {
                self.next_seq = entry.seq + 1;
                return Ok(Some(entry));
            }
            let Some(feed) = self.feed.clone() else {
                if self.read_page().await? { continue } else { return Ok(None) }
            };
            let changed = feed.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.look(&feed) {
                Look::Found(entry) => {
                    self.next_seq = entry.seq + 1;
                    return Ok(Some(entry));
                }
                Look::Behind if self.read_page().await? => {}
                Look::Behind | Look::Over(None) => return Ok(None),
                Look::Over(Some(why)) => {
                    let error = Error::new(why.kind, &*why.message);
                    return Err(error.help("read on from the number that you have"));
                }
                Look::Wait => changed.await,
            }
        }
    }

    fn look(&self, feed: &Feed) -> Look {
        let state = feed.lock();
        let Some(first) = state.kept.front().map(|entry| entry.seq) else {
            return Look::end(&state);
        };
        if self.next_seq < first {
            return Look::Behind;
        }
        let place = usize::try_from(self.next_seq - first).unwrap_or(usize::MAX);
        match state.kept.get(place) {
            Some(entry) => Look::Found(Arc::clone(entry)),
            None => Look::end(&state),
        }
    }

    async fn read_page(&mut self) -> Result<bool> {
        let Some((store, key)) = &self.store else { return Ok(false) };
        for stored in store.entries(key, self.next_seq - 1, PAGE).await? {
            let record = serde_json::from_str(&stored.record).map_err(|cause| {
                Error::internal(format!("cannot read entry {} of run {}", stored.seq, key.id)).because(cause)
            })?;
            let entry = Entry { seq: stored.seq, event: stored.event, at_ms: stored.at_ms, record };
            self.page.push_back(Arc::new(entry));
        }
        Ok(!self.page.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::Record;

    fn entry(seq: u64) -> Arc<Entry> {
        let record = Record::MessageReset { activation: None, node: "m".into() };
        Arc::new(Entry { seq, event: Some(seq), at_ms: 0, record })
    }

    #[tokio::test]
    async fn a_late_reader_sees_everything_and_then_the_end() {
        let feed = Feed::whole();
        feed.show(&[entry(1), entry(2)]);
        let mut reader = EntryReader::new(Some(Arc::clone(&feed)), None, 1);
        assert_eq!(reader.next_event().await.unwrap().unwrap().seq, 2);
        feed.show(&[entry(3)]);
        feed.close();
        assert_eq!(reader.next_event().await.unwrap().unwrap().seq, 3);
        assert_eq!(reader.next_event().await.unwrap(), None);
    }
}
