//! One server: connecting on demand, listing its tools, and calling them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use serde_json::Map;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_core::seam::Clock;
use weft_core::{Error, ErrorKind, Json, Result};

use crate::asked_back::FilledIn;
use crate::authorization::Authorization;
use crate::backoff::{Backoff, ConnectDecision};
use crate::config::{ServerConfig, TransportKind};
use crate::definition::{ToolDefinition, definitions};
use crate::dial::{Configured, Dial};
use crate::faults::Redactor;
use crate::link::{Link, LinkShared, PendingRequest, RequestFailure, RequestFate};
use crate::oauth::Oauth;
use crate::reach::Reach;
use crate::sign_in::{CredentialPlace, SignIn};

/// Number of connection attempts for one caller. Lower than the number after which a server is paused: after a failed
/// listing, a call still tries again.
const ATTEMPTS_MAX: u32 = 4;
/// How long a list is cached if the server cannot announce changes.
// Each run of an agent requests it; a change is noticed within a minute.
const LIST_KEPT: Duration = Duration::from_secs(60);

/// One server.
pub(crate) struct McpServer {
    pub(crate) id: String,
    pub(crate) config: Arc<ServerConfig>,
    way: ServerAccess,
    live: Lock<Option<Arc<Link>>>,
    /// Held while connecting, so that all callers share one connection. Checking the connection or dropping a broken
    /// one does not need it.
    connecting: Mutex<()>,
    backoff: Lock<Backoff>,
    /// The latest failed connection attempt.
    failed: Lock<Option<FailedAttempt>>,
    /// Held while listing, so that all callers share one request.
    list: Mutex<ToolList>,
    shared: LinkShared,
    closed: CancellationToken,
}

/// Access to a server.
pub(crate) struct ServerAccess {
    pub(crate) dial: Arc<dyn Dial>,
    /// Sign-in at it, if it supports that.
    pub(crate) sign_in: Option<Arc<SignIn>>,
    /// Removes secrets from its messages.
    pub(crate) redactor: Redactor,
}

impl ServerAccess {
    /// Creates the access from the configuration.
    pub(crate) fn configured(
        config: &Arc<ServerConfig>,
        inherited: BTreeMap<String, String>,
        reach: &Reach,
        place: CredentialPlace,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let http = &reach.servers;
        let sign_in = SignIn::of(config, place, reach.clone(), clock).map(Arc::new);
        let client = config.oauth.as_ref().filter(|oauth| !oauth.token_url.is_empty());
        let authorization = match (&sign_in, client) {
            (Some(sign_in), _) => Authorization::SignIn(Arc::clone(sign_in)),
            (None, Some(client)) => {
                Authorization::Client(Arc::new(Oauth::new(client.clone(), Arc::clone(http))))
            }
            (None, None) => Authorization::Headers,
        };
        let redactor = Redactor::new(config.secrets());
        let (http, known) = (Arc::clone(http), redactor.clone());
        let dial = Configured::new(Arc::clone(config), inherited, http, authorization, known);
        Self { dial: Arc::new(dial), sign_in, redactor }
    }
}

/// The cached list of tools.
#[derive(Default)]
struct ToolList {
    kept: Option<ListedTools>,
    /// The latest failed request for it.
    failed: Option<FailedAttempt>,
}

/// A failed attempt to connect or to list.
struct FailedAttempt {
    at: Instant,
    kind: ErrorKind,
    why: String,
}

/// A list of tools and its validity.
struct ListedTools {
    definitions: Arc<[ToolDefinition]>,
    /// The number of changes before it was requested.
    changes: u64,
    /// The connection it came from; `None` for a server without a persistent one.
    link: Option<Arc<Link>>,
    until: Option<Instant>,
}

/// A call under way, with its connection.
pub(crate) struct RunningCall {
    pub(crate) asked: PendingRequest,
    link: Arc<Link>,
}

impl McpServer {
    pub(crate) fn new(id: &str, config: Arc<ServerConfig>, way: ServerAccess, tasks: TaskTracker) -> Self {
        let redactor = way.redactor.clone();
        Self {
            id: id.to_owned(),
            shared: LinkShared {
                changes: Arc::new(AtomicU64::new(0)),
                tasks,
                redactor,
                elicitation: config.elicitation,
                first: config.first_version(),
            },
            config,
            way,
            live: Lock::default(),
            connecting: Mutex::default(),
            backoff: Lock::default(),
            failed: Lock::default(),
            list: Mutex::default(),
            closed: CancellationToken::new(),
        }
    }

    /// Returns the current tools of the server.
    ///
    /// # Errors
    /// The failure of the server, with its name.
    pub(crate) async fn definitions(&self) -> Result<Arc<[ToolDefinition]>> {
        tokio::select! {
            // Closing needs the list's lock, too, and must not wait for an unresponsive server.
            biased;
            () = self.closed.cancelled() => Err(self.about("cannot list the tools of", gone())),
            definitions = self.kept_or_asked_for() => definitions,
        }
    }

    /// Returns the cached list while it is valid, or requests a new one.
    async fn kept_or_asked_for(&self) -> Result<Arc<[ToolDefinition]>> {
        let came = Instant::now();
        // Held during the request: concurrent callers wait for the same list.
        let mut list = self.list.lock().await;
        if let Some(failed) = list.failed.as_ref().filter(|failed| failed.at > came) {
            return Err(Error::new(failed.kind, failed.why.clone()));
        }
        let link = if self.config.stateless { None } else { Some(self.link_since(came).await?) };
        // Read before the request: a change announced meanwhile makes this list outdated.
        let changes = self.shared.changes.load(Ordering::Acquire);
        if let Some(listed) = list.kept.as_ref().filter(|listed| listed.holds(changes, link.as_ref())) {
            return Ok(Arc::clone(&listed.definitions));
        }
        let (listed, link) = match self.listed(link, came).await {
            Ok(listed) => listed,
            Err(error) => {
                // For callers that wait for the same list.
                list.failed = Some(FailedAttempt { at: Instant::now(), kind: error.kind, why: error.full() });
                return Err(error);
            }
        };
        let definitions: Arc<[ToolDefinition]> = read_definitions(listed).await?.into();
        let until = (!link.tells_changes || self.config.stateless).then(|| Instant::now() + LIST_KEPT);
        // A connection for a single request is closed after it, and says nothing about the next one.
        let link = (!self.config.stateless).then_some(link);
        let kept = ListedTools { definitions: Arc::clone(&definitions), changes, link, until };
        *list = ToolList { kept: Some(kept), failed: None };
        Ok(definitions)
    }

    /// Requests the list, over this connection or a new one.
    async fn listed(&self, link: Option<Arc<Link>>, came: Instant) -> Result<(Vec<Json>, Arc<Link>)> {
        let mut link = match link {
            Some(link) => link,
            None => self.link_since(came).await?,
        };
        let mut may_repeat = true;
        loop {
            let limit = self.config.list_limit();
            let failure = match timeout(limit, link.list()).await {
                Ok(Ok(listed)) => return Ok((listed, link)),
                Ok(Err(failure)) => failure,
                Err(_) => {
                    let message = format!("no list of tools within {} s", limit.as_secs());
                    return Err(
                        self.about("cannot list the tools of", Error::new(ErrorKind::Timeout, message))
                    );
                }
            };
            self.forget_if_broken(&link, failure.sent);
            if failure.sent == RequestFate::Answered || !may_repeat {
                return Err(self.about("cannot list the tools of", failure.error));
            }
            // Requesting a list changes nothing, so it may be repeated even if the request was sent.
            may_repeat = false;
            link = self.link().await?;
        }
    }

    /// Starts a call, connecting if necessary.
    pub(crate) async fn begin(
        &self,
        tool: &str,
        arguments: &Map<String, Json>,
    ) -> Result<RunningCall, RequestFailure> {
        // Connecting was already retried as often as useful, so the call is not started again.
        let link =
            self.link().await.map_err(|error| RequestFailure { error, sent: RequestFate::Answered })?;
        match link.call(tool, arguments.clone(), FilledIn::default()).await {
            Ok(asked) => Ok(RunningCall { asked, link }),
            Err(failure) => {
                self.forget_if_broken(&link, failure.sent);
                Err(failure)
            }
        }
    }

    /// Repeats a call on the same connection, with the answers that the server has requested.
    pub(crate) async fn go_on(
        &self,
        call: &mut RunningCall,
        tool: &str,
        arguments: &Map<String, Json>,
        filled_in: FilledIn,
    ) -> Result<(), RequestFailure> {
        call.asked = call.link.call(tool, arguments.clone(), filled_in).await?;
        Ok(())
    }

    /// Processes the end of a call.
    pub(crate) fn ended(&self, call: &RunningCall, failure: Option<&RequestFailure>) {
        let Some(failure) = failure else { return };
        self.forget_if_broken(&call.link, failure.sent);
        // A tool that is no longer known was renamed or removed without an announcement.
        if failure.error.kind == ErrorKind::Invalid {
            self.shared.changes.fetch_add(1, Ordering::Release);
        }
    }

    fn forget_if_broken(&self, link: &Arc<Link>, sent: RequestFate) {
        if sent == RequestFate::Answered {
            return;
        }
        // A concurrent call may have reconnected already, and that connection is good. Calls that still use this one
        // keep it until they have ended.
        drop(self.live().take_if(|current| Arc::ptr_eq(current, link)));
    }

    /// Returns the connection while it is usable.
    fn usable(&self) -> Option<Arc<Link>> {
        self.live().as_ref().filter(|link| !link.is_over() && !self.closed.is_cancelled()).cloned()
    }

    /// Returns the shared connection, or a new one for a single call.
    async fn link(&self) -> Result<Arc<Link>> {
        self.link_since(Instant::now()).await
    }

    /// The same for a caller that has waited since `came`.
    async fn link_since(&self, came: Instant) -> Result<Arc<Link>> {
        if self.config.stateless {
            self.refuse_with_others(came)?;
            return self.connect().await.map(Arc::new);
        }
        if let Some(link) = self.usable() {
            return Ok(link);
        }
        let _connecting = self.connecting.lock().await;
        // A concurrent call may have connected meanwhile.
        if let Some(link) = self.usable() {
            return Ok(link);
        }
        self.refuse_with_others(came)?;
        // It is broken; closing it need not delay the new one.
        drop(self.live().take());
        let link = Arc::new(self.connect().await?);
        *self.live() = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Fails if an attempt made since `came` has failed: otherwise each waiting caller would wait for an unresponsive
    /// server, one after the other.
    fn refuse_with_others(&self, came: Instant) -> Result<()> {
        match self.failed().as_ref().filter(|failed| failed.at > came) {
            Some(failed) => Err(self.about("cannot connect to", Error::new(failed.kind, failed.why.clone()))),
            None => Ok(()),
        }
    }

    async fn connect(&self) -> Result<Link> {
        let connected = tokio::select! {
            // A server that was removed is not started again.
            biased;
            () = self.closed.cancelled() => Err(gone()),
            connected = self.attempts() => connected,
        };
        connected.map_err(|error| self.about("cannot connect to", error))
    }

    /// Tries to connect until it succeeds or the time limit is reached.
    async fn attempts(&self) -> Result<Link> {
        let limit = self.config.connect_limit();
        let until = Instant::now() + limit;
        let mut last: Option<Error> = None;
        let mut attempts = 0;
        loop {
            let now = Instant::now();
            let next = self.backoff().next(now);
            match next {
                ConnectDecision::Try if attempts < ATTEMPTS_MAX => attempts += 1,
                ConnectDecision::Wait(left) if attempts < ATTEMPTS_MAX && now + left < until => {
                    tokio::time::sleep(left).await;
                    continue;
                }
                ConnectDecision::Wait(left) | ConnectDecision::Refuse(left) => {
                    return Err(last.unwrap_or_else(|| self.resting(left)));
                }
                ConnectDecision::Try => return Err(last.unwrap_or_else(|| self.resting(Duration::ZERO))),
            }
            let opening = Box::pin(Link::open(self.way.dial.as_ref(), self.shared.clone()));
            let error = match timeout_at(until, opening).await {
                Ok(Ok(link)) => {
                    self.backoff().succeeded();
                    // Waiting callers must not get an earlier failure.
                    *self.failed() = None;
                    return Ok(link);
                }
                Ok(Err(error)) => error,
                Err(_) => Error::new(ErrorKind::Timeout, format!("no answer within {} s", limit.as_secs())),
            };
            self.backoff().failed(Instant::now());
            // Kept for callers that are refused while the server is paused: they have not seen any attempt.
            *self.failed() = Some(FailedAttempt { at: Instant::now(), kind: error.kind, why: error.full() });
            // A URL may become available in a moment; a program that cannot be started will not.
            if !error.kind.is_passing() || self.config.kind() == TransportKind::Stdio {
                return Err(error);
            }
            tracing::debug!(server = %self.id, reason = %error.detail(), "cannot connect to an MCP server");
            last = Some(error);
        }
    }

    fn resting(&self, left: Duration) -> Error {
        let failures = self.backoff().failures();
        let why = self.failed().as_ref().map(|failed| failed.why.clone()).unwrap_or_default();
        let mut error = Error::new(
            ErrorKind::Unavailable,
            format!(
                "it could not be reached, {} in a row ({why}); the next attempt is in {:.1} s",
                weft_core::value::plural(failures, "time"),
                left.as_secs_f64()
            ),
        );
        error.retry_after = Some(left);
        error
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, Option<FailedAttempt>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> std::sync::MutexGuard<'_, Option<Arc<Link>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backoff(&self) -> std::sync::MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sign-in at it.
    ///
    /// # Errors
    /// `Invalid` for a server without sign-in.
    pub(crate) fn sign_in(&self) -> Result<&SignIn> {
        self.way.sign_in.as_deref().ok_or_else(|| {
            let message = format!("the MCP server `{}` needs no sign-in", self.id);
            Error::invalid(message)
                .help("it is a program, or `headers` or `oauth.token_url` provides its credentials")
        })
    }

    /// Closes the connection; the next request opens a new one with the then current credentials.
    pub(crate) async fn begin_anew(&self) {
        self.backoff().succeeded();
        {
            // A concurrent connection attempt would use the old credentials.
            let _connecting = self.connecting.lock().await;
            let link = self.live().take();
            if let Some(link) = link {
                link.close().await;
            }
        }
        *self.list.lock().await = ToolList::default();
    }

    /// Closes the connection, and refuses all further requests.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        // No call waits for a new token any more, but the response may contain the next refresh token.
        let settled = async {
            if let Some(sign_in) = &self.way.sign_in {
                sign_in.settle().await;
            }
        };
        let ended = async {
            self.list.lock().await.kept = None;
            // A concurrent connection attempt is abandoned and its resources are released before closing completes.
            drop(self.connecting.lock().await);
            let link = self.live().take();
            if let Some(link) = link {
                link.close().await;
            }
        };
        tokio::join!(settled, ended);
    }

    /// Waits until it is closed.
    pub(crate) async fn until_closed(&self) {
        self.closed.cancelled().await;
    }

    /// Adds the server's name to an error.
    pub(crate) fn about(&self, doing: &str, cause: Error) -> Error {
        let kind = match cause.kind {
            // `NotFound` means that a server is not configured: callers would then look for a different one, and
            // agents would go without it.
            ErrorKind::NotFound => ErrorKind::Invalid,
            kind => kind,
        };
        let mut error = Error::new(kind, format!("{doing} the MCP server `{}`", self.id));
        // The remedy and the delay are those of the cause; `full` only reads the outermost ones.
        error.help.clone_from(&cause.help);
        error.retry_after = cause.retry_after;
        error.because(cause)
    }
}

impl ListedTools {
    fn holds(&self, changes: u64, link: Option<&Arc<Link>>) -> bool {
        let same_link = match (&self.link, link) {
            (Some(of), Some(link)) => Arc::ptr_eq(of, link),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_link && self.changes == changes && self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// Parses the tools in a server's list on a blocking thread.
// A malicious server can make compiling the regular expressions of its schemas take seconds.
pub(crate) async fn read_definitions(listed: Vec<Json>) -> Result<Vec<ToolDefinition>> {
    let reading = tokio::task::spawn_blocking(move || definitions(&listed));
    reading.await.map_err(|cause| Error::internal("the tools of an MCP server cannot be read").because(cause))
}

/// The error for requests to a closed server.
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "it has been closed")
}
