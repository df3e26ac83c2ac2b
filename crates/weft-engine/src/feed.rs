//! Shows the entries of a run to any number of readers, from any position, without ever slowing down the run:
//! a reader that falls behind what is kept in memory continues from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use weft_core::masking::shown;
use weft_core::seam::RunStore;
use weft_core::seam::run_store::GiveWayWord;
use weft_core::{Entry, Error, ErrorKind, Record, Result, RunId, RunKey};

/// Maximum number of entries kept in memory for readers that have not taken them yet, when there is a store
/// to fall back on.
const KEPT_MAX: usize = 2_048;

/// Number of entries that a reader takes at a time, from memory or from the store.
const PAGE: usize = 256;

/// Initial pause between two polls of the store for entries of a run that another process works on.
const LOOK_MIN: Duration = Duration::from_millis(100);

/// Longest such pause: each poll that finds nothing doubles it.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Pause between two checks for a waiting question that asks whether the run has listeners. The question is
/// repeated as often.
const ANSWER_EVERY: Duration = Duration::from_secs(1);

/// Below any count of such requests, which starts at 0. A reader begins with it and so announces itself
/// before any request: the process that works on the run then knows that it has to ask before it stops the
/// run.
const NEVER_ASKED: i64 = -1;

#[derive(Debug, Default)]
struct FeedState {
    kept: VecDeque<Arc<Entry>>,
    /// The number of the last entry shown.
    shown: u64,
    /// The number of the entry that each reader takes next.
    readers: Vec<(ReaderId, u64)>,
    next_reader: ReaderId,
    closed: bool,
    /// Why it was closed before the run was over, if it was.
    broken_off: Option<BrokenOff>,
    /// Whether the last reader that left had received a complete message, with nothing said since.
    heard_out: bool,
}

type ReaderId = u64;

impl FeedState {
    /// Drops the entries that every reader has taken, and those beyond the limit: a reader that far behind
    /// reads the store. Nothing else needs them in memory, so long runs take no more of it than short ones.
    fn let_go(&mut self, kept_max: usize) {
        let taken = self.readers.iter().map(|(_, next)| *next).min().unwrap_or(u64::MAX);
        while let Some(first) = self.kept.front()
            && (first.seq < taken || self.kept.len() > kept_max)
        {
            self.kept.pop_front();
        }
    }
}

/// The reason for which this process no longer works on an unfinished run.
#[derive(Clone, Debug)]
pub struct BrokenOff {
    /// The kind of error that readers get.
    pub kind: ErrorKind,
    /// The message that readers get.
    pub message: Arc<str>,
}

impl BrokenOff {
    /// Returns the reason for a process that has stopped: another one resumes the run.
    pub fn handed_over(run: &RunId) -> Self {
        let message = format!("this process is stopping; run {run} continues in the next one").into();
        Self { kind: ErrorKind::Unavailable, message }
    }

    /// Returns the reason for a process that has stopped and does not work on the run.
    pub(crate) fn elsewhere(run: &RunId) -> Self {
        let message = format!("this process is stopping; run {run} continues in another one").into();
        Self { kind: ErrorKind::Unavailable, message }
    }
}

/// The live end of a run's journal.
#[derive(Debug)]
pub struct Feed {
    state: Mutex<FeedState>,
    changed: Notify,
    /// Number of entries kept for readers that are behind; if absent, all are kept, also for later readers.
    kept_max: Option<usize>,
}

impl Feed {
    /// Creates a feed in front of a store.
    pub fn stored() -> Arc<Self> {
        Self::new(Some(KEPT_MAX))
    }

    /// Creates a feed that keeps everything, for a run without a store. Its length is bounded by the run's
    /// own limits.
    pub fn whole() -> Arc<Self> {
        Self::new(None)
    }

    fn new(kept_max: Option<usize>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Notify::new(), kept_max })
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run has a reader, or the last one left after a complete message. A run whose client left
    /// in the middle of a message has no listener; a run that still works after its message is about to end
    /// anyway.
    pub fn is_listened_to(&self) -> bool {
        let state = self.lock();
        !state.readers.is_empty() || state.heard_out
    }

    /// Shows entries that follow those shown before.
    pub fn show(&self, entries: &[Arc<Entry>]) {
        let Some(last) = entries.last() else { return };
        let mut state = self.lock();
        if state.heard_out && entries.iter().any(|entry| matches!(entry.record, Record::Said { .. })) {
            state.heard_out = false;
        }
        state.shown = last.seq;
        state.kept.extend(entries.iter().cloned());
        if let Some(kept_max) = self.kept_max {
            state.let_go(kept_max);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn enter(&self, next_seq: u64) -> ReaderId {
        let mut state = self.lock();
        state.next_reader += 1;
        let id = state.next_reader;
        state.readers.push((id, next_seq));
        id
    }

    fn leave(&self, reader: ReaderId) {
        let mut state = self.lock();
        state.readers.retain(|(id, _)| *id != reader);
        if let Some(kept_max) = self.kept_max {
            state.let_go(kept_max);
        }
    }

    /// Takes up to one page of entries for a reader, in a single look: most readers find what one write has shown.
    fn take(&self, reader: ReaderId, next_seq: u64, page: &mut VecDeque<Arc<Entry>>) -> FeedRead {
        let mut state = self.lock();
        let first = state.kept.front().map_or(state.shown + 1, |entry| entry.seq);
        let look = match next_seq.checked_sub(first) {
            None => FeedRead::Behind,
            Some(place) => {
                let place = usize::try_from(place).unwrap_or(usize::MAX).min(state.kept.len());
                page.extend(state.kept.range(place..).take(PAGE).cloned());
                if page.is_empty() { FeedRead::end(&state) } else { FeedRead::Found }
            }
        };
        let next_seq = page.back().map_or(next_seq, |last| last.seq + 1);
        if let Some((_, next)) = state.readers.iter_mut().find(|(id, _)| *id == reader) {
            *next = next_seq;
        }
        if let Some(kept_max) = self.kept_max {
            state.let_go(kept_max);
        }
        look
    }

    /// Closes the feed of an unfinished run: readers get an error after what has been shown.
    pub fn break_off(&self, why: BrokenOff) {
        let mut state = self.lock();
        state.closed = true;
        state.broken_off.get_or_insert(why);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Closes the feed: nothing more will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }
}

/// What a reader finds in the feed.
enum FeedRead {
    /// The entries are in its page.
    Found,
    /// The entry that it reads next is no longer in memory.
    Behind,
    Over(Option<BrokenOff>),
    Wait,
}

impl FeedRead {
    fn end(state: &FeedState) -> Self {
        if state.closed { Self::Over(state.broken_off.clone()) } else { Self::Wait }
    }
}

/// What the client of a reader receives while the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hears {
    /// Each entry as it comes; `whole` is whether the last message it received is complete.
    Everything { whole: bool },
    /// Nothing before the end.
    TheEnd,
}

/// Returns what a reader that has read everything gets.
fn ended(why: Option<BrokenOff>) -> Result<Option<Arc<Entry>>> {
    let Some(why) = why else { return Ok(None) };
    Err(Error::new(why.kind, &*why.message).help("continue from the last number that you have read"))
}

/// One reader's position in a run's journal.
pub struct EntryReader {
    feed: Option<(Arc<Feed>, ReaderId)>,
    store: Option<(Arc<dyn RunStore>, RunKey)>,
    /// Entries that were read but not yet returned.
    page: VecDeque<Arc<Entry>>,
    /// The number of the entry to be read next.
    next_seq: u64,
    /// The number of the last event that the client already has.
    after_event: u64,
    /// Pause before the next poll of the store.
    pause: Duration,
    /// Task that answers whether the run has listeners while it is not fed by this process. Few readers have one.
    listening: Option<Box<JoinSet<()>>>,
    /// Finds the run's feed, should this process resume the run, or stop.
    find: Option<Find>,
    hears: Hears,
}

impl Drop for EntryReader {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Finds the live end of a run's journal, if the run is under way in this process.
pub type Find = Arc<dyn Fn(&RunKey) -> Option<Arc<Feed>> + Send + Sync>;

impl EntryReader {
    /// Creates a reader of the events after number `after_event`; 0 for all.
    pub fn new(
        feed: Option<Arc<Feed>>,
        store: Option<(Arc<dyn RunStore>, RunKey)>,
        after_event: u64,
    ) -> Self {
        let (page, next_seq, pause) = (VecDeque::new(), 1, LOOK_MIN);
        let hears = Hears::Everything { whole: false };
        let (find, listening) = (None, None);
        let mut reader =
            Self { feed: None, store, page, next_seq, after_event, pause, listening, find, hears };
        reader.enter(feed);
        reader
    }

    /// Lets the reader call `find` repeatedly while another process, or none, works on the run.
    #[must_use]
    pub fn finding(mut self, find: Find) -> Self {
        self.find = Some(find);
        self
    }

    /// Marks the reader's client as one that gets a single answer at the end: until then it has received nothing.
    #[must_use]
    pub fn answering_at_the_end(mut self) -> Self {
        self.hears = Hears::TheEnd;
        self
    }

    /// Reads from this feed from now on, and registers as one of its readers.
    fn enter(&mut self, feed: Option<Arc<Feed>>) {
        self.leave();
        if feed.is_some() {
            self.listening = None;
        }
        self.feed = feed.map(|feed| {
            let id = feed.enter(self.next_seq);
            (feed, id)
        });
    }

    /// Stops reading the live end: nothing need be kept in memory for this reader any more.
    fn leave(&mut self) {
        if let Some((feed, id)) = self.feed.take() {
            let whole = self.hears == Hears::Everything { whole: true };
            feed.lock().heard_out = whole;
            feed.leave(id);
        }
    }

    /// Notes that an entry is returned to the client.
    fn note_told(&mut self, entry: &Entry) {
        self.next_seq = entry.seq + 1;
        let Hears::Everything { whole } = &mut self.hears else { return };
        match &entry.record {
            Record::Said { .. } => *whole = false,
            Record::MessageEnded { .. } => *whole = true,
            _ => {}
        }
    }

    /// Returns the next entry that clients see; `None` after the last.
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

    /// Returns the next entry of any kind; `None` after the last. While another process works on the run,
    /// entries are read from the store; while none does, the reader waits for one that resumes it.
    ///
    /// # Errors
    /// When the store cannot be read; `Unavailable` when this process no longer works on the run, which is
    /// resumed later.
    pub async fn next(&mut self) -> Result<Option<Arc<Entry>>> {
        loop {
            if let Some(entry) = self.page.pop_front() {
                self.note_told(&entry);
                return Ok(Some(entry));
            }
            let Some((feed, id)) = self.feed.clone() else {
                if self.read_page().await? || self.may_go_on().await? {
                    continue;
                }
                return Ok(None);
            };
            let mut look = feed.take(id, self.next_seq, &mut self.page);
            if matches!(look, FeedRead::Wait) {
                let changed = feed.changed.notified();
                tokio::pin!(changed);
                // Registered before looking again, so that entries shown in between wake this task.
                changed.as_mut().enable();
                look = feed.take(id, self.next_seq, &mut self.page);
                if matches!(look, FeedRead::Wait) {
                    changed.await;
                    continue;
                }
            }
            match look {
                FeedRead::Found | FeedRead::Wait => {}
                FeedRead::Behind if self.read_page().await? => {}
                FeedRead::Behind => return Ok(None),
                FeedRead::Over(why) if self.goes_on_in_store(why.as_ref()) => self.leave(),
                FeedRead::Over(why) => return ended(why),
            }
        }
    }

    /// Returns the next entry without waiting and without the store; `None` when neither an entry nor the end
    /// is available.
    ///
    /// # Errors
    /// As [`EntryReader::next`].
    pub fn next_there(&mut self) -> Option<Result<Option<Arc<Entry>>>> {
        if self.page.is_empty() {
            let (feed, id) = self.feed.as_ref()?;
            if let FeedRead::Over(why) = feed.take(*id, self.next_seq, &mut self.page) {
                return if self.goes_on_in_store(why.as_ref()) { None } else { Some(ended(why)) };
            }
        }
        self.page.pop_front().map(|entry| {
            self.note_told(&entry);
            Ok(Some(entry))
        })
    }

    /// Whether this process stopped working on the run before it was over. It has logged the cause where it
    /// is known, so an error that follows from it need not be logged again.
    pub fn is_broken_off(&self) -> bool {
        self.feed.as_ref().is_some_and(|(feed, _)| feed.lock().broken_off.is_some())
    }

    /// Whether reading continues from the store: the process that owns the run now writes to the same store.
    fn goes_on_in_store(&self, why: Option<&BrokenOff>) -> bool {
        self.store.is_some() && why.is_some_and(|why| why.kind == ErrorKind::Conflict)
    }

    /// Whether there may be more entries of a run that is not fed by this process; if so, waits a moment.
    async fn may_go_on(&mut self) -> Result<bool> {
        let Some((store, key)) = &self.store else { return Ok(false) };
        let run = store.get(key).await?;
        if run.ending.is_some() {
            // Its last entries may have been written between the two reads.
            return self.read_page().await;
        }
        self.listening.get_or_insert_with(|| {
            let mut listening = JoinSet::new();
            listening.spawn(say_that_somebody_listens(Arc::clone(store), key.clone()));
            Box::new(listening)
        });
        tokio::time::sleep(self.pause).await;
        self.pause = LOOK_MAX.min(self.pause * 2);
        // In the meantime, this process may have picked the run up: then it is fed here.
        let found = self.find.as_ref().and_then(|find| find(key));
        self.enter(found);
        Ok(true)
    }

    /// Reads the next entries from the store. Returns whether there were any.
    async fn read_page(&mut self) -> Result<bool> {
        let Some((store, key)) = &self.store else { return Ok(false) };
        for stored in store.entries(key, self.next_seq - 1, PAGE as u64).await? {
            let record = serde_json::from_str(&shown(&stored.record)).map_err(|cause| {
                Error::internal(format!("cannot read entry {} of run {}", stored.seq, key.id)).because(cause)
            })?;
            let entry = Entry { seq: stored.seq, event: stored.event, at_ms: stored.at_ms, record };
            self.page.push_back(Arc::new(entry));
        }
        if !self.page.is_empty() {
            // A run that has just written will probably write again soon.
            self.pause = LOOK_MIN;
        }
        Ok(!self.page.is_empty())
    }
}

/// Announces that a run has a listener and, while the run goes on, answers each request that asks for one. A
/// reader cannot do this itself: while its client takes nothing, it does not poll.
async fn say_that_somebody_listens(store: Arc<dyn RunStore>, key: RunKey) {
    let mut answered = NEVER_ASKED;
    loop {
        match answer_who_asks(store.as_ref(), &key, answered).await {
            Ok(Some(asked)) => answered = asked,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(error = error.detail(), "cannot record that a run has listeners");
            }
        }
        tokio::time::sleep(ANSWER_EVERY).await;
    }
}

/// Answers once that the run has a listener, if there were requests after those `answered`. Returns the
/// number of requests so far; `None` when the run has ended.
async fn answer_who_asks(store: &dyn RunStore, key: &RunKey, answered: i64) -> Result<Option<i64>> {
    let run = store.get(key).await?;
    if run.ending.is_some() {
        return Ok(None);
    }
    if run.give_way.asked > answered {
        store.say_of_giving_way(key, GiveWayWord::Listened).await?;
    }
    Ok(Some(run.give_way.asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::component::MessageEnd;

    fn entry(seq: u64) -> Arc<Entry> {
        let record = Record::MessageReset { activation: None, node: "m".into() };
        Arc::new(Entry { seq, event: Some(seq), at_ms: 0, record })
    }

    #[tokio::test]
    async fn events_read_by_all_readers_are_dropped() {
        let feed = Feed::stored();
        let kept = || feed.lock().kept.len();
        let reader = || EntryReader::new(Some(Arc::clone(&feed)), None, 0);
        let (mut fast, mut slow) = (reader(), reader());
        feed.show(&[entry(1), entry(2)]);
        for seq in [1, 2] {
            assert_eq!(fast.next().await.unwrap().unwrap().seq, seq);
        }
        assert_eq!(kept(), 2, "the other reader has taken nothing");
        assert_eq!(slow.next().await.unwrap().unwrap().seq, 1);
        assert_eq!(kept(), 0);
        feed.show(&[entry(3)]);
        assert_eq!(kept(), 1);
        drop((fast, slow));
        assert_eq!(kept(), 0);
        // A late reader finds it in the store, and there is none here.
        assert_eq!(reader().next().await.unwrap(), None);
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

    fn said(seq: u64) -> Arc<Entry> {
        let record = Record::Said { activation: 1, node: "m".into(), text: "so".into() };
        Arc::new(Entry { seq, event: Some(seq), at_ms: 0, record })
    }

    fn ended(seq: u64) -> Arc<Entry> {
        let record = Record::MessageEnded { activation: 1, node: "m".into(), end: MessageEnd::default() };
        Arc::new(Entry { seq, event: Some(seq), at_ms: 0, record })
    }

    #[tokio::test]
    async fn a_run_continued_elsewhere_is_distinguished_from_a_failure() {
        let feed = Feed::whole();
        let mut reader = EntryReader::new(Some(Arc::clone(&feed)), None, 0);
        assert!(!reader.is_broken_off());
        feed.break_off(BrokenOff::handed_over(&"r".into()));
        assert_eq!(reader.next().await.unwrap_err().kind, ErrorKind::Unavailable);
        assert!(reader.is_broken_off());
    }

    #[tokio::test]
    async fn a_reader_that_leaves_after_a_whole_message_has_listened() {
        let feed = Feed::whole();
        assert!(!feed.is_listened_to());
        feed.show(&[said(1), ended(2)]);
        let reader = || EntryReader::new(Some(Arc::clone(&feed)), None, 0);
        let mut early = reader();
        assert!(feed.is_listened_to());
        early.next().await.unwrap();
        drop(early);
        assert!(!feed.is_listened_to(), "it left during the message");
        let (mut one, mut late) = (reader(), reader());
        for _ in 0..2 {
            one.next().await.unwrap();
        }
        drop(one);
        assert!(feed.is_listened_to());
        late.next().await.unwrap();
        late.next().await.unwrap();
        drop(late);
        assert!(feed.is_listened_to(), "the run may use the rest");
        feed.show(&[entry(3)]);
        assert!(feed.is_listened_to());
        feed.show(&[said(4)]);
        assert!(!feed.is_listened_to(), "now it has no listener");
        let mut whole = reader().answering_at_the_end();
        for _ in 0..2 {
            whole.next().await.unwrap();
        }
        drop(whole);
        assert!(!feed.is_listened_to(), "nothing of it has been emitted");
    }
}
