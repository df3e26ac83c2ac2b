//! Server-sent events with a limit on their size while they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use sse_stream::{Error as SseError, Sse, SseStream};
use weft_core::{Error, ErrorKind, Result};

/// Remedy for an answer that is too long.
pub(crate) const RAISE: &str = "ask for less, or raise `result_bytes_max` of the server";

/// A stream of events.
pub(crate) type EventStream = BoxStream<'static, Result<Sse, SseError>>;

/// Marks an answer that was cut off because it is too long.
pub(crate) const TOO_LONG: ErrorCode = ErrorCode(-32_098);

/// Size of the event that is being read, in bytes. Comment lines no longer count once they have ended.
#[derive(Debug)]
struct EventSize {
    max: usize,
    lines: usize,
    line: usize,
    is_comment: bool,
}

impl EventSize {
    /// Returns whether the event is still within its limit after these bytes.
    fn admits(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' if self.line == 0 => self.lines = 0,
                b'\n' | b'\r' => {
                    self.lines += if self.is_comment { 0 } else { self.line };
                    self.line = 0;
                }
                _ => {
                    // Comments keep a connection open for hours and are not buffered.
                    self.is_comment = if self.line == 0 { *byte == b':' } else { self.is_comment };
                    self.line += 1;
                }
            }
            // Checked at each byte and not at the end of an event, which may never come.
            if self.lines + self.line > self.max {
                return false;
            }
        }
        true
    }
}

/// Returns the events in a body. If one has more than `max` bytes, the stream ends with an error, or with an answer
/// to the request `asked`.
pub(crate) fn events(
    body: BoxStream<'static, Result<Bytes>>,
    max: usize,
    asked: Option<RequestId>,
) -> EventStream {
    let over = Arc::new(AtomicBool::new(false));
    let noticed = Arc::clone(&over);
    let mut size = EventSize { max, lines: 0, line: 0, is_comment: false };
    let limited = body.map(move |piece| {
        let piece = piece?;
        if size.admits(&piece) {
            return Ok(piece);
        }
        // Read by the task that has just polled this, so no ordering is needed.
        noticed.store(true, Ordering::Relaxed);
        Err(too_long(max))
    });
    let parsed = SseStream::from_bytes_stream(limited);
    let ended = stream::unfold(Some((parsed, asked)), move |state| {
        let over = Arc::clone(&over);
        async move {
            let (mut parsed, asked) = state?;
            match parsed.next().await? {
                Ok(event) => Some((Ok(event), Some((parsed, asked)))),
                Err(error) if over.load(Ordering::Relaxed) => {
                    // Returned as an answer to the request, so that the connection and its other requests continue.
                    Some((asked.and_then(|id| refusal(id, max)).ok_or(error), None))
                }
                // Nothing is read after an error: the next bytes may lie within an event.
                Err(error) => Some((Err(error), None)),
            }
        }
    });
    ended.boxed()
}

/// The error for an answer that was cut off.
pub(crate) fn too_long(max: usize) -> Error {
    Error::new(ErrorKind::Invalid, format!("the answer has more than {max} bytes")).help(RAISE)
}

fn refusal(id: RequestId, max: usize) -> Option<Sse> {
    let error = ErrorData::new(TOO_LONG, too_long(max).message, None);
    let data = serde_json::to_string(&ServerJsonRpcMessage::error(error, Some(id))).ok()?;
    Some(Sse::default().data(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(pieces: &[&'static str]) -> BoxStream<'static, Result<Bytes>> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::from(*piece))).collect();
        stream::iter(pieces).boxed()
    }

    async fn read(pieces: &[&'static str], max: usize, asked: Option<RequestId>) -> Vec<Result<String, ()>> {
        let texts =
            events(body(pieces), max, asked).map(|event| event.map(|e| e.data.unwrap()).map_err(drop));
        texts.collect().await
    }

    #[tokio::test]
    async fn the_limit_applies_to_each_event_not_to_the_stream() {
        let pieces = ["data: 12345\n\nda", "ta: 12345\n\n: a long comment\r\n\r\n", "id: 1\ndata: 1\n\n"];
        let expected = ["12345", "12345", "1"].map(|text| Ok(text.to_owned()));
        assert_eq!(read(&pieces, 16, None).await, expected);
    }

    #[tokio::test]
    async fn an_event_over_the_limit_ends_the_stream_or_fails_its_request() {
        let pieces = ["data: 1\n\ndata: 1234\n", "data: 5678", "data: 9\n\n"];
        assert_eq!(read(&pieces, 15, None).await, [Ok("1".to_owned()), Err(())]);
        let told = read(&pieces, 15, Some(RequestId::Number(3))).await;
        assert_eq!(told.len(), 2);
        let answer = told[1].clone().unwrap();
        assert!(answer.contains("\"id\":3") && answer.contains("more than 15 bytes"), "{answer}");
    }
}
