//! Shows the entries of a run to any number of readers, from any place, without ever slowing the
//! run: a reader that falls behind what is kept in memory goes on from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use weft_core::masking::shown;
use weft_core::seam::RunStore;
use weft_core::seam::run_store::GiveWayWord;
use weft_core::{Entry, Error, ErrorKind, Record, Result, RunId, RunKey};

/// Entries kept in memory for readers that have not taken them yet, when there is a store to fall back on.
const KEPT_MAX: usize = 2_048;

/// Entries that a reader takes at a time, from memory or from the store.
const PAGE: usize = 256;

/// The first pause between two looks into the store for entries of a run that another process works on.
const LOOK_MIN: Duration = Duration::from_millis(100);

/// The longest such pause: each look that finds nothing doubles it.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// The pause between two looks whether a question that waits for the session asks if anybody listens. It asks as often.
const ANSWER_EVERY: Duration = Duration::from_secs(1);

/// Less than any count of the questions whether somebody listens, which begins at 0. A reader begins with it, so it says that it is
/// there before anybody asks: then the process that works on the run knows that it has to ask before it stops the run.
const NEVER_ASKED: i64 = -1;

#[derive(Debug, Default)]
struct FeedState {
    kept: VecDeque<Arc<Entry>>,
    /// The number of the last entry shown.
    shown: u64,
    /// What each reader takes next.
    readers: Vec<(ReaderId, u64)>,
    next_reader: ReaderId,
    closed: bool,
    /// Why it was closed before the run was over.
    broken_off: Option<BrokenOff>,
    /// Whether the last reader that left had been told a message to its end, and nothing was said since.
    heard_out: bool,
}

type ReaderId = u64;

impl FeedState {
    /// Lets go of what every reader has taken, and of what is too much: who is that far behind reads the
    /// store. Nobody else need have it in memory, and runs that speak for long take no more than short ones.
    fn let_go(&mut self, kept_max: usize) {
        let taken = self.readers.iter().map(|(_, next)| *next).min().unwrap_or(u64::MAX);
        while let Some(first) = self.kept.front()
            && (first.seq < taken || self.kept.len() > kept_max)
        {
            self.kept.pop_front();
        }
    }
}

/// A run that this process no longer works on, although it is not over.
#[derive(Clone, Debug)]
pub struct BrokenOff {
    /// What readers branch on.
    pub kind: ErrorKind,
    /// What they are told.
    pub message: Arc<str>,
}

impl BrokenOff {
    /// This process has stopped, and another one goes on.
    pub fn handed_over(run: &RunId) -> Self {
        let message = format!("this process stops; run {run} goes on in the next one").into();
        Self { kind: ErrorKind::Unavailable, message }
    }
}

/// The live end of a run's journal.
#[derive(Debug)]
pub struct Feed {
    state: Mutex<FeedState>,
    changed: Notify,
    /// How much is kept for readers that are behind; absent: everything, and for whoever comes later, too.
    kept_max: Option<usize>,
}

impl Feed {
    /// A feed in front of a store.
    pub fn stored() -> Arc<Self> {
        Self::new(Some(KEPT_MAX))
    }

    /// A feed that keeps everything, for a run without a store. Its length is bounded by the run's
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

    /// Whether somebody reads it, or has left with a whole message. A run whose client went away in the middle
    /// works for nobody; one that still does something after its message is on its way to its end.
    pub fn is_listened_to(&self) -> bool {
        let state = self.lock();
        !state.readers.is_empty() || state.heard_out
    }

    /// Shows entries, which follow the last ones shown.
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

    /// Takes what follows for a reader, up to a page, at one look: most find what one write has shown.
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

    /// Nothing more will come from here, although the run is not over: readers get an error after what
    /// has been shown.
    pub fn break_off(&self, why: BrokenOff) {
        let mut state = self.lock();
        state.closed = true;
        state.broken_off.get_or_insert(why);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }
}

/// What a reader finds.
enum FeedRead {
    /// The entries are in its page.
    Found,
    /// What it reads next is no longer kept in memory.
    Behind,
    Over(Option<BrokenOff>),
    Wait,
}

impl FeedRead {
    fn end(state: &FeedState) -> Self {
        if state.closed { Self::Over(state.broken_off.clone()) } else { Self::Wait }
    }
}

/// What the client of a reader is told while the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hears {
    /// Each entry as it comes; whether the last that it was told of a message is its end.
    Everything { whole: bool },
    /// Nothing before the end.
    TheEnd,
}

/// What a reader gets that has read everything.
fn ended(why: Option<BrokenOff>) -> Result<Option<Arc<Entry>>> {
    let Some(why) = why else { return Ok(None) };
    Err(Error::new(why.kind, &*why.message).help("read on from the number that you have"))
}

/// One reader's place in a run's journal.
pub struct EntryReader {
    feed: Option<(Arc<Feed>, ReaderId)>,
    store: Option<(Arc<dyn RunStore>, RunKey)>,
    /// Entries that were read and not yet told.
    page: VecDeque<Arc<Entry>>,
    /// The number of the entry that is read next.
    next_seq: u64,
    /// The number of the last event that the client has already.
    after_event: u64,
    /// How long the next look into the store is waited for.
    pause: Duration,
    /// Says that somebody listens, while the run is not shown here. Few readers have one.
    listening: Option<Box<JoinSet<()>>>,
    /// Where the run is shown, should this process go on with it.
    find: Option<Find>,
    hears: Hears,
}

impl Drop for EntryReader {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Finds the live end of a run's journal, when it is under way in this process.
pub type Find = Arc<dyn Fn(&RunKey) -> Option<Arc<Feed>> + Send + Sync>;

impl EntryReader {
    /// A reader of the events after number `after_event`; 0 for all.
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

    /// Looks there again and again while another process works on the run, or none.
    #[must_use]
    pub fn finding(mut self, find: Find) -> Self {
        self.find = Some(find);
        self
    }

    /// The same for a client that gets one answer at the end: until then it has heard nothing.
    #[must_use]
    pub fn answering_at_the_end(mut self) -> Self {
        self.hears = Hears::TheEnd;
        self
    }

    /// Reads in this feed from now on, and counts among its readers.
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

    /// Reads the live end no longer: nothing need be kept in memory for it any more.
    fn leave(&mut self) {
        if let Some((feed, id)) = self.feed.take() {
            let whole = self.hears == Hears::Everything { whole: true };
            feed.lock().heard_out = whole;
            feed.leave(id);
        }
    }

    /// Notes that the client is told an entry.
    fn note_told(&mut self, entry: &Entry) {
        self.next_seq = entry.seq + 1;
        let Hears::Everything { whole } = &mut self.hears else { return };
        match &entry.record {
            Record::Said { .. } => *whole = false,
            Record::MessageEnded { .. } => *whole = true,
            _ => {}
        }
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

    /// The next entry of any kind; `None` after the last. While another process works on the run it is read
    /// in the store, and while none does it is waited for one.
    ///
    /// # Errors
    /// When the store cannot be read; `Unavailable` when this process no longer works on the run, which goes
    /// on later.
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
                // Registered before looking again, so that what is shown in between wakes us.
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

    /// The same without waiting and without the store: nothing when neither an entry nor the end is there.
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

    /// Whether this process has left the run before it was over. It has told why where it knows it, so that an error which
    /// follows from it is no news.
    pub fn is_broken_off(&self) -> bool {
        self.feed.as_ref().is_some_and(|(feed, _)| feed.lock().broken_off.is_some())
    }

    /// Whether it is read on in the store: whoever has the run now writes into the same one.
    fn goes_on_in_store(&self, why: Option<&BrokenOff>) -> bool {
        self.store.is_some() && why.is_some_and(|why| why.kind == ErrorKind::Conflict)
    }

    /// Whether there may be more of a run that is not shown here; if so it is waited a moment.
    async fn may_go_on(&mut self) -> Result<bool> {
        let Some((store, key)) = &self.store else { return Ok(false) };
        let run = store.get(key).await?;
        if run.ending.is_some() {
            // Its last entries may have come between the two looks.
            return self.read_page().await;
        }
        self.listening.get_or_insert_with(|| {
            let mut listening = JoinSet::new();
            listening.spawn(say_that_somebody_listens(Arc::clone(store), key.clone()));
            Box::new(listening)
        });
        tokio::time::sleep(self.pause).await;
        self.pause = LOOK_MAX.min(self.pause * 2);
        let found = self.find.as_ref().and_then(|find| find(key));
        self.enter(found);
        Ok(true)
    }

    /// Reads the next entries from the store. Whether there were any.
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
            self.pause = LOOK_MIN;
        }
        Ok(!self.page.is_empty())
    }
}

/// Says that somebody listens to a run, and answers, for as long as it goes on, each question that asks whether anybody
/// does. A reader cannot do that itself: while its client takes nothing it does not look.
async fn say_that_somebody_listens(store: Arc<dyn RunStore>, key: RunKey) {
    let mut answered = NEVER_ASKED;
    loop {
        match answer_who_asks(store.as_ref(), &key, answered).await {
            Ok(Some(asked)) => answered = asked,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(error = error.detail(), "cannot say that a run is listened to");
            }
        }
        tokio::time::sleep(ANSWER_EVERY).await;
    }
}

/// Says once that somebody listens, if a question was asked after those that were `answered`. How many there were by now; nothing
/// when the run has ended.
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
    async fn what_every_reader_has_taken_is_let_go() {
        let feed = Feed::stored();
        let kept = || feed.lock().kept.len();
        let reader = || EntryReader::new(Some(Arc::clone(&feed)), None, 0);
        let (mut fast, mut slow) = (reader(), reader());
        feed.show(&[entry(1), entry(2)]);
        for seq in [1, 2] {
            assert_eq!(fast.next().await.unwrap().unwrap().seq, seq);
        }
        assert_eq!(kept(), 2, "the other one has taken nothing");
        assert_eq!(slow.next().await.unwrap().unwrap().seq, 1);
        assert_eq!(kept(), 0);
        feed.show(&[entry(3)]);
        assert_eq!(kept(), 1);
        drop((fast, slow));
        assert_eq!(kept(), 0);
        // Who comes later finds it in the store, and here there is none.
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
    async fn a_run_that_goes_on_elsewhere_is_told_apart_from_a_failure() {
        let feed = Feed::whole();
        let mut reader = EntryReader::new(Some(Arc::clone(&feed)), None, 0);
        assert!(!reader.is_broken_off());
        feed.break_off(BrokenOff::handed_over(&"r".into()));
        assert_eq!(reader.next().await.unwrap_err().kind, ErrorKind::Unavailable);
        assert!(reader.is_broken_off());
    }

    #[tokio::test]
    async fn who_leaves_with_a_whole_message_has_listened() {
        let feed = Feed::whole();
        assert!(!feed.is_listened_to());
        feed.show(&[said(1), ended(2)]);
        let reader = || EntryReader::new(Some(Arc::clone(&feed)), None, 0);
        let mut early = reader();
        assert!(feed.is_listened_to());
        early.next().await.unwrap();
        drop(early);
        assert!(!feed.is_listened_to(), "it left in the middle of the message");
        let (mut one, mut late) = (reader(), reader());
        for _ in 0..2 {
            one.next().await.unwrap();
        }
        drop(one);
        assert!(feed.is_listened_to());
        late.next().await.unwrap();
        late.next().await.unwrap();
        drop(late);
        assert!(feed.is_listened_to(), "the run may do what is left");
        feed.show(&[entry(3)]);
        assert!(feed.is_listened_to());
        feed.show(&[said(4)]);
        assert!(!feed.is_listened_to(), "now it speaks to nobody");
        let mut whole = reader().answering_at_the_end();
        for _ in 0..2 {
            whole.next().await.unwrap();
        }
        drop(whole);
        assert!(!feed.is_listened_to(), "nothing of it has been told");
    }
}
