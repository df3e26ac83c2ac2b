//! Lets a library that reads answers without any limit reach the operator's servers within limits.
//!
//! Such a library is given a client that can only connect to a socket of this process. What it sends there goes to the
//! server of its exchange, and no more of the answer is passed on than the limits allow.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use url::Url;
use weft_core::{Error, Result};

use crate::operator::{IDLE_PER_HOST_MAX, builder};

/// Pause after the system failed to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The name of the header that tells which exchange a request belongs to. It is not sent on.
const TICKET_NAME: &str = "x-weft-exchange";
const TICKET: HeaderName = HeaderName::from_static(TICKET_NAME);

type RelayedBody = Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

/// Limits on one answer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerLimits {
    /// Of the whole answer.
    pub whole: usize,
    /// Of one of its events.
    pub event: usize,
    /// Of the body of an answer with an error status; what follows is left out.
    pub refusal: usize,
}

/// What an answer consists of, as the library reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEvents {
    /// Lines, each of which is an event.
    Lines,
    /// Server-sent events: lines, with an empty one after each event.
    ServerSent,
}

/// Why an exchange has no complete answer.
#[derive(Debug)]
pub enum ExchangeFailure {
    /// The server did not answer, or its answer broke off.
    Lost(reqwest::Error),
    /// The answer has more than this many bytes.
    AnswerTooLong(usize),
    /// One event of the answer has more than this many bytes.
    EventTooLong(usize),
}

/// A client for a library, and the way from there to the operator's servers. Dropping this value ends all exchanges.
pub struct AnswerRelay {
    inside: reqwest::Client,
    state: Arc<RelayState>,
    serving: AbortHandle,
    /// The folder of the socket, where it needs one.
    _folder: Option<TempDir>,
    // In a mutex only so that the relay can be shared between threads.
    _work: Mutex<JoinSet<()>>,
}

impl fmt::Debug for AnswerRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerRelay").field("limits", &self.state.limits).finish_non_exhaustive()
    }
}

impl AnswerRelay {
    /// Opens a relay whose requests are sent by `outside`. It works as long as the runtime in which it is opened.
    ///
    /// # Errors
    /// `Internal` when no socket can be created.
    pub fn open(outside: reqwest::Client, limits: AnswerLimits) -> Result<Self> {
        let failed = |cause: io::Error| Error::internal("cannot create a socket for answers").because(cause);
        let (path, folder) = place().map_err(failed)?;
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let inside = builder()?
            .unix_socket(path.as_path())
            // Both ends of each are descriptors of this process.
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .build()
            .map_err(|cause| Error::internal("cannot set up the HTTP client").because(cause))?;
        let state = Arc::new(RelayState { outside, limits, open: Mutex::default() });
        let mut work = JoinSet::new();
        let serving = work.spawn(serve(listener, Arc::clone(&state)));
        Ok(Self { inside, state, serving, _folder: folder, _work: Mutex::new(work) })
    }

    /// Returns whether it still works: it does not outlive its runtime.
    pub fn is_open(&self) -> bool {
        !self.serving.is_finished()
    }

    /// Returns the client for the library.
    pub fn client(&self) -> &reqwest::Client {
        &self.inside
    }

    /// Returns the URL that the library must use in place of `url`: encryption begins after the relay.
    pub fn inside_url(url: &Url) -> Url {
        let mut inside = url.clone();
        // Leaves a URL as it is whose scheme cannot be replaced; no request to it would succeed anyway.
        let _ = inside.set_scheme("http");
        inside
    }

    /// Begins an exchange with the server of `url`, which answers with such events.
    pub fn exchange(&self, url: &Url, events: AnswerEvents) -> RelayedExchange {
        let origin = url.origin().ascii_serialization();
        let exchange = Arc::new(ExchangeState { origin, events, failure: Mutex::default() });
        // Not a number that counts up: with the ticket of another exchange, a request could reach its server.
        let ticket = ticket();
        self.state.open().insert(ticket.clone(), Arc::clone(&exchange));
        RelayedExchange { ticket, exchange, state: Arc::clone(&self.state) }
    }
}

/// One request and its answer. Dropping this value ends the exchange if it has not begun.
pub struct RelayedExchange {
    ticket: String,
    exchange: Arc<ExchangeState>,
    state: Arc<RelayState>,
}

impl RelayedExchange {
    /// Returns the name and the value of the header that its request must have.
    pub fn header(&self) -> (&str, &str) {
        (TICKET_NAME, &self.ticket)
    }

    /// Takes the reason why there is no complete answer. It is known before the library sees the end of the answer,
    /// which looks complete to it.
    pub fn failure(&self) -> Option<ExchangeFailure> {
        self.exchange.failure().take()
    }
}

impl Drop for RelayedExchange {
    fn drop(&mut self) {
        self.state.open().remove(&self.ticket);
    }
}

/// Returns a text that nobody can guess.
fn ticket() -> String {
    // The keys of this hasher are random and never leave the process.
    let random = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", random(), random())
}

/// Returns a place for a socket. On Linux it is a name outside of the file system, which needs no folder that can be
/// written and disappears with the process.
#[cfg(target_os = "linux")]
fn place() -> io::Result<(PathBuf, Option<TempDir>)> {
    Ok((PathBuf::from(format!("\0weft-answers-{}", ticket())), None))
}

/// Returns a place for a socket, in a folder that other users cannot access.
#[cfg(not(target_os = "linux"))]
fn place() -> io::Result<(PathBuf, Option<TempDir>)> {
    let folder = tempfile::Builder::new().prefix("weft-").tempdir()?;
    Ok((folder.path().join("answers"), Some(folder)))
}

struct ExchangeState {
    /// The scheme, the host and the port of the server.
    origin: String,
    events: AnswerEvents,
    failure: Mutex<Option<ExchangeFailure>>,
}

impl ExchangeState {
    fn failure(&self) -> MutexGuard<'_, Option<ExchangeFailure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct RelayState {
    outside: reqwest::Client,
    limits: AnswerLimits,
    /// The exchanges, by their tickets.
    open: Mutex<HashMap<String, Arc<ExchangeState>>>,
}

async fn serve(listener: UnixListener, state: Arc<RelayState>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Possibly too many files are open: a later attempt may succeed, and the connection waits.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Finished connections are removed here; otherwise the set would grow with every connection.
        while connections.try_join_next().is_some() {}
        // Any process of the machine can connect to a name outside of the file system.
        if is_own(&stream) {
            connections.spawn(converse(Arc::clone(&state), stream));
        }
    }
}

/// Whether this process is at the other end.
// A name outside of the file system has no permissions: every process with this network could connect to it.
fn is_own(stream: &UnixStream) -> bool {
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    pid.is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id()))
}

async fn converse(state: Arc<RelayState>, stream: UnixStream) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(state.answer(request).await) }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // It ends when the library is no longer interested in the answer.
    drop(connection.await);
}

impl RelayState {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Arc<ExchangeState>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<RelayedBody> {
        let ticket = request.headers().get(TICKET).and_then(|value| value.to_str().ok());
        let exchange = ticket.and_then(|ticket| self.open().get(ticket).cloned());
        let Some(exchange) = exchange else { return nothing(StatusCode::FORBIDDEN) };
        match self.ask(&exchange, request).await {
            Some(response) => bounded(response, exchange, self.limits),
            None => nothing(StatusCode::BAD_GATEWAY),
        }
    }

    /// Sends a request to its server. A failure is noted in the exchange.
    async fn ask(&self, exchange: &ExchangeState, request: Request<Incoming>) -> Option<reqwest::Response> {
        let (mut parts, body) = request.into_parts();
        // It breaks off only if the library has given up.
        let body = body.collect().await.ok()?.to_bytes();
        // These describe the connection inside; the client outside sets its own for the server.
        for name in [TICKET, HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
            parts.headers.remove(name);
        }
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{}{path}", exchange.origin);
        let sending = self.outside.request(parts.method, url).headers(parts.headers).body(body);
        match sending.send().await {
            Ok(response) => Some(response),
            Err(cause) => {
                *exchange.failure() = Some(ExchangeFailure::Lost(cause));
                None
            }
        }
    }
}

fn nothing(status: StatusCode) -> Response<RelayedBody> {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}

/// Returns an answer with as much of its body as the limits allow.
fn bounded(
    response: reqwest::Response,
    exchange: Arc<ExchangeState>,
    limits: AnswerLimits,
) -> Response<RelayedBody> {
    let (status, mut headers) = (response.status(), response.headers().clone());
    let body = if status.is_success() {
        let event = EventMeter::of(exchange.events);
        answered(MeteredAnswer { response, exchange, limits, whole: 0, event, begun: Vec::new() })
    } else {
        refused(response, limits.refusal)
    };
    // The length would be a lie where a limit cuts the body off, and the library would wait for the rest.
    for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    let mut relayed = Response::new(Either::Right(StreamBody::new(body)));
    *relayed.status_mut() = status;
    *relayed.headers_mut() = headers;
    relayed
}

/// The body of an answer up to its end or to a limit. It ends in the same way in both cases: after an error, what was
/// passed on before might be lost, too.
fn answered(answer: MeteredAnswer) -> BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
    let pieces = stream::unfold(answer, |mut answer| async move {
        match answer.piece().await {
            Ok(piece) => piece.map(|piece| (Ok::<_, Infallible>(Frame::data(piece)), answer)),
            Err(failure) => {
                *answer.exchange.failure() = Some(failure);
                None
            }
        }
    });
    pieces.boxed()
}

/// The beginning of the body of an answer with an error status. The status matters most: a body that breaks off ends
/// there.
fn refused(
    response: reqwest::Response,
    bytes_max: usize,
) -> BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
    let pieces = stream::unfold((response, bytes_max), |(mut response, left)| async move {
        if left == 0 {
            return None;
        }
        let mut piece = response.chunk().await.ok().flatten()?;
        piece.truncate(left);
        let left = left - piece.len();
        Some((Ok::<_, Infallible>(Frame::data(piece)), (response, left)))
    });
    pieces.boxed()
}

/// An answer, and how much of it was read.
struct MeteredAnswer {
    response: reqwest::Response,
    exchange: Arc<ExchangeState>,
    limits: AnswerLimits,
    whole: usize,
    event: EventMeter,
    /// The beginning of an event of which the rest has not arrived.
    begun: Vec<u8>,
}

impl MeteredAnswer {
    /// Reads up to the end of an event, so that the library need not put together what belongs together; `None` at the
    /// end of the answer.
    async fn piece(&mut self) -> Result<Option<Bytes>, ExchangeFailure> {
        loop {
            let Some(mut piece) = self.response.chunk().await.map_err(ExchangeFailure::Lost)? else {
                let rest = Bytes::from(std::mem::take(&mut self.begun));
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            };
            self.whole = self.whole.saturating_add(piece.len());
            if self.whole > self.limits.whole {
                return Err(ExchangeFailure::AnswerTooLong(self.limits.whole));
            }
            let Measured { longest, ended } = self.event.measure(&piece);
            if longest > self.limits.event {
                return Err(ExchangeFailure::EventTooLong(self.limits.event));
            }
            let rest = piece.split_off(ended);
            let complete = if self.begun.is_empty() || piece.is_empty() {
                piece
            } else {
                self.begun.extend_from_slice(&piece);
                Bytes::from(std::mem::take(&mut self.begun))
            };
            self.begun.extend_from_slice(&rest);
            if !complete.is_empty() {
                return Ok(Some(complete));
            }
        }
    }
}

/// Finds and measures the events of an answer.
struct EventMeter {
    /// Whether an event may have several lines and ends with an empty one.
    of_lines: bool,
    /// The number of bytes of the current event.
    length: usize,
    /// Whether the current line is empty so far.
    line_is_empty: bool,
    /// Whether the last byte was a carriage return, which may be half of a line end.
    after_return: bool,
}

/// The events in a piece of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Measured {
    /// The greatest length of an event, including what came before the piece.
    longest: usize,
    /// Where the last event ends; 0 if none does.
    ended: usize,
}

impl EventMeter {
    fn of(events: AnswerEvents) -> Self {
        let of_lines = events == AnswerEvents::ServerSent;
        Self { of_lines, length: 0, line_is_empty: true, after_return: false }
    }

    /// Adds a piece of the answer.
    fn measure(&mut self, piece: &[u8]) -> Measured {
        let mut measured = Measured::default();
        for (at, byte) in piece.iter().enumerate() {
            self.length += 1;
            measured.longest = measured.longest.max(self.length);
            let is_second_half = self.of_lines && self.after_return && *byte == b'\n';
            self.after_return = *byte == b'\r';
            let ends_line = *byte == b'\n' || (*byte == b'\r' && self.of_lines);
            if !ends_line {
                self.line_is_empty = false;
                continue;
            }
            let ends_event = if is_second_half {
                // Its first half has ended an event, and is not followed by another one.
                self.length == 1
            } else {
                self.line_is_empty || !self.of_lines
            };
            if ends_event {
                measured.ended = at + 1;
                self.length = 0;
            }
            self.line_is_empty = true;
        }
        measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_end_with_a_line_or_with_an_empty_one() {
        let check = |events: AnswerEvents, pieces: &[&str], expected: &[(usize, usize)]| {
            let mut meter = EventMeter::of(events);
            let measured = pieces.iter().map(|piece| meter.measure(piece.as_bytes()));
            let measured: Vec<_> = measured.map(|measured| (measured.longest, measured.ended)).collect();
            assert_eq!(measured, expected, "{events:?} {pieces:?}");
        };
        let events = AnswerEvents::ServerSent;
        check(events, &["data: a\n\ndata: b\n\nda"], &[(9, 18)]);
        check(events, &["data: a\n", "\nda", "ta: b\n\n"], &[(8, 0), (9, 1), (9, 7)]);
        check(events, &["data: a\r\n\r\n", "data: b\r\n\r", "\n"], &[(10, 11), (10, 10), (1, 1)]);
        check(events, &["data: a\r", "\ndata: b\r\n", "\r\n"], &[(8, 0), (18, 0), (19, 2)]);
        check(events, &["data: a\r\rda"], &[(9, 9)]);
        check(events, &["data: a\ndata: b\n", "data: c\n\n"], &[(16, 0), (25, 9)]);
        check(events, &["\n\n\n\n"], &[(1, 4)]);
        check(AnswerEvents::Lines, &["{\"a\":1}\n{\"b\"", ":2}\r\n"], &[(8, 8), (9, 5)]);
        check(AnswerEvents::Lines, &["abc", "def"], &[(3, 0), (6, 0)]);
    }
}
