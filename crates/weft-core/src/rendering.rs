//! Text that is put together out of values, with a limit that holds while it is written.
//!
//! A text of a few kilobytes can name a value of megabytes thousands of times, so what comes of it is
//! bounded as it grows and not when it is there.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::value::Json;

/// Bytes of text that one activation may put together where nobody says otherwise: the default of
/// `limits.output_bytes`.
pub const TEXT_MAX: usize = 32 << 20;

/// How long one activation may work on templates. Their steps and sizes are counted, so that ordinary ones end long
/// before and the same template ends the same way everywhere; this holds where a count is too low.
pub const TEMPLATE_TIME_MAX: Duration = Duration::from_secs(10);

/// How much text may still be put together, and how long it may take. Clones share both.
#[derive(Clone, Debug)]
pub struct TextRoom {
    max: usize,
    used: Arc<RenderAllowance>,
}

#[derive(Debug)]
struct RenderAllowance {
    /// Bytes that are left.
    left: AtomicUsize,
    /// In microseconds.
    worked: AtomicU64,
}

impl Default for TextRoom {
    fn default() -> Self {
        Self::of(TEXT_MAX)
    }
}

impl TextRoom {
    /// Room for this many bytes.
    pub fn of(max: usize) -> Self {
        Self {
            max,
            used: Arc::new(RenderAllowance { left: AtomicUsize::new(max), worked: AtomicU64::new(0) }),
        }
    }

    /// As much room as this had at first.
    #[must_use]
    pub fn afresh(&self) -> Self {
        Self::of(self.max)
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.used.left.load(Ordering::Relaxed)
    }

    /// Takes room for `bytes`, before they are written.
    ///
    /// # Errors
    /// `Invalid` when there is not as much.
    pub fn take(&self, bytes: usize) -> Result<()> {
        // All or nothing: parts of one activation that run side by side share the room.
        let taken = |left: usize| left.checked_sub(bytes);
        match self.used.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.used_up()),
        }
    }

    /// What is left of [`TEMPLATE_TIME_MAX`].
    pub fn time_left(&self) -> Duration {
        TEMPLATE_TIME_MAX.saturating_sub(Duration::from_micros(self.used.worked.load(Ordering::Relaxed)))
    }

    /// Notes how long a template has worked.
    pub fn worked(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let add = |worked: u64| Some(worked.saturating_add(micros));
        let _ = self.used.worked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn used_up(&self) -> Error {
        Error::invalid(format!("the text that it puts together is larger than {} bytes", self.max))
            .help("shorten what it refers to, or raise limits.output_bytes")
    }
}

/// Bytes that often follow the first part of a text: a full stop, a word.
const MORE: usize = 32;

/// A text that grows as long as there is room.
#[derive(Debug)]
pub struct BoundedText<'a> {
    room: &'a TextRoom,
    text: String,
}

impl<'a> BoundedText<'a> {
    /// An empty text.
    pub fn new(room: &'a TextRoom) -> Self {
        Self { room, text: String::new() }
    }

    /// Adds a text.
    ///
    /// # Errors
    /// `Invalid` when there is no room for it.
    pub fn push(&mut self, text: &str) -> Result<()> {
        self.room.take(text.len())?;
        // Most texts are one value and a few words: room for both at once spares a second allocation.
        if self.text.is_empty() {
            self.text.reserve(text.len() + MORE);
        }
        self.text.push_str(text);
        Ok(())
    }

    /// Adds the text form of a value; see [`crate::value::to_text`].
    ///
    /// # Errors
    /// `Invalid` when there is no room for it.
    pub fn push_value(&mut self, value: &Json) -> Result<()> {
        match value {
            Json::Null => Ok(()),
            Json::String(text) => self.push(text),
            // Control characters take six bytes each, so the length is known only while it is written.
            other => serde_json::to_writer(&mut *self, other).map_err(|_| self.room.used_up()),
        }
    }

    /// The finished text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// For JSON, which is written in parts that are texts themselves.
impl Write for BoundedText<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        // serde_json hands over whole texts and single ASCII characters, so no character is ever cut.
        let text = std::str::from_utf8(part).map_err(io::Error::other)?;
        self.room.take(part.len()).map_err(io::Error::other)?;
        self.text.push_str(text);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_stops_growing_where_the_room_ends() {
        let room = TextRoom::of(10);
        let mut text = BoundedText::new(&room);
        text.push("123").unwrap();
        text.push_value(&json!([1, 2])).unwrap();
        assert!(text.push("123").unwrap_err().full().contains("limits.output_bytes"));
        assert_eq!((text.finish(), room.left()), ("123[1,2]".to_owned(), 2));
        let mut escaped = BoundedText::new(&room);
        assert!(escaped.push_value(&json!(["\u{1}"])).is_err());
        assert_eq!(room.afresh().left(), 10);
    }
}
