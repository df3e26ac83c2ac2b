//! All transports to a server, as one type.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio_util::sync::CancellationToken;
use weft_core::{Error, ErrorKind, Result};

use crate::child::{self, ChildGroup};
use crate::faults::Faults;
use crate::http_peer::HttpPeer;
use crate::legacy::Legacy;
use crate::lines::{ByteSource, MessageLines, Sink};
use crate::streamable;

/// Maximum number of messages that may wait to be read by a server. Each of the server's own requests creates one, so
/// a server that sends requests and reads nothing would accumulate any number of them.
const WAITING_MAX: usize = 1_024;

/// An open connection to a server.
pub struct ServerWire {
    way: WireKind,
    sent_log: SentLog,
    /// One reference per message that waits to be sent, plus this one.
    waiting: Arc<()>,
}

enum WireKind {
    Lines(Box<Pipe>),
    Streamable(Box<StreamableHttpClientTransport<HttpPeer>>),
    Legacy(Box<Legacy>),
}

/// A pair of byte streams, and the child process at their other end, if any.
struct Pipe {
    lines: Option<MessageLines>,
    child: Option<ChildGroup>,
    ending: Option<BoxFuture<'static, ()>>,
    /// Fires when writing has failed. The cause is known to the reading side, so that it is reported there and not to
    /// the writer.
    broken: CancellationToken,
}

/// Information that a connection leaves behind: why it broke, and which requests were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentLog {
    pub(crate) faults: Faults,
    left: Arc<Mutex<HashSet<RequestId>>>,
}

impl SentLog {
    /// Returns whether a request was sent, or may have been; valid once.
    pub(crate) fn was_sent(&self, id: &RequestId) -> bool {
        // Removed: a connection may live for months, and ids would accumulate.
        self.left.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    fn sends(&self, id: &RequestId) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
    }
}

impl ServerWire {
    /// Creates a wire over a pair of byte streams, with one message per line of up to `bytes_max` bytes.
    pub fn lines(source: ByteSource, sink: Sink, bytes_max: usize) -> Self {
        let sent_log = SentLog::default();
        let lines = MessageLines::new(source, sink, bytes_max, sent_log.faults.clone());
        Self::over(WireKind::Lines(Box::new(Pipe::new(lines, None))), sent_log)
    }

    pub(crate) fn process(lines: MessageLines, child: ChildGroup, faults: Faults) -> Self {
        let sent_log = SentLog { faults, left: Arc::default() };
        Self::over(WireKind::Lines(Box::new(Pipe::new(lines, Some(child)))), sent_log)
    }

    pub(crate) fn streamable(peer: HttpPeer, url: &str) -> Self {
        let way = WireKind::Streamable(Box::new(streamable::transport(peer, url)));
        Self::over(way, SentLog::default())
    }

    pub(crate) fn legacy(legacy: Legacy, faults: Faults) -> Self {
        let sent_log = SentLog { faults, left: Arc::default() };
        Self::over(WireKind::Legacy(Box::new(legacy)), sent_log)
    }

    fn over(way: WireKind, sent_log: SentLog) -> Self {
        Self { way, sent_log, waiting: Arc::default() }
    }

    pub(crate) fn sent_log(&self) -> SentLog {
        self.sent_log.clone()
    }

    /// Returns whether everything that the server says arrives as long as the connection is open.
    // Over streamable HTTP, a server may offer no stream for its own messages, and a session that it has forgotten is
    // begun anew without notice.
    pub(crate) fn delivers_all(&self) -> bool {
        !matches!(self.way, WireKind::Streamable(_))
    }
}

impl Pipe {
    fn new(lines: MessageLines, child: Option<ChildGroup>) -> Self {
        Self { lines: Some(lines), child, ending: None, broken: CancellationToken::new() }
    }

    fn send(&self, item: TxJsonRpcMessage<RoleClient>, sent_log: SentLog) -> BoxFuture<'static, Result<()>> {
        let Some(lines) = &self.lines else { return Box::pin(async { Err(child::ended()) }) };
        let id = request_id(&item).cloned();
        let (sending, broken) = (lines.send(item), self.broken.clone());
        Box::pin(async move {
            if let Err(error) = sending.await {
                tracing::debug!(reason = %error.detail(), "an MCP server accepts no messages");
                if let Some(id) = id {
                    // It was not sent, so it may be sent again on another connection.
                    sent_log.was_sent(&id);
                }
                // Reported to the reader and not to the writer: the server's remaining messages are read first.
                broken.cancel();
            }
            Ok(())
        })
    }

    async fn receive(&mut self, faults: &Faults) -> Option<ServerJsonRpcMessage> {
        if let Some(lines) = &mut self.lines {
            let message = tokio::select! {
                // The server's remaining messages are read before its end is reported.
                biased;
                message = lines.receive() => message,
                () = self.broken.cancelled() => None,
            };
            if message.is_some() {
                return message;
            }
        }
        self.end(faults).await;
        None
    }

    /// Ends the process once, even if this future is dropped and called again.
    async fn end(&mut self, faults: &Faults) {
        if let Some(mut lines) = self.lines.take() {
            let (child, faults) = (self.child.take(), faults.clone());
            // Stored instead of awaited directly: a receiver may be dropped in the middle, and the process has to be
            // ended exactly once.
            self.ending = Some(Box::pin(async move {
                match child {
                    Some(child) => child.end(&mut lines, &faults).await,
                    None => lines.finish().await,
                }
            }));
        }
        if let Some(ending) = &mut self.ending {
            ending.await;
            self.ending = None;
        }
    }
}

fn request_id(item: &TxJsonRpcMessage<RoleClient>) -> Option<&RequestId> {
    match item {
        JsonRpcMessage::Request(request) => Some(&request.id),
        JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
    }
}

impl Transport<RoleClient> for ServerWire {
    type Error = Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        if let Some(id) = request_id(&item) {
            // Recorded before it is sent: if sending is dropped halfway, it counts as sent.
            self.sent_log.sends(id);
        }
        let sending: BoxFuture<'static, Result<()>> = match &mut self.way {
            WireKind::Lines(pipe) => pipe.send(item, self.sent_log.clone()),
            WireKind::Streamable(transport) => {
                let sending = transport.send(item);
                Box::pin(async move { sending.await.map_err(streamable::cause) })
            }
            WireKind::Legacy(legacy) => Box::pin(legacy.send(item)),
        };
        let waiting = Arc::clone(&self.waiting);
        async move {
            let sent = sending.await;
            drop(waiting);
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        // One of the references is the wire's own.
        if Arc::strong_count(&self.waiting) > WAITING_MAX {
            self.sent_log
                .faults
                .end(ErrorKind::Garbled, "it keeps sending requests and accepts no responses");
            return None;
        }
        match &mut self.way {
            WireKind::Lines(pipe) => pipe.receive(&self.sent_log.faults).await,
            WireKind::Streamable(transport) => transport.receive().await,
            WireKind::Legacy(legacy) => legacy.receive().await,
        }
    }

    async fn close(&mut self) -> Result<()> {
        match &mut self.way {
            WireKind::Lines(pipe) => pipe.end(&self.sent_log.faults).await,
            WireKind::Streamable(transport) => transport.close().await.map_err(streamable::cause)?,
            // Its stream ends when it is dropped; there is no message for closing.
            WireKind::Legacy(_) => {}
        }
        Ok(())
    }
}
