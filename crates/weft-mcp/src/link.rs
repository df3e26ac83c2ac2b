//! A connection to a server, from the handshake to its end.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientRequest,
    ErrorCode, ErrorData, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RunningService, ServiceError,
    serve_client_with_lifecycle,
};
use serde_json::Map;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use weft_core::{Error, ErrorKind, Json, Result, ToolOutput, value};
use weft_net::NotSent;

use crate::asked_back::FilledIn;
use crate::config::ElicitationMode;
use crate::dial::Dial;
use crate::events::{self, TOO_LONG};
use crate::faults::Redactor;
use crate::notifications::{Listening, NotificationHandler};
use crate::wire::{SentLog, ServerWire};

/// Maximum number of pages in a list of tools.
// A server that always names a next page would otherwise be asked for ever.
const PAGES_MAX: usize = 100;
/// Maximum number of tools of one server.
const TOOLS_MAX: usize = 2_000;
/// Maximum total size of all tools, in bytes.
// A server may send them in any number of pages, and parsed they take many times the memory of their text.
const TOOLS_BYTES_MAX: usize = 16 << 20;
/// Time limit for closing, and for cancelling a call.
const GOODBYE_LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of characters of the server's own message in an error.
const WORDS_MAX: usize = 2_000;

/// State shared by the connections of one server.
#[derive(Clone, Debug)]
pub(crate) struct LinkShared {
    /// Number of changes of its tools that the server has announced.
    pub(crate) changes: Arc<AtomicU64>,
    /// Tracks messages that are sent after no call waits for them any more.
    pub(crate) tasks: TaskTracker,
    pub(crate) redactor: Redactor,
    pub(crate) elicitation: ElicitationMode,
    /// The protocol version to try first, if configured.
    pub(crate) first: Option<ProtocolVersion>,
}

/// An open connection. Dropping it closes it.
pub(crate) struct Link {
    service: Mutex<Option<RunningService<RoleClient, NotificationHandler>>>,
    peer: Peer<RoleClient>,
    handler: NotificationHandler,
    sent_log: SentLog,
    shared: LinkShared,
    runtime: Handle,
    /// Whether the server announces changes of its tools, and no announcement is lost.
    pub(crate) tells_changes: bool,
}

/// Why a request failed, and whether it may be repeated.
#[derive(Debug)]
pub(crate) struct RequestFailure {
    pub(crate) error: Error,
    pub(crate) sent: RequestFate,
}

/// How far a failed request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestFate {
    /// It was never sent: the connection is unusable, and nothing has happened.
    Never,
    /// It was sent, and the connection broke before an answer arrived.
    Lost,
    /// The server has answered.
    Answered,
}

impl Link {
    /// Opens a connection: first with a session handshake, then, if the server does not support it, in the newer way.
    ///
    /// # Errors
    /// The failure to open it; `Unsupported` when there is no protocol version that both sides support.
    pub(crate) async fn open(dial: &dyn Dial, shared: LinkShared) -> Result<Self> {
        // There are many older servers, and some do not answer requests in the newer way at all.
        let first = shared.first.clone().unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE);
        let refused = match Self::attempt(dial, &shared, first.clone()).await? {
            Ok(link) => return Ok(link),
            Err(refused) => refused,
        };
        // Only one more attempt: a server that refuses both does not accept this client.
        let Some(version) = alternative(&first, &refused) else {
            return Err(rejected(&refused, &shared.redactor));
        };
        match Self::attempt(dial, &shared, version).await? {
            Ok(link) => Ok(link),
            Err(_) => Err(rejected(&refused, &shared.redactor)),
        }
    }

    /// Makes one attempt with one version. The inner error is a refusal by the server.
    async fn attempt(
        dial: &dyn Dial,
        shared: &LinkShared,
        version: ProtocolVersion,
    ) -> Result<Result<Self, ErrorData>> {
        let wire = dial.dial().await?;
        let (sent_log, delivers_all) = (wire.sent_log(), wire.delivers_all());
        let handler =
            NotificationHandler::new(version.clone(), shared.elicitation, Arc::clone(&shared.changes));
        let mode = if version.has_initialize() {
            ClientLifecycleMode::Initialize
        } else {
            ClientLifecycleMode::Discover { preferred_versions: vec![version] }
        };
        let begun =
            // Boxed: the future of the handshake is large, and needed only at the beginning.
            Box::pin(serve_client_with_lifecycle::<_, ServerWire, _, _>(handler.clone(), wire, mode)).await;
        let service = match begun {
            Ok(service) => service,
            Err(ClientInitializeError::JsonRpcError(refused)) => return Ok(Err(refused)),
            Err(error) => return Err(unopened(error, &sent_log)),
        };
        let info = service.peer().peer_info();
        let spoken = info.as_ref().map(|info| info.protocol_version.clone()).unwrap_or_default();
        let tools = info.as_ref().and_then(|info| info.capabilities.tools.as_ref());
        let tells = tools.and_then(|tools| tools.list_changed).unwrap_or_default();
        let link = Self {
            peer: service.peer().clone(),
            // In an option, because closing takes it out of a shared link.
            service: Mutex::new(Some(service)),
            handler,
            sent_log,
            shared: shared.clone(),
            // Stored, because a link may be dropped on a thread without a runtime.
            runtime: Handle::current(),
            // In the newer way, changes are only announced to subscribers.
            tells_changes: tells && delivers_all && spoken.has_initialize(),
        };
        if ProtocolVersion::KNOWN_VERSIONS.contains(&spoken) {
            return Ok(Ok(link));
        }
        link.close().await;
        Err(unspoken(spoken.as_str()))
    }

    /// Returns whether it is closed.
    pub(crate) fn is_over(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Returns all tools as the server lists them.
    pub(crate) async fn list(&self) -> Result<Vec<Json>, RequestFailure> {
        let (mut tools, mut cursor, mut bytes) = (Vec::new(), None, 0_usize);
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let mut asked = self.ask(request).await?;
            let page = match asked.answer().await {
                Ok(page) => page,
                // A server without tools need not support the request.
                Err(failure) if failure.error.kind == ErrorKind::Unsupported => return Ok(tools),
                Err(failure) => return Err(failure),
            };
            let Some(listed) = page.get("tools").and_then(Json::as_array) else {
                return Err(answered(Error::new(
                    ErrorKind::Garbled,
                    "the server's list of tools is not valid",
                )));
            };
            bytes = bytes.saturating_add(listed.iter().map(value::size).sum());
            if bytes > TOOLS_BYTES_MAX {
                let message = format!("the server's list of tools has more than {TOOLS_BYTES_MAX} bytes");
                return Err(answered(Error::new(ErrorKind::Garbled, message)));
            }
            tools.extend(listed.iter().cloned());
            if tools.len() > TOOLS_MAX {
                let message = format!("the server lists more than {TOOLS_MAX} tools");
                return Err(answered(Error::new(ErrorKind::Garbled, message)));
            }
            let next = page.get("nextCursor").and_then(Json::as_str).map(str::to_owned);
            match next {
                None => return Ok(tools),
                // A server that names the same page again would repeat its answer until the limit of pages.
                Some(next) if cursor.as_ref() == Some(&next) => break,
                next => cursor = next,
            }
        }
        let message = format!("the server's list of tools is endless or has more than {PAGES_MAX} pages");
        Err(answered(Error::new(ErrorKind::Garbled, message)))
    }

    /// Starts a call of a tool, by its name on the server, with the answers that the server has requested before.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Json>,
        filled_in: FilledIn,
    ) -> Result<PendingRequest, RequestFailure> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        (params.input_responses, params.request_state) = (filled_in.responses, filled_in.state);
        self.ask(ClientRequest::CallToolRequest(CallToolRequest::new(params))).await
    }

    async fn ask(&self, request: ClientRequest) -> Result<PendingRequest, RequestFailure> {
        let options = PeerRequestOptions::no_options();
        let handle = self
            .peer
            .send_request_with_option(request, options)
            .await
            // The queue of the connection is closed, so the request has not left this process.
            .map_err(|_| RequestFailure { error: self.broken(), sent: RequestFate::Never })?;
        Ok(PendingRequest {
            listening: self.handler.listen(handle.progress_token.clone()),
            notice: CancelNotice {
                id: handle.id.clone(),
                is_wanted: true,
                peer: self.peer.clone(),
                sent_log: self.sent_log.clone(),
                tasks: self.shared.tasks.clone(),
                runtime: self.runtime.clone(),
            },
            redactor: self.shared.redactor.clone(),
            answer: handle.rx,
        })
    }

    fn broken(&self) -> Error {
        broken(&self.sent_log)
    }

    /// Closes the connection, and waits until the other side has ended, up to a time limit.
    pub(crate) async fn close(&self) {
        if let Some(service) = self.take() {
            say_goodbye(service).await;
        }
    }

    fn take(&self) -> Option<RunningService<RoleClient, NotificationHandler>> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(service) = self.take() {
            self.shared.tasks.spawn_on(say_goodbye(service), &self.runtime);
        }
    }
}

async fn say_goodbye(mut service: RunningService<RoleClient, NotificationHandler>) {
    // A process may need three waits to end; after that it is killed in any case.
    if service.close_with_timeout(GOODBYE_LIMIT * 2).await.is_err() {
        tracing::warn!("a connection to an MCP server ended with an error");
    }
}

/// A request under way. Dropping it cancels it at the server.
pub(crate) struct PendingRequest {
    answer: oneshot::Receiver<Result<ServerResult, ServiceError>>,
    listening: Listening,
    notice: CancelNotice,
    redactor: Redactor,
}

/// Next event of a request.
pub(crate) enum RequestEvent {
    /// All progress reported so far.
    Progress(ToolOutput),
    /// The answer.
    Answer(Result<Json, RequestFailure>),
}

impl PendingRequest {
    /// Waits for the answer.
    pub(crate) async fn answer(&mut self) -> Result<Json, RequestFailure> {
        loop {
            if let RequestEvent::Answer(answer) = self.next().await {
                return answer;
            }
        }
    }

    /// Waits for the next event. Cancel-safe, until the answer has come.
    pub(crate) async fn next(&mut self) -> RequestEvent {
        let answer = tokio::select! {
            // Progress after the answer is not read.
            biased;
            progress = self.listening.more() => return RequestEvent::Progress(progress),
            answer = &mut self.answer => answer,
        };
        // The answer has come, so there is nothing to cancel.
        self.notice.is_wanted = false;
        RequestEvent::Answer(self.understood(answer.unwrap_or(Err(ServiceError::TransportClosed))))
    }

    fn understood(&self, answer: Result<ServerResult, ServiceError>) -> Result<Json, RequestFailure> {
        let senseless = |cause: Box<dyn std::error::Error + Send + Sync>| {
            answered(Error::new(ErrorKind::Garbled, "the server's answer is not valid").because(cause))
        };
        match answer {
            Ok(result) => serde_json::to_value(result).map_err(|cause| senseless(cause.into())),
            Err(ServiceError::McpError(refused)) => Err(answered(refusal(&refused, &self.redactor))),
            Err(ServiceError::TransportSend(error)) => Err(unsent(error.error)),
            Err(ServiceError::TransportClosed) => {
                let sent_log = &self.notice.sent_log;
                let sent =
                    if sent_log.was_sent(&self.notice.id) { RequestFate::Lost } else { RequestFate::Never };
                Err(RequestFailure { error: broken(sent_log), sent })
            }
            Err(other) => Err(senseless(other.into())),
        }
    }
}

/// Cancels the request at the server when no caller waits for it any more.
struct CancelNotice {
    id: RequestId,
    is_wanted: bool,
    peer: Peer<RoleClient>,
    sent_log: SentLog,
    tasks: TaskTracker,
    runtime: Handle,
}

impl Drop for CancelNotice {
    fn drop(&mut self) {
        // Called for its side effect: the log forgets the id.
        self.sent_log.was_sent(&self.id);
        if !self.is_wanted || self.peer.is_transport_closed() {
            return;
        }
        let reason = Some("nobody waits for the answer any more".to_owned());
        let params = CancelledNotificationParam::new(Some(self.id.clone()), reason);
        let peer = self.peer.clone();
        let telling = async move {
            let telling = peer.send_notification(CancelledNotification::new(params).into());
            // If the server cannot be notified, it will find out by itself.
            drop(tokio::time::timeout(GOODBYE_LIMIT, telling).await);
        };
        self.tasks.spawn_on(telling, &self.runtime);
    }
}

fn answered(error: Error) -> RequestFailure {
    RequestFailure { error, sent: RequestFate::Answered }
}

fn broken(sent_log: &SentLog) -> Error {
    sent_log.faults.reason().unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "the connection broke"))
}

/// Converts the transport's error for a request that could not be sent.
fn unsent(cause: Box<dyn std::error::Error + Send + Sync>) -> RequestFailure {
    match cause.downcast::<Error>() {
        Ok(error) => {
            let never = error.cause.as_ref().is_some_and(|cause| cause.is::<NotSent>());
            let sent = match error.kind {
                _ if never => RequestFate::Never,
                // The connection broke: it is unknown how far the request got.
                ErrorKind::Unavailable => RequestFate::Lost,
                _ => RequestFate::Answered,
            };
            RequestFailure { error: *error, sent }
        }
        Err(other) => RequestFailure {
            error: Error::new(ErrorKind::Unavailable, "the request could not be sent").because(other),
            // Without this information the worse case is assumed: such a call is not repeated.
            sent: RequestFate::Lost,
        },
    }
}

/// Converts a refusal, with the server's own message.
fn refusal(refused: &ErrorData, redactor: &Redactor) -> Error {
    let words = redactor.clean(&refused.message, WORDS_MAX);
    let error =
        |kind| Error::new(kind, format!("the server returned an error: {words} (code {})", refused.code.0));
    match refused.code {
        TOO_LONG => Error::new(ErrorKind::Invalid, words).help(events::RAISE),
        ErrorCode::METHOD_NOT_FOUND => error(ErrorKind::Unsupported),
        ErrorCode::RESOURCE_NOT_FOUND => error(ErrorKind::NotFound),
        ErrorCode::PARSE_ERROR => error(ErrorKind::Garbled),
        ErrorCode::INTERNAL_ERROR | ErrorCode(-32_099..=-32_000) => error(ErrorKind::Unavailable),
        _ => error(ErrorKind::Invalid),
    }
}

/// Returns the version to try after a refusal: the newest that both sides support, if the server names its versions;
/// the one without a handshake, if the server does not know that, or misses the data that accompanies each request in
/// the newer way.
fn alternative(tried: &ProtocolVersion, refused: &ErrorData) -> Option<ProtocolVersion> {
    let named = refused.data.as_ref().and_then(|data| data.get("supported"));
    match named.and_then(|named| serde_json::from_value::<Vec<ProtocolVersion>>(named.clone()).ok()) {
        Some(named) => {
            ProtocolVersion::KNOWN_VERSIONS.iter().rev().find(|known| named.contains(known)).cloned()
        }
        None if !tried.has_initialize() => Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        None => {
            let newer = [ErrorCode::METHOD_NOT_FOUND, ErrorCode::HEADER_MISMATCH];
            newer.contains(&refused.code).then_some(ProtocolVersion::LATEST)
        }
    }
}

fn rejected(refused: &ErrorData, redactor: &Redactor) -> Error {
    let words = redactor.clean(&refused.message, WORDS_MAX);
    let message = format!("the server rejected the initialization: {words} (code {})", refused.code.0);
    Error::new(ErrorKind::Unsupported, message)
        .help(format!("this program supports MCP {}", crate::config::spoken()))
}

fn unspoken(version: &str) -> Error {
    let message = format!("the server uses version `{version}` of MCP, which is not supported here");
    Error::new(ErrorKind::Unsupported, message)
        .help(format!("this program supports {}", crate::config::spoken()))
}

/// Converts the error of opening a connection.
fn unopened(error: ClientInitializeError, sent_log: &SentLog) -> Error {
    match error {
        ClientInitializeError::TransportError { error, .. } => unsent(error.error).error,
        ClientInitializeError::ConnectionClosed(_) => sent_log.faults.reason().unwrap_or_else(|| {
            Error::new(ErrorKind::Unavailable, "the server closed the connection before it sent anything")
        }),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let theirs: Vec<_> = server_supported.iter().map(ProtocolVersion::as_str).collect();
            unspoken(&theirs.join(", "))
        }
        other => Error::new(ErrorKind::Garbled, "the server does not initialize as an MCP server")
            .because(other.to_string()),
    }
}
