//! Server-sent events: one line of JSON per frame, the event's number as its id, and a comment when nothing was sent
//! for long. A client that disconnects does not stop the run; a slow client catches up from the store.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::future::BoxFuture;
use futures::stream;
use tokio::time::{Instant, Sleep};
use weft_core::{Entry, Error, Result};
use weft_engine::EntryReader;

/// Time without a frame after which a comment keeps the connection open.
// Proxies commonly close connections that carry no data for 30 to 60 seconds.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Frames that are already available are sent together, up to this many bytes.
// A late reader would otherwise get a whole journal in a single buffer.
const CHUNK_BYTES: usize = 16 * 1024;

/// Writes the frames of one kind of stream.
pub trait Frames: Send + 'static {
    /// Appends the frames of an entry, if it has any.
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>);

    /// Fetches data that the end needs and that is in no entry, if any. Called once, after the last entry.
    fn before_the_end(&mut self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// Appends the frames after the last entry. `cut` is set if the entries broke off.
    fn finish(&mut self, cut: Option<&Error>, out: &mut Vec<u8>);
}

/// Prefix of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// `data:`
    Tight,
    /// `data: `
    Spaced,
}

impl Prefix {
    fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Tight => b"data:",
            Self::Spaced => b"data: ",
        }
    }
}

/// Appends a frame; nothing if `write` returns false.
pub fn put_frame(
    out: &mut Vec<u8>,
    prefix: Prefix,
    id: Option<u64>,
    write: impl FnOnce(&mut Vec<u8>) -> bool,
) {
    let before = out.len();
    if let Some(id) = id {
        // Writing to a Vec cannot fail.
        let _ = writeln!(out, "id: {id}");
    }
    out.extend_from_slice(prefix.as_bytes());
    if write(out) {
        out.extend_from_slice(b"\n\n");
    } else {
        out.truncate(before);
    }
}

/// Appends a frame with a given text.
pub fn put_text(out: &mut Vec<u8>, prefix: Prefix, text: &str) {
    put_frame(out, prefix, None, |out| {
        out.extend_from_slice(text.as_bytes());
        true
    });
}

/// Appends the frame that reports a failure outside of any event.
pub fn put_failure(out: &mut Vec<u8>, message: &str) {
    // Clients read `data` for what to show before they check the code.
    let frame =
        serde_json::json!({"code": crate::error::code::FAILED, "message": message, "data": {"content": ""}});
    put_frame(out, Prefix::Tight, None, |out| {
        crate::dialect::write_json(&frame, out);
        true
    });
}

struct Pump<F> {
    entries: EntryReader,
    frames: F,
    /// Reset only when it fires: otherwise a timer would be reset for each frame.
    alarm: Pin<Box<Sleep>>,
}

impl<F: Frames> Pump<F> {
    fn new(entries: EntryReader, frames: F) -> Self {
        Self { entries, frames, alarm: Box::pin(tokio::time::sleep(HEARTBEAT)) }
    }

    /// Returns the next bytes, and whether more may follow.
    async fn next(&mut self) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let silent_until = Instant::now() + HEARTBEAT;
        while out.is_empty() {
            // Entries first: the comment is only for silence.
            let entry = tokio::select! {
                biased;
                entry = self.entries.next() => entry,
                () = &mut self.alarm => {
                    // It was set before the last frame was sent, so the silence may be shorter than its duration.
                    let rings = Instant::now();
                    let next = if rings >= silent_until { rings + HEARTBEAT } else { silent_until };
                    self.alarm.as_mut().reset(next);
                    if rings >= silent_until {
                        return (b": ping\n\n".to_vec(), true);
                    }
                    continue;
                }
            };
            let mut next = Some(entry);
            while let Some(entry) = next {
                if !self.take(entry, &mut out).await {
                    return (out, false);
                }
                // Without a limit, a late reader would get a whole journal in a single buffer.
                next = if out.len() < CHUNK_BYTES { self.entries.next_there() } else { None };
            }
        }
        (out, true)
    }

    /// Processes an entry. Returns whether more may follow.
    async fn take(&mut self, entry: Result<Option<Arc<Entry>>>, out: &mut Vec<u8>) -> bool {
        match entry {
            Ok(Some(entry)) => {
                self.frames.write(&entry, out);
                return true;
            }
            Ok(None) => {
                if let Some(fetched) = self.frames.before_the_end() {
                    fetched.await;
                }
                self.frames.finish(None, out);
            }
            Err(error) => {
                // The status has already been sent, so the error is reported within the stream.
                if self.entries.is_broken_off() {
                    tracing::debug!(error = error.detail(), "a stream ended before its run");
                } else {
                    tracing::error!(error = error.detail(), "a stream stopped unexpectedly");
                }
                self.frames.finish(Some(&error), out);
            }
        }
        false
    }
}

/// Returns the stream of a run as a response.
pub fn respond<F: Frames>(entries: EntryReader, frames: F) -> Response {
    // Boxed: each step of the stream takes and returns it, and would otherwise reserve space for both.
    let pump = Box::new(Pump::new(entries, frames));
    let chunks = stream::unfold(Some(pump), |pump| async move {
        let mut pump = pump?;
        let (chunk, more) = pump.next().await;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), more.then_some(pump)))
    });
    event_stream(Body::from_stream(chunks))
}

/// Returns a body as an event stream.
pub fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    for (name, value) in [
        // Without the charset the SDK decodes it as ISO-8859-1, which garbles Chinese text.
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONNECTION, "keep-alive"),
        // Otherwise nginx buffers frames before it forwards them.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::Record;
    use weft_engine::feed::Feed;

    struct Numbers;

    impl Frames for Numbers {
        fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
            put_frame(out, Prefix::Tight, entry.event, |out| {
                out.extend_from_slice(entry.seq.to_string().as_bytes());
                entry.seq != 2
            });
        }

        fn finish(&mut self, cut: Option<&Error>, out: &mut Vec<u8>) {
            put_text(out, Prefix::Spaced, if cut.is_some() { "cut" } else { "over" });
        }
    }

    fn entry(seq: u64) -> Arc<Entry> {
        let record = Record::MessageReset { activation: None, node: "m".into() };
        Arc::new(Entry { seq, event: Some(seq), at_ms: 0, record })
    }

    #[tokio::test(start_paused = true)]
    async fn available_frames_are_sent_together_and_pauses_get_heartbeats() {
        let feed = Feed::whole();
        let mut pump = Pump::new(EntryReader::new(Some(Arc::clone(&feed)), None, 0), Numbers);
        let text = |(bytes, more): (Vec<u8>, bool)| (String::from_utf8(bytes).unwrap(), more);
        feed.show(&[entry(1), entry(2), entry(3)]);
        assert_eq!(text(pump.next().await), ("id: 1\ndata:1\n\nid: 3\ndata:3\n\n".into(), true));
        let begun = Instant::now();
        assert_eq!(text(pump.next().await), (": ping\n\n".into(), true));
        assert_eq!(begun.elapsed(), HEARTBEAT);
        feed.show(&[entry(4)]);
        feed.close();
        assert_eq!(text(pump.next().await), ("id: 4\ndata:4\n\ndata: over\n\n".into(), false));
    }

    #[test]
    fn a_failure_has_its_own_frame() {
        let mut out = Vec::new();
        put_failure(&mut out, "it \"broke\"\u{2028}");
        let expected =
            "data:{\"code\":500,\"message\":\"it \\\"broke\\\"\\u2028\",\"data\":{\"content\":\"\"}}\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
