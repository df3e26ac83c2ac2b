//! Parses server-sent events from bytes that are split anywhere.

/// Longer events are rejected.
pub(crate) const EVENT_BYTES_MAX: usize = 8 << 20;
/// Longer answers are rejected. On the wire an answer takes many times the room of its text: with some 200 bytes for
/// each piece, this is enough for a text of 300,000 tokens.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Collects bytes and returns the data of complete events.
#[derive(Debug, Default)]
pub(crate) struct SseBuffer {
    buffer: Vec<u8>,
    /// The start of the unread part of the buffer.
    start: usize,
    /// How much of the unread part is known to contain no line end.
    searched: usize,
    data: Vec<u8>,
    /// Whether a `data` line was seen since the last event.
    open: bool,
    /// Whether any line was seen that is neither a comment nor empty data.
    spoke: bool,
}

impl SseBuffer {
    /// Adds bytes; returns `false` when an event is too long.
    #[must_use]
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> bool {
        if self.start > 0 {
            // Once for each piece: after each event, the rest would be moved again and again.
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
        self.buffer.len() + self.data.len() <= EVENT_BYTES_MAX
    }

    /// The data of the next complete event.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        // The data of the last event was borrowed until now.
        if !self.open {
            self.data.clear();
        }
        while let Some(length) = self.buffer[self.start + self.searched..].iter().position(|b| *b == b'\n') {
            let (from, to) = (self.start, self.start + self.searched + length);
            self.start = to + 1;
            self.searched = 0;
            if self.line(from, to) {
                self.open = false;
                return Some(&self.data);
            }
        }
        // A long line arrives in many pieces and is not searched from its beginning with each of them.
        self.searched = self.buffer.len() - self.start;
        None
    }

    /// The data of an event that is terminated by the end of the stream.
    pub(crate) fn last(&mut self) -> Option<&[u8]> {
        let (from, to) = (self.start, self.buffer.len());
        self.start = to;
        self.searched = 0;
        let whole = self.line(from, to) || (self.open && !self.data.is_empty());
        self.open = false;
        whole.then_some(&self.data[..])
    }

    /// Whether only comments and events without data have arrived, with which servers keep a connection open.
    pub(crate) fn is_silent(&self) -> bool {
        !self.spoke
    }

    /// Processes one line; returns `true` when it ends an event.
    fn line(&mut self, from: usize, to: usize) -> bool {
        let line = &self.buffer[from..to];
        // The standard has three kinds of line ends; servers use these two.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            // According to the standard, an event without data is ignored.
            self.open &= !self.data.is_empty();
            return self.open;
        }
        let data = line.strip_prefix(b"data:").map(|data| data.strip_prefix(b" ").unwrap_or(data));
        self.spoke |= !line.starts_with(b":") && data.is_none_or(|data| !data.is_empty());
        if let Some(data) = data {
            if self.open {
                self.data.push(b'\n');
            } else {
                self.data.clear();
            }
            self.data.extend_from_slice(data);
            self.open = true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut events = SseBuffer::default();
        let mut found = Vec::new();
        for piece in pieces {
            assert!(events.feed(piece));
            while let Some(data) = events.next() {
                found.push(String::from_utf8(data.to_vec()).unwrap());
            }
        }
        found.extend(events.last().map(|data| String::from_utf8(data.to_vec()).unwrap()));
        found
    }

    #[test]
    fn chunk_boundaries_make_no_difference() {
        let text =
            ": hi\r\nevent: x\r\ndata: {\"a\":1}\r\n\r\ndata:b\ndata: c\n\n\n\ndata: \u{6c49}\n\ndata: end"
                .as_bytes();
        let expected = ["{\"a\":1}", "b\nc", "\u{6c49}", "end"];
        assert_eq!(events(&[text]), expected);
        for size in 1..8 {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(events(&pieces), expected, "in chunks of {size}");
        }
    }

    #[test]
    fn keep_alives_are_not_events() {
        for text in ["data:\n\ndata: \r\n\r\n: hi\n\n", "data:", "data: \n"] {
            assert!(events(&[text.as_bytes()]).is_empty(), "{text:?}");
            let mut silent = SseBuffer::default();
            assert!(silent.feed(text.as_bytes()) && silent.next().is_none() && silent.last().is_none());
            assert!(silent.is_silent(), "{text:?}");
        }
        assert_eq!(events(&["data:\n\ndata: a\n\ndata:\n\n".as_bytes()]), ["a"]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut events = SseBuffer::default();
        let piece = vec![b'x'; 1 << 20];
        let taken = (0..20).take_while(|_| events.feed(&piece)).count();
        assert_eq!(taken, 8);
    }
}
