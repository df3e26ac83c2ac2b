//! A text that is produced once, can be read by many, and keeps its pieces so that a late reader
//! starts at the beginning.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::error::{Error, ErrorKind, Result};

/// A piece of a streamed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Part of the answer.
    Text(Arc<str>),
    /// Part of the model's reasoning; shown, and not part of the value.
    Thinking(Arc<str>),
}

#[derive(Debug)]
enum End {
    Open,
    Whole,
    Broken(ErrorKind, String),
}

#[derive(Debug)]
struct State {
    pieces: Vec<Piece>,
    end: End,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

/// A growing text, shared between its producer and its readers.
#[derive(Clone, Debug)]
pub struct SharedText(Arc<Inner>);

impl SharedText {
    /// An empty text and the handle that writes it. Dropping the writer without
    /// [`TextWriter::finish`] breaks the text, so no reader waits for ever.
    pub fn new() -> (TextWriter, Self) {
        let state = Mutex::new(State { pieces: Vec::new(), end: End::Open });
        let text = Self(Arc::new(Inner { state, changed: Notify::new() }));
        (TextWriter { text: text.clone() }, text)
    }

    /// A reader that starts at the first piece.
    pub fn read(&self) -> TextReader {
        TextReader { text: self.clone(), next: 0 }
    }

    /// The whole text without reasoning, once it is complete.
    ///
    /// # Errors
    /// When its producer failed or went away.
    pub async fn text(&self) -> Result<String> {
        let mut reader = self.read();
        let mut whole = String::new();
        while let Some(piece) = reader.next().await? {
            if let Piece::Text(text) = piece {
                whole.push_str(&text);
            }
        }
        Ok(whole)
    }

    /// What is there so far, without reasoning.
    pub fn so_far(&self) -> String {
        let state = self.lock();
        let mut whole = String::new();
        for piece in &state.pieces {
            if let Piece::Text(text) = piece {
                whole.push_str(text);
            }
        }
        whole
    }

    /// Whether both are the same stream.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock only means that a writer panicked between two pushes; the pieces are whole.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.0.changed.notify_waiters();
    }
}

/// The producer's side of a [`SharedText`].
#[derive(Debug)]
pub struct TextWriter {
    text: SharedText,
}

impl TextWriter {
    /// Adds a piece; an empty one is left out.
    pub fn push(&self, piece: Piece) {
        let (Piece::Text(text) | Piece::Thinking(text)) = &piece;
        if !text.is_empty() {
            self.text.change(|state| state.pieces.push(piece));
        }
    }

    /// Ends the text.
    pub fn finish(self) {
        self.text.change(|state| state.end = End::Whole);
    }

    /// Ends the text with a failure that every reader gets.
    pub fn fail(self, error: &Error) {
        self.text.change(|state| state.end = End::Broken(error.kind, error.full()));
    }
}

impl Drop for TextWriter {
    fn drop(&mut self) {
        self.text.change(|state| {
            if matches!(state.end, End::Open) {
                state.end = End::Broken(ErrorKind::Cancelled, "the text was cut off".to_owned());
            }
        });
    }
}

/// One reader's place in a [`SharedText`].
#[derive(Debug)]
pub struct TextReader {
    text: SharedText,
    next: usize,
}

impl TextReader {
    /// The next piece, waiting for it; `None` at the end.
    ///
    /// # Errors
    /// When the producer failed or went away.
    pub async fn next(&mut self) -> Result<Option<Piece>> {
        let text = self.text.clone();
        loop {
            let changed = text.0.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that a piece pushed in between wakes us.
            changed.as_mut().enable();
            if let Some(found) = self.look() {
                return found;
            }
            changed.await;
        }
    }

    fn look(&mut self) -> Option<Result<Option<Piece>>> {
        let state = self.text.lock();
        if let Some(piece) = state.pieces.get(self.next) {
            self.next += 1;
            return Some(Ok(Some(piece.clone())));
        }
        match &state.end {
            End::Open => None,
            End::Whole => Some(Ok(None)),
            End::Broken(kind, message) => Some(Err(Error::new(*kind, message.clone()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_reader_gets_every_piece_also_a_late_one() {
        let (writer, text) = SharedText::new();
        let early = tokio::task::JoinSet::from_iter([{
            let text = text.clone();
            async move { text.text().await }
        }]);
        writer.push(Piece::Text("a".into()));
        writer.push(Piece::Thinking("hm".into()));
        writer.push(Piece::Text("b".into()));
        writer.finish();
        assert_eq!(text.text().await.unwrap(), "ab");
        assert_eq!(early.join_all().await.remove(0).unwrap(), "ab");
    }

    #[tokio::test]
    async fn a_dropped_writer_breaks_the_text() {
        let (writer, text) = SharedText::new();
        writer.push(Piece::Text("a".into()));
        drop(writer);
        assert_eq!(text.text().await.unwrap_err().kind, ErrorKind::Cancelled);
        assert_eq!(text.so_far(), "a");
    }
}
