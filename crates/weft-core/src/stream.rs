//! A text that is produced once and may be read by many readers. It keeps its pieces, so that a late reader starts at
//! the beginning.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::error::{Error, ErrorKind, Result};
use crate::value::{Json, Outputs, Value};

/// A piece of a streamed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Part of the answer.
    Text(Arc<str>),
    /// Part of the model's reasoning; it is shown but not part of the value.
    Thinking(Arc<str>),
}

#[derive(Debug)]
enum StreamEnd {
    Open,
    Whole,
    Broken(ErrorKind, String),
}

/// The pieces, concatenated into one string. Separate allocations for single words would take ten times as many
/// bytes.
#[derive(Debug, Default)]
struct PieceText {
    text: String,
    ends: Vec<PieceEnd>,
}

/// The end offset of a piece, shifted left by one, with the lowest bit set for reasoning. No string is long enough to
/// need the highest bit.
#[derive(Clone, Copy, Debug)]
struct PieceEnd(usize);

impl PieceEnd {
    fn place(self) -> usize {
        self.0 >> 1
    }

    fn is_thinking(self) -> bool {
        self.0 & 1 == 1
    }
}

impl PieceText {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn push(&mut self, piece: &Piece) {
        let (Piece::Text(text) | Piece::Thinking(text)) = piece;
        self.text.push_str(text);
        let kind = usize::from(matches!(piece, Piece::Thinking(_)));
        self.ends.push(PieceEnd((self.text.len() << 1) | kind));
    }

    fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.text.truncate(self.ends.last().map_or(0, |end| end.place()));
    }

    fn get(&self, nth: usize) -> Option<Piece> {
        let end = *self.ends.get(nth)?;
        let before = nth.checked_sub(1).and_then(|before| self.ends.get(before));
        let text = self.text.get(before.map_or(0, |before| before.place())..end.place())?.into();
        Some(if end.is_thinking() { Piece::Thinking(text) } else { Piece::Text(text) })
    }

    fn without_reasoning(&self) -> String {
        let (mut whole, mut start) = (String::new(), 0);
        for end in &self.ends {
            if !end.is_thinking() {
                whole.push_str(self.text.get(start..end.place()).unwrap_or_default());
            }
            start = end.place();
        }
        whole
    }
}

#[derive(Debug)]
struct StreamState {
    pieces: PieceText,
    end: StreamEnd,
    /// Number of pieces that have been read.
    // The furthest reader counts: what one reader has shown cannot be taken back for the others.
    read: usize,
}

#[derive(Debug)]
struct SharedTextInner {
    state: Mutex<StreamState>,
    // Shared by all waiters; each checks for itself whether its condition holds.
    changed: Notify,
    /// How many times written pieces were taken back.
    taken_back: AtomicU32,
}

/// A growing text, shared between its producer and its readers.
#[derive(Clone, Debug)]
pub struct SharedText(Arc<SharedTextInner>);

impl SharedText {
    /// Creates an empty text and the handle that writes it. Dropping the writer without calling
    /// [`TextWriter::finish`] breaks the text, so that no reader waits forever.
    pub fn new() -> (TextWriter, Self) {
        let state = Mutex::new(StreamState { pieces: PieceText::default(), end: StreamEnd::Open, read: 0 });
        let taken_back = AtomicU32::new(0);
        let text = Self(Arc::new(SharedTextInner { state, changed: Notify::new(), taken_back }));
        (TextWriter { text: text.clone() }, text)
    }

    /// Returns a reader that starts at the first piece.
    pub fn read(&self) -> TextReader {
        TextReader { text: self.clone(), next: 0 }
    }

    /// Waits until the text is complete, and returns it without reasoning.
    ///
    /// # Errors
    /// Fails when its producer failed or was dropped.
    pub async fn text(&self) -> Result<String> {
        // A caller that waits for the end has not read any piece that may still be taken back.
        self.wait(|state| (!matches!(state.end, StreamEnd::Open)).then_some(())).await;
        let state = self.lock();
        match &state.end {
            StreamEnd::Broken(kind, message) => Err(Error::new(*kind, message.clone())),
            StreamEnd::Open | StreamEnd::Whole => Ok(state.pieces.without_reasoning()),
        }
    }

    /// Returns the text so far, without reasoning.
    pub fn so_far(&self) -> String {
        self.lock().pieces.without_reasoning()
    }

    /// Waits until `look` returns a value.
    async fn wait<T>(&self, mut look: impl FnMut(&mut StreamState) -> Option<T>) -> T {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that a change in between wakes this task.
            changed.as_mut().enable();
            let found = look(&mut self.lock());
            if let Some(found) = found {
                return found;
            }
            changed.await;
        }
    }

    /// Returns its length in bytes so far, including reasoning.
    pub fn bytes(&self) -> usize {
        self.lock().pieces.text.len()
    }

    /// Returns whether both are the same stream.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        // A poisoned lock only means that a writer panicked between two pushes; the pieces are intact.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut StreamState)) {
        change(&mut self.lock());
        // After the lock is released, because the first thing every woken task does is take it.
        self.0.changed.notify_waiters();
    }
}

/// The producer's side of a [`SharedText`].
#[derive(Debug)]
pub struct TextWriter {
    text: SharedText,
}

impl TextWriter {
    /// Adds a piece; an empty one is ignored.
    #[expect(clippy::needless_pass_by_value, reason = "who says something makes a piece of it for this call")]
    pub fn push(&self, piece: Piece) {
        let (Piece::Text(text) | Piece::Thinking(text)) = &piece;
        // An empty piece would wake readers for nothing and would count as read.
        if !text.is_empty() {
            self.text.change(|state| state.pieces.push(&piece));
        }
    }

    /// Marks the current end. What is written after it may be taken back until a reader has read any of it.
    pub fn mark(&self) -> TextMark {
        TextMark { text: self.text.clone(), at: self.text.lock().pieces.len() }
    }

    /// Returns how many times written pieces were taken back.
    pub fn taken_back(&self) -> u32 {
        self.text.0.taken_back.load(Ordering::Acquire)
    }

    /// Returns the text so far, without reasoning.
    pub fn so_far(&self) -> String {
        self.text.so_far()
    }

    /// Ends the text.
    pub fn finish(self) {
        self.text.change(|state| state.end = StreamEnd::Whole);
    }

    /// Ends the text with a failure that every reader receives.
    pub fn fail(self, error: &Error) {
        self.text.change(|state| state.end = StreamEnd::Broken(error.kind, error.full()));
    }
}

impl Drop for TextWriter {
    fn drop(&mut self) {
        self.text.change(|state| {
            // `finish` and `fail` consume the writer, so this also runs after them.
            if matches!(state.end, StreamEnd::Open) {
                state.end = StreamEnd::Broken(ErrorKind::Cancelled, "the text was cut off".to_owned());
            }
        });
    }
}

/// A position in a text that is being written.
#[derive(Clone, Debug)]
pub struct TextMark {
    text: SharedText,
    at: usize,
}

impl PartialEq for TextMark {
    fn eq(&self, other: &Self) -> bool {
        self.text.same_as(&other.text) && self.at == other.at
    }
}

impl TextMark {
    /// Returns whether a reader has read anything after the mark.
    pub fn is_read_past(&self) -> bool {
        self.text.lock().read > self.at
    }

    /// Takes back everything after the mark, unless a reader has read any of it. Returns whether nothing follows the
    /// mark now.
    pub fn take_back(&self) -> bool {
        let mut state = self.text.lock();
        if state.read > self.at {
            return false;
        }
        if state.pieces.len() > self.at {
            state.pieces.truncate(self.at);
            self.text.0.taken_back.fetch_add(1, Ordering::AcqRel);
        }
        true
    }
}

/// One reader's place in a [`SharedText`].
#[derive(Debug)]
pub struct TextReader {
    text: SharedText,
    next: usize,
}

impl TextReader {
    /// Waits for the next piece and returns it; `None` at the end.
    ///
    /// # Errors
    /// Fails when the producer failed or was dropped.
    pub async fn next(&mut self) -> Result<Option<Piece>> {
        let next = self.next;
        let look = |state: &mut StreamState| {
            if let Some(piece) = state.pieces.get(next) {
                // Under the same lock as in `take_back`: a piece is either read or taken back.
                state.read = state.read.max(next + 1);
                return Some(Ok(Some(piece)));
            }
            match &state.end {
                StreamEnd::Open => None,
                StreamEnd::Whole => Some(Ok(None)),
                StreamEnd::Broken(kind, message) => Some(Err(Error::new(*kind, message.clone()))),
            }
        };
        let found = self.text.wait(look).await;
        if let Ok(Some(_)) = found {
            self.next += 1;
        }
        found
    }

    /// Waits until there is a piece or the text has ended. Returns whether there is a piece, without reading it.
    pub async fn ready(&self) -> bool {
        let next = self.next;
        let look = |state: &mut StreamState| match (&state.end, state.pieces.len() > next) {
            (_, true) => Some(true),
            (StreamEnd::Open, false) => None,
            (StreamEnd::Whole | StreamEnd::Broken(..), false) => Some(false),
        };
        self.text.wait(look).await
    }
}

type Produced = Option<Result<Arc<Outputs>, (ErrorKind, String)>>;

/// The outputs of a producer that is still running, for consumers that have started to read one of them and then need
/// the others. Clones share the same outputs. If the last clone is dropped before they are settled, waiters receive a
/// `Cancelled` error.
#[derive(Clone, Debug)]
pub struct PendingOutputs(Arc<watch::Sender<Produced>>);

impl Default for PendingOutputs {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl PendingOutputs {
    /// Returns the pending value at a path in the outputs; see [`Outputs::at`].
    pub fn at(&self, path: &str) -> PendingOutput {
        PendingOutput { outputs: self.0.subscribe(), path: path.into() }
    }

    /// Settles the outputs: the producer has ended with these outputs, or with an error.
    pub fn settle(&self, produced: Result<Arc<Outputs>, &Error>) {
        self.0.send_replace(Some(produced.map_err(|error| (error.kind, error.full()))));
    }
}

/// The value of an output whose producer is still running.
#[derive(Clone, Debug)]
pub struct PendingOutput {
    outputs: watch::Receiver<Produced>,
    path: Arc<str>,
}

impl PendingOutput {
    /// Waits for the value.
    ///
    /// # Errors
    /// Fails when the producer failed or was dropped.
    pub async fn settled(&self) -> Result<Arc<Json>> {
        let mut outputs = self.outputs.clone();
        // Waits on a clone, so that several tasks may wait for the same output.
        let produced = outputs.wait_for(Option::is_some).await;
        let cut_off = || Err((ErrorKind::Cancelled, "the output was cut off".to_owned()));
        let produced = produced.map_or_else(|_| cut_off(), |there| there.clone().unwrap_or_else(cut_off));
        match produced {
            Ok(outputs) => Ok(outputs.at(&self.path).snapshot()),
            Err((kind, message)) => Err(Error::new(kind, message)),
        }
    }

    /// Returns the value if it is available, otherwise null.
    pub fn so_far(&self) -> Arc<Json> {
        match &*self.outputs.borrow() {
            Some(Ok(outputs)) => outputs.at(&self.path).snapshot(),
            Some(Err(_)) | None => Value::null().snapshot(),
        }
    }

    /// Returns whether both are the same output of the same producer.
    pub fn same_as(&self, other: &Self) -> bool {
        self.outputs.same_channel(&other.outputs) && self.path == other.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_reader_gets_every_chunk_even_a_late_one() {
        let (writer, text) = SharedText::new();
        let early = tokio::task::JoinSet::from_iter([{
            let text = text.clone();
            async move { text.text().await }
        }]);
        writer.push(Piece::Text("a".into()));
        writer.push(Piece::Thinking("hm".into()));
        writer.push(Piece::Text("b".into()));
        writer.finish();
        let (mut late, mut pieces) = (text.read(), Vec::new());
        while let Some(piece) = late.next().await.unwrap() {
            pieces.push(piece);
        }
        let expected = [Piece::Text("a".into()), Piece::Thinking("hm".into()), Piece::Text("b".into())];
        assert_eq!((pieces.as_slice(), text.bytes()), (expected.as_slice(), 4));
        assert_eq!(text.text().await.unwrap(), "ab");
        assert_eq!(early.join_all().await.remove(0).unwrap(), "ab");
    }

    #[tokio::test]
    async fn unread_text_can_be_retracted() {
        let (writer, text) = SharedText::new();
        let push = |piece: &str| writer.push(Piece::Text(piece.into()));
        let mut reader = text.read();
        push("a");
        reader.next().await.unwrap();
        let mark = writer.mark();
        push("b");
        // Neither waiting for the end nor knowing that text exists counts as reading.
        let whole = text.text();
        tokio::pin!(whole);
        assert!(futures::poll!(whole.as_mut()).is_pending() && reader.ready().await);
        assert_eq!((writer.so_far().as_str(), mark.is_read_past()), ("ab", false));
        assert!(mark.take_back() && mark.take_back());
        assert_eq!((writer.so_far().as_str(), writer.taken_back()), ("a", 1));
        push("c");
        assert_eq!(reader.next().await.unwrap(), Some(Piece::Text("c".into())));
        assert!(mark.is_read_past() && !mark.take_back());
        assert!(writer.mark().take_back(), "nothing follows");
        writer.finish();
        assert_eq!((whole.await.unwrap().as_str(), reader.ready().await), ("ac", false));
    }

    #[tokio::test]
    async fn a_dropped_writer_breaks_the_text() {
        let (writer, text) = SharedText::new();
        writer.push(Piece::Text("a".into()));
        drop(writer);
        assert_eq!(text.text().await.unwrap_err().kind, ErrorKind::Cancelled);
        assert_eq!(text.so_far(), "a");
    }

    #[tokio::test]
    async fn an_output_is_awaited_until_its_producer_ends() {
        let outputs = PendingOutputs::default();
        let early = outputs.at("a.b");
        assert_eq!(*early.so_far(), Json::Null);
        let produced = Outputs::of("a", serde_json::json!({"b": 7}));
        let (read, ()) = tokio::join!(early.settled(), async { outputs.settle(Ok(Arc::new(produced))) });
        assert_eq!((*read.unwrap()).clone(), serde_json::json!(7));
        assert_eq!(*early.so_far(), serde_json::json!(7));
        assert_eq!(*outputs.at("none").settled().await.unwrap(), Json::Null);
        assert!(early.same_as(&outputs.at("a.b")) && !early.same_as(&outputs.at("a")));
    }

    #[tokio::test]
    async fn an_output_that_never_arrives_is_an_error() {
        let outputs = PendingOutputs::default();
        outputs.settle(Err(&Error::new(ErrorKind::Unavailable, "gone")));
        assert_eq!(outputs.at("a").settled().await.unwrap_err().kind, ErrorKind::Unavailable);
        let dropped = PendingOutputs::default().at("a");
        assert_eq!(dropped.settled().await.unwrap_err().kind, ErrorKind::Cancelled);
    }
}
