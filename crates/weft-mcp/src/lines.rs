//! A transport with one message per line, over a pair of byte streams.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::TxJsonRpcMessage;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use weft_core::{Error, ErrorKind, Json, Result};
use weft_net::NotSent;

use crate::faults::Faults;
use crate::line_reader::{LineFault, LineReader};

/// Time limit for closing: a server that does not read blocks everything that is written.
const FINISH_LIMIT: Duration = Duration::from_secs(1);

/// Stream from which messages are read.
pub type ByteSource = Box<dyn AsyncRead + Send + Unpin>;
/// Stream to which messages are written.
pub type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// Reads and writes lines. Never buffers a line longer than the limit.
pub(crate) struct MessageLines {
    source: LineReader<ByteSource>,
    sink: Arc<Mutex<Option<Sink>>>,
    bytes_max: usize,
    faults: Faults,
}

impl MessageLines {
    pub(crate) fn new(source: ByteSource, sink: Sink, bytes_max: usize, faults: Faults) -> Self {
        let sink = Arc::new(Mutex::new(Some(sink)));
        Self { source: LineReader::new(source, bytes_max), sink, bytes_max, faults }
    }

    /// Writes a message. A failure means that the server cannot have understood it.
    pub(crate) fn send(
        &self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let sink = Arc::clone(&self.sink);
        async move {
            let mut line = serde_json::to_vec(&message)
                .map_err(|cause| Error::internal("cannot write the message").because(cause))?;
            line.push(b'\n');
            // Held for the whole line: concurrent requests must not mix their lines.
            let mut sink = sink.lock().await;
            let sink = sink.as_mut().ok_or_else(|| unsent("its input is closed"))?;
            let written = async {
                sink.write_all(&line).await?;
                sink.flush().await
            };
            written.await.map_err(|cause: std::io::Error| unsent(&cause.to_string()))
        }
    }

    /// Returns the next message; `None` after the last one. Cancel-safe.
    pub(crate) async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let fault = match self.source.next().await {
                Ok(Some(line)) => match message(&line) {
                    Some(message) => return Some(message),
                    None => continue,
                },
                Ok(None) => return None,
                Err(fault) => fault,
            };
            let (kind, why) = match fault {
                LineFault::TooLong => {
                    let max = self.bytes_max;
                    let why = format!("it sent a message of more than {max} bytes (`result_bytes_max`)");
                    (ErrorKind::Garbled, why)
                }
                LineFault::Unreadable(cause) => {
                    (ErrorKind::Unavailable, format!("its output cannot be read: {cause}"))
                }
            };
            self.faults.end(kind, why);
            return None;
        }
    }

    /// Waits until the server has closed its side.
    pub(crate) async fn drain(&mut self) {
        self.source.drain().await;
    }

    /// Closes the output, if the server reads what was written before.
    pub(crate) async fn finish(&mut self) {
        let finishing = async {
            if let Some(mut sink) = self.sink.lock().await.take() {
                // A failure means that the server is already gone.
                drop(sink.shutdown().await);
            }
        };
        drop(tokio::time::timeout(FINISH_LIMIT, finishing).await);
    }
}

fn unsent(reason: &str) -> Error {
    Error::new(ErrorKind::Unavailable, "the server accepts no messages").because(NotSent(reason.to_owned()))
}

/// Parses a message. Text that is not a message of the protocol is ignored, because many programs print to their
/// output by mistake; an invalid response becomes an error for its caller.
pub(crate) fn message(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return None;
    }
    let reason = match serde_json::from_slice(text) {
        Ok(message) => return Some(message),
        Err(reason) => reason,
    };
    tracing::debug!(%reason, "a server sent something that is not a message");
    let json: Json = serde_json::from_slice(text).ok()?;
    let id: RequestId = serde_json::from_value(json.get("id")?.clone()).ok()?;
    // No caller waits for an invalid request of the server.
    if json.get("method").is_some() {
        return None;
    }
    let broken = ErrorData::parse_error("the response is not a message of the protocol", None);
    Some(ServerJsonRpcMessage::error(broken, Some(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(text: &'static [u8], bytes_max: usize) -> (MessageLines, Faults) {
        let faults = Faults::default();
        (MessageLines::new(Box::new(text), Box::new(tokio::io::sink()), bytes_max, faults.clone()), faults)
    }

    #[tokio::test]
    async fn noise_is_skipped_and_malformed_answers_fail_their_requests() {
        let (mut lines, faults) = reader(
            b"starting up\n\n{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1}}\r\n\
              {\"jsonrpc\":\"2.0\",\"id\":8,\"error\":\"no object\"}\n{\"half\":",
            1000,
        );
        let first = serde_json::to_value(lines.receive().await.unwrap()).unwrap();
        assert_eq!((&first["id"], &first["result"]["a"]), (&Json::from(7), &Json::from(1)));
        let second = serde_json::to_value(lines.receive().await.unwrap()).unwrap();
        assert_eq!((&second["id"], &second["error"]["code"]), (&Json::from(8), &Json::from(-32700)));
        assert!(lines.receive().await.is_none() && faults.reason().is_none());
    }

    #[tokio::test]
    async fn a_line_over_the_limit_closes_the_connection_with_an_error() {
        let endless = Box::new(tokio::io::repeat(b'x'));
        let faults = Faults::default();
        let mut lines = MessageLines::new(endless, Box::new(tokio::io::sink()), 100_000, faults.clone());
        assert!(lines.receive().await.is_none());
        assert!(faults.reason().unwrap().message.contains("more than 100000 bytes"));
    }
}
