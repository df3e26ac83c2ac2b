//! Text that is assembled from values, with a size limit that is enforced while it is written.
//!
//! A text of a few kilobytes can refer thousands of times to a value of several megabytes, so the result is bounded
//! while it grows and not once it is complete.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::value::Json;

/// Default for the number of bytes of text that one activation may assemble: the default of `limits.output_bytes`.
pub const TEXT_MAX: usize = 32 << 20;

/// Maximum time that one activation may spend on templates. Steps and sizes are counted as well, so that ordinary
/// templates end long before this limit and a given template ends the same way everywhere; this limit applies where a
/// count is too low.
pub const TEMPLATE_TIME_MAX: Duration = Duration::from_secs(10);

/// The remaining allowance for assembling text: bytes and time. Clones share it.
#[derive(Clone, Debug)]
pub struct TextRoom {
    max: usize,
    used: Arc<RenderAllowance>,
}

#[derive(Debug)]
struct RenderAllowance {
    /// Bytes left.
    left: AtomicUsize,
    /// Time spent, in microseconds.
    worked: AtomicU64,
}

impl Default for TextRoom {
    fn default() -> Self {
        Self::of(TEXT_MAX)
    }
}

impl TextRoom {
    /// Creates an allowance of this many bytes.
    pub fn of(max: usize) -> Self {
        Self {
            max,
            used: Arc::new(RenderAllowance { left: AtomicUsize::new(max), worked: AtomicU64::new(0) }),
        }
    }

    /// Creates a new allowance with the initial size of this one.
    #[must_use]
    pub fn afresh(&self) -> Self {
        Self::of(self.max)
    }

    /// Returns the number of bytes left.
    pub fn left(&self) -> usize {
        self.used.left.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` before they are written.
    ///
    /// # Errors
    /// `Invalid` when fewer bytes are left.
    pub fn take(&self, bytes: usize) -> Result<()> {
        // All or nothing, because concurrent parts of one activation share the allowance.
        let taken = |left: usize| left.checked_sub(bytes);
        match self.used.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.used_up()),
        }
    }

    /// Returns what is left of [`TEMPLATE_TIME_MAX`].
    pub fn time_left(&self) -> Duration {
        TEMPLATE_TIME_MAX.saturating_sub(Duration::from_micros(self.used.worked.load(Ordering::Relaxed)))
    }

    /// Records the time a template took.
    pub fn worked(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let add = |worked: u64| Some(worked.saturating_add(micros));
        // Cannot fail: the closure always returns a sum.
        let _ = self.used.worked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn used_up(&self) -> Error {
        Error::invalid(format!("the resulting text is larger than {} bytes", self.max))
            .help("shorten the values it refers to, or raise limits.output_bytes")
    }
}

/// Room for what often follows the first part of a text: a full stop, a word.
const MORE: usize = 32;

/// A text that may grow within its allowance.
#[derive(Debug)]
pub struct BoundedText<'a> {
    room: &'a TextRoom,
    text: String,
}

impl<'a> BoundedText<'a> {
    /// Creates an empty text.
    pub fn new(room: &'a TextRoom) -> Self {
        Self { room, text: String::new() }
    }

    /// Appends a text.
    ///
    /// # Errors
    /// `Invalid` when the allowance does not suffice.
    pub fn push(&mut self, text: &str) -> Result<()> {
        self.room.take(text.len())?;
        // Most texts are one value and a few words: reserving for both together avoids a second allocation.
        if self.text.is_empty() {
            self.text.reserve(text.len() + MORE);
        }
        self.text.push_str(text);
        Ok(())
    }

    /// Appends the text form of a value; see [`crate::value::to_text`].
    ///
    /// # Errors
    /// `Invalid` when the allowance does not suffice.
    pub fn push_value(&mut self, value: &Json) -> Result<()> {
        match value {
            Json::Null => Ok(()),
            Json::String(text) => self.push(text),
            // Control characters are escaped with six bytes each, so the length is known only while writing.
            other => serde_json::to_writer(&mut *self, other).map_err(|_| self.room.used_up()),
        }
    }

    /// Returns the finished text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// For JSON, which is written in parts that are themselves texts.
impl Write for BoundedText<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        // serde_json passes whole strings and single ASCII characters, so no character is ever split.
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
    fn a_text_stops_growing_at_its_limit() {
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
