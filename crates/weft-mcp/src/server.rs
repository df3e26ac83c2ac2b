//! One server: connecting when it is needed, its list of tools, calling them.

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

/// How often one caller tries to connect. Less than what makes a server rest: when listing the tools of one
/// that is down has failed, a call tries once more.
const ATTEMPTS_MAX: u32 = 4;
/// How long a list is kept that the server cannot say to have changed.
// Each run of an agent asks for it; a change is seen within a minute.
const LIST_KEPT: Duration = Duration::from_secs(60);

/// One server.
pub(crate) struct McpServer {
    pub(crate) id: String,
    pub(crate) config: Arc<ServerConfig>,
    way: Way,
    live: Lock<Option<Arc<Link>>>,
    /// Held while connecting, so that one connection is made for all. Whoever only looks at it, or lets go of a broken one,
    /// does not wait for that.
    connecting: Mutex<()>,
    backoff: Lock<Backoff>,
    /// The latest attempt to connect that failed.
    failed: Lock<Option<FailedAttempt>>,
    /// Held while listing, so that one list is asked for.
    list: Mutex<ToolList>,
    shared: LinkShared,
    closed: CancellationToken,
}

/// How a server is reached.
pub(crate) struct Way {
    pub(crate) dial: Arc<dyn Dial>,
    /// How people sign in at it, where that is what it can want.
    pub(crate) sign_in: Option<Arc<SignIn>>,
    /// Knows what must not be shown of what it says.
    pub(crate) redactor: Redactor,
}

impl Way {
    /// As the configuration says.
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

/// What is known of the tools.
#[derive(Default)]
struct ToolList {
    kept: Option<ListedTools>,
    /// Asking for it failed.
    failed: Option<FailedAttempt>,
}

/// An attempt to connect or to list that failed.
struct FailedAttempt {
    at: Instant,
    kind: ErrorKind,
    why: String,
}

/// A list of tools and how long it holds.
struct ListedTools {
    definitions: Arc<[ToolDefinition]>,
    /// The count of changes before it was asked for.
    changes: u64,
    /// The connection it is of; none for a server without one.
    link: Option<Arc<Link>>,
    until: Option<Instant>,
}

/// A call that is under way, and the connection it is on.
pub(crate) struct RunningCall {
    pub(crate) asked: PendingRequest,
    link: Arc<Link>,
}

impl McpServer {
    pub(crate) fn new(id: &str, config: Arc<ServerConfig>, way: Way, tasks: TaskTracker) -> Self {
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

    /// The tools as the server defines them now.
    ///
    /// # Errors
    /// What keeps the server from being asked, with its name.
    pub(crate) async fn definitions(&self) -> Result<Arc<[ToolDefinition]>> {
        tokio::select! {
            // Whoever ends the connection needs the list, too, and must not wait for a server that says nothing.
            biased;
            () = self.closed.cancelled() => Err(self.about("cannot list the tools of", gone())),
            definitions = self.kept_or_asked_for() => definitions,
        }
    }

    /// The list that is kept, as long as it holds, or another one.
    async fn kept_or_asked_for(&self) -> Result<Arc<[ToolDefinition]>> {
        let came = Instant::now();
        // Held while the server is asked: whoever comes meanwhile waits for the same list.
        let mut list = self.list.lock().await;
        if let Some(failed) = list.failed.as_ref().filter(|failed| failed.at > came) {
            return Err(Error::new(failed.kind, failed.why.clone()));
        }
        let link = if self.config.stateless { None } else { Some(self.link_since(came).await?) };
        // Taken before the server is asked: a change that it tells of meanwhile makes this list an old one.
        let changes = self.shared.changes.load(Ordering::Acquire);
        if let Some(listed) = list.kept.as_ref().filter(|listed| listed.holds(changes, link.as_ref())) {
            return Ok(Arc::clone(&listed.definitions));
        }
        let (listed, link) = match self.listed(link, came).await {
            Ok(listed) => listed,
            Err(error) => {
                // For those who wait for the same list.
                list.failed = Some(FailedAttempt { at: Instant::now(), kind: error.kind, why: error.full() });
                return Err(error);
            }
        };
        let definitions: Arc<[ToolDefinition]> = read_definitions(listed).await?.into();
        let until = (!link.tells_changes || self.config.stateless).then(|| Instant::now() + LIST_KEPT);
        // A connection that is made for one question is closed behind it, and says nothing of the next.
        let link = (!self.config.stateless).then_some(link);
        let kept = ListedTools { definitions: Arc::clone(&definitions), changes, link, until };
        *list = ToolList { kept: Some(kept), failed: None };
        Ok(definitions)
    }

    /// The list as it came, over this connection or another one.
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
            // Asking for a list changes nothing, so it may be asked for
            // again even where the request had left.
            may_repeat = false;
            link = self.link().await?;
        }
    }

    /// Begins a call, connecting if need be.
    pub(crate) async fn begin(
        &self,
        tool: &str,
        arguments: &Map<String, Json>,
    ) -> Result<RunningCall, RequestFailure> {
        // Connecting has been tried as often as makes sense: for that the call is not begun once more.
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

    /// Makes a call once more, on the same connection, with what the server has asked for.
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

    /// Notes how a call ended.
    pub(crate) fn ended(&self, call: &RunningCall, failure: Option<&RequestFailure>) {
        let Some(failure) = failure else { return };
        self.forget_if_broken(&call.link, failure.sent);
        // A tool that is not known any more was renamed or taken away without a word.
        if failure.error.kind == ErrorKind::Invalid {
            self.shared.changes.fetch_add(1, Ordering::Release);
        }
    }

    fn forget_if_broken(&self, link: &Arc<Link>, sent: RequestFate) {
        if sent == RequestFate::Answered {
            return;
        }
        // Somebody else may have connected anew already, and that connection is good. Calls that are still on this one
        // keep it until they have ended.
        drop(self.live().take_if(|current| Arc::ptr_eq(current, link)));
    }

    /// The connection, as long as it can be used.
    fn usable(&self) -> Option<Arc<Link>> {
        self.live().as_ref().filter(|link| !link.is_over() && !self.closed.is_cancelled()).cloned()
    }

    /// The connection, or one for this call alone.
    async fn link(&self) -> Result<Arc<Link>> {
        self.link_since(Instant::now()).await
    }

    /// The same for somebody who has waited since `came`.
    async fn link_since(&self, came: Instant) -> Result<Arc<Link>> {
        if self.config.stateless {
            self.refuse_with_others(came)?;
            return self.connect().await.map(Arc::new);
        }
        if let Some(link) = self.usable() {
            return Ok(link);
        }
        let _connecting = self.connecting.lock().await;
        // Somebody may have connected meanwhile.
        if let Some(link) = self.usable() {
            return Ok(link);
        }
        self.refuse_with_others(came)?;
        // It is over: its goodbye need not wait for another one.
        drop(self.live().take());
        let link = Arc::new(self.connect().await?);
        *self.live() = Some(Arc::clone(&link));
        Ok(link)
    }

    /// What an attempt has come to that was made while others waited, they are told, too: a server that says nothing
    /// would be waited for by each of them, one after the other.
    fn refuse_with_others(&self, came: Instant) -> Result<()> {
        match self.failed().as_ref().filter(|failed| failed.at > came) {
            Some(failed) => Err(self.about("cannot connect to", Error::new(failed.kind, failed.why.clone()))),
            None => Ok(()),
        }
    }

    async fn connect(&self) -> Result<Link> {
        let connected = tokio::select! {
            // A server that was taken off the list is not started once more.
            biased;
            () = self.closed.cancelled() => Err(gone()),
            connected = self.attempts() => connected,
        };
        connected.map_err(|error| self.about("cannot connect to", error))
    }

    /// Tries until it works, or as long as there is patience.
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
                    // Those who wait are not told of what was tried before.
                    *self.failed() = None;
                    return Ok(link);
                }
                Ok(Err(error)) => error,
                Err(_) => Error::new(ErrorKind::Timeout, format!("no answer within {} s", limit.as_secs())),
            };
            self.backoff().failed(Instant::now());
            // Kept for those who are refused while the server rests: they have seen no attempt.
            *self.failed() = Some(FailedAttempt { at: Instant::now(), kind: error.kind, why: error.full() });
            // An address may answer again in a moment; a program that cannot be started will not.
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
                "it could not be reached {failures} times in a row ({why}); the next attempt is in {:.1} s",
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

    /// How people sign in at it.
    ///
    /// # Errors
    /// `Invalid` for a server at which nobody signs in.
    pub(crate) fn sign_in(&self) -> Result<&SignIn> {
        self.way.sign_in.as_deref().ok_or_else(|| {
            let message = format!("nobody signs in at the MCP server `{}`", self.id);
            Error::invalid(message)
                .help("it is a program, or its `headers` or `oauth.token_url` say how it knows us")
        })
    }

    /// Ends the connection; the next question makes another one, by the credentials of then.
    pub(crate) async fn begin_anew(&self) {
        self.backoff().succeeded();
        {
            // Whoever connects just now does so with the credentials of before.
            let _connecting = self.connecting.lock().await;
            let link = self.live().take();
            if let Some(link) = link {
                link.close().await;
            }
        }
        *self.list.lock().await = ToolList::default();
    }

    /// Ends the connection and refuses everything from now on.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        // Nobody waits for a new token any more, but the one that renews the next time may be in the answer.
        let settled = async {
            if let Some(sign_in) = &self.way.sign_in {
                sign_in.settle().await;
            }
        };
        let ended = async {
            self.list.lock().await.kept = None;
            // Whoever is connecting gives up, and what was begun for that ends, before anybody hears that all is over.
            drop(self.connecting.lock().await);
            let link = self.live().take();
            if let Some(link) = link {
                link.close().await;
            }
        };
        tokio::join!(settled, ended);
    }

    /// Waits until it has been closed.
    pub(crate) async fn until_closed(&self) {
        self.closed.cancelled().await;
    }

    /// An error with the server's name in it.
    pub(crate) fn about(&self, doing: &str, cause: Error) -> Error {
        let kind = match cause.kind {
            // That word is for a server that nobody has configured: for it another one is looked for, and agents do without.
            ErrorKind::NotFound => ErrorKind::Invalid,
            kind => kind,
        };
        let mut error = Error::new(kind, format!("{doing} the MCP server `{}`", self.id));
        // The remedy and the wait are those of the cause; `full` looks at the outermost alone.
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

/// The tools in a server's list, read where no other work waits for the thread.
// Making the regular expressions of schemas ready takes seconds where a server means harm.
pub(crate) async fn read_definitions(listed: Vec<Json>) -> Result<Vec<ToolDefinition>> {
    let reading = tokio::task::spawn_blocking(move || definitions(&listed));
    reading.await.map_err(|cause| Error::internal("the tools of an MCP server cannot be read").because(cause))
}

/// Why nothing can be asked of a server that was closed.
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "it has been closed")
}
