//! The stdio transport: one message per line, over a pair of byte streams. Requests are processed concurrently.

use std::io;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::Map;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weft_core::{Error, ErrorKind, Json, Result};

use super::dispatch::Context;
use super::envelope;
use super::exchange::{channel, work};
use super::headers::{is_stateless, stateless_request};
use super::message::{ClientMessage, RpcError, RpcRequest, answer, code};
use super::revision::ProtocolRevision;
use super::service::{Leaving, Service};
use super::session::{ServedSession, UnderWay};
use crate::line_reader::{LineFault, LineReader};

/// Maximum size of a line, in bytes.
const LINE_BYTES_MAX: usize = 16 << 20;

type Works = FuturesUnordered<BoxFuture<'static, Option<Json>>>;

/// Answers messages until the input ends and all requests in progress are answered.
///
/// # Errors
/// When a line is too long, or one of the streams fails.
pub async fn converse(
    service: Arc<dyn Service>,
    source: impl AsyncRead + Send + Unpin,
    sink: impl AsyncWrite + Send + Unpin,
) -> Result<()> {
    let (sender, mut told) = channel();
    let left = CancellationToken::new();
    let mut connection = StdioConnection { service, session: None, under_way: Arc::default(), left, sender };
    let (mut lines, mut sink) = (LineReader::new(source, LINE_BYTES_MAX), sink);
    let (mut works, mut open) = (Works::new(), true);
    while open || !works.is_empty() {
        tokio::select! {
            // Outgoing messages come before new requests, so that a client that sends continuously still gets them.
            biased;
            Some(message) = told.recv() => write(&mut sink, &message).await?,
            Some(answer) = works.next(), if !works.is_empty() => {
                // Messages sent before the response precede it.
                while let Ok(message) = told.try_recv() {
                    write(&mut sink, &message).await?;
                }
                if let Some(answer) = answer {
                    write(&mut sink, &answer).await?;
                }
            }
            line = lines.next(), if open => match line.map_err(unread)? {
                Some(line) => {
                    if let Some(refused) = connection.take(line, &works) {
                        write(&mut sink, &refused).await?;
                    }
                }
                None => {
                    open = false;
                    connection.left();
                }
            },
        }
    }
    Ok(())
}

async fn write(sink: &mut (impl AsyncWrite + Send + Unpin), message: &Json) -> Result<()> {
    let line = format!("{message}\n");
    let written = async {
        sink.write_all(line.as_bytes()).await?;
        sink.flush().await
    };
    written.await.map_err(|cause| failed("the client takes no answers", cause))
}

fn failed(what: &str, cause: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, what.to_owned()).because(cause)
}

fn unread(fault: LineFault) -> Error {
    match fault {
        LineFault::TooLong => {
            Error::new(ErrorKind::Invalid, format!("a message has more than {LINE_BYTES_MAX} bytes"))
        }
        LineFault::Unreadable(cause) => failed("the messages cannot be read", cause),
    }
}

/// A connection over a pair of streams, with its session if there is one.
struct StdioConnection {
    service: Arc<dyn Service>,
    session: Option<Arc<ServedSession>>,
    under_way: Arc<UnderWay>,
    /// Fires when the input has ended.
    left: CancellationToken,
    sender: mpsc::Sender<Json>,
}

impl StdioConnection {
    /// Processes a line. Returns the response if it is an error that is known immediately.
    fn take(&mut self, line: Vec<u8>, works: &Works) -> Option<Json> {
        let refused = |id: &Json, error: RpcError| Some(answer(id, &Err(error)));
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let map: Map<String, Json> = match serde_json::from_slice(&line) {
            Ok(Json::Object(map)) => map,
            Ok(_) => {
                return refused(
                    &Json::Null,
                    RpcError::new(code::INVALID_REQUEST, "a message must be an object"),
                );
            }
            Err(error) => {
                return refused(&Json::Null, RpcError::new(code::PARSE, format!("not JSON: {error}")));
            }
        };
        let request = match ClientMessage::read(map, line.into()) {
            Err(no_message) => return refused(&no_message.id, no_message.error),
            Ok(ClientMessage::Notification { method, params }) => {
                if method == "notifications/cancelled" {
                    self.under_way.cancel(&params);
                }
                return None;
            }
            Ok(ClientMessage::Answer { id, outcome }) => {
                if let Some(session) = &self.session {
                    session.answered(&id, outcome);
                }
                return None;
            }
            Ok(ClientMessage::Request(request)) => request,
        };
        if request.method == "initialize" && !is_stateless(&request) {
            let session = ServedSession::new(&request.params);
            let result = envelope::initialized(&self.service.about(), session.revision);
            // Open questions of the previous session will not be answered, so they fail.
            if let Some(before) = self.session.replace(Arc::new(session)) {
                before.close();
            }
            return Some(answer(&request.id, &Ok(result)));
        }
        let id = request.id.clone();
        self.begin(request, works).err().and_then(|error| refused(&id, error))
    }

    fn begin(&self, request: RpcRequest, works: &Works) -> std::result::Result<(), RpcError> {
        let declared = if is_stateless(&request) { Some(stateless_request(&request)?) } else { None };
        let working = self.under_way.begin(&request.id)?;
        let (cancelled, left, sender) = (working.cancelled.clone(), self.left.clone(), self.sender.clone());
        let context = match declared {
            Some(declared) => Context {
                revision: declared.revision,
                client: declared.client,
                level: declared.level,
                session: None,
                cancelled,
                left,
                leaving: Leaving::Cancels,
                sender,
            },
            None => {
                // As over HTTP: a method that does not depend on earlier messages needs no session.
                let without_session = || Arc::new(ServedSession::without_session(ProtocolRevision::UNNAMED));
                let session = self.session.clone().unwrap_or_else(without_session);
                Context {
                    revision: session.revision,
                    client: session.client.clone(),
                    level: Some(session.level()),
                    session: Some(session),
                    cancelled,
                    left,
                    leaving: Leaving::GoesOn,
                    sender,
                }
            }
        };
        works.push(work(Arc::clone(&self.service), request, context, working));
        Ok(())
    }

    /// Handles the end of the input.
    fn left(&self) {
        self.left.cancel();
        if let Some(session) = &self.session {
            session.close();
        }
    }
}
