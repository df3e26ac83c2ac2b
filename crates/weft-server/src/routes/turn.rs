//! Common parts of all routes that run a turn.

use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use weft_app::new_session::NewSession;
use weft_app::turns::Waiting;
use weft_core::error::found;
use weft_core::seam::run_store::RunFilter;
use weft_core::seam::session_store::Session;
use weft_core::{CanvasId, CanvasKey, Error, ErrorKind, SessionId, SessionKey, TurnInput};
use weft_engine::RunHandle;

use crate::answer::{Answer, collect};
use crate::auth::Caller;
use crate::body::Body;
use crate::dialect::Dialect;
use crate::dialect::agent::AgentRun;
use crate::dialect::ragflow::{NodeTrace, RunView};
use crate::error::{ApiError, code};
use crate::frames::{AgentEvents, Kinds, RunEvents, Terminator};
use crate::sse;
use crate::state::ServerState;
use crate::wire::completion::{CompletionRequest, ResponseMode, whole};
use crate::wire::envelope::{Success, respond};

/// What to do with an unknown session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownSession {
    /// Report an error.
    Refuse,
    /// Create a new conversation with this id.
    Begin,
}

/// The form of a route's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The events in its stream.
    pub kinds: Kinds,
    /// The marker at the end of its stream.
    pub terminator: Terminator,
}

/// Whether a conversation existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionOrigin {
    /// It was created for the question.
    Begun,
    /// It existed before.
    Known,
}

/// Returns the conversation of a request: the one that it names, else a new one.
pub(crate) async fn session(
    state: &ServerState,
    canvas: &CanvasKey,
    request: &CompletionRequest,
    unknown: UnknownSession,
) -> Result<Session, ApiError> {
    Ok(opened(state, canvas, request, unknown).await?.0)
}

async fn opened(
    state: &ServerState,
    canvas: &CanvasKey,
    request: &CompletionRequest,
    unknown: UnknownSession,
) -> Result<(Session, SessionOrigin), ApiError> {
    match &request.session {
        Some(id) => of_id(state, canvas, request, id, unknown).await,
        None => begin(state, canvas, request, None).await,
    }
}

async fn of_id(
    state: &ServerState,
    canvas: &CanvasKey,
    request: &CompletionRequest,
    id: &SessionId,
    unknown: UnknownSession,
) -> Result<(Session, SessionOrigin), ApiError> {
    match state.app.sessions.load(&SessionKey::new(&canvas.tenant, id.clone())).await {
        Ok(session) if session.canvas == canvas.id => {
            same_version(state, canvas, &session, request.version.as_deref()).await?;
            Ok((session, SessionOrigin::Known))
        }
        Ok(_) if request.opening.is_some() => Err(ApiError::data("Session does not belong to this chat!")),
        Ok(_) => {
            let message = "Session does not belong to the requested agent.";
            Err(ApiError::new(code::OPERATING, message))
        }
        Err(error) if error.kind == ErrorKind::NotFound => match unknown {
            UnknownSession::Begin => begin(state, canvas, request, Some(id.clone())).await,
            UnknownSession::Refuse => Err(ApiError::data("Session not found!")),
        },
        Err(error) => Err(error.into()),
    }
}

/// Checks the version: a conversation stays on its version, and a request for another version needs another
/// conversation.
async fn same_version(
    state: &ServerState,
    canvas: &CanvasKey,
    session: &Session,
    version: Option<&str>,
) -> Result<(), ApiError> {
    // Conversations with assistants have no version.
    let Some(name) = version.filter(|_| !session.canvas_version.is_empty()) else { return Ok(()) };
    let asked = state.app.find_version(canvas, name).await?;
    if asked == session.canvas_version {
        return Ok(());
    }
    let message = format!(
        "session {} is on version {}, but `{name}` is another one: start a new session for it",
        session.key.id, session.canvas_version
    );
    Err(ApiError::argument(message))
}

/// Creates a conversation with a version of an agent, by default the newest.
pub(crate) async fn begun(
    state: &ServerState,
    canvas: &CanvasKey,
    new: NewSession<'_>,
    version: Option<&str>,
) -> weft_core::Result<Session> {
    let opened = state.app.open_session_on(canvas, new, version.unwrap_or("latest")).await;
    match opened {
        Err(error) if error.kind == ErrorKind::NotFound => {
            // If the canvas exists, it is the version that is unknown.
            state.app.canvases.newest(canvas).await.map_err(|_| Error::not_found("Agent not found."))?;
            Err(error)
        }
        opened => opened,
    }
}

async fn begin(
    state: &ServerState,
    canvas: &CanvasKey,
    request: &CompletionRequest,
    id: Option<SessionId>,
) -> Result<(Session, SessionOrigin), ApiError> {
    if request.opening.is_some() && request.version.is_some() {
        return Err(ApiError::argument("a chat assistant has no versions: omit `version` and `release`"));
    }
    let TurnInput { user_id, query, .. } = &request.input;
    let before = request.opening.as_ref().unwrap_or(&request.before);
    let new = NewSession { user_id, id: id.clone(), name: query, before };
    let opened = match &request.opening {
        Some(_) => state.app.open_chat(canvas, new).await,
        None => begun(state, canvas, new, request.version.as_deref()).await,
    };
    match (opened, id) {
        (Ok(session), _) => Ok((session, SessionOrigin::Begun)),
        (Err(error), _) if error.kind == ErrorKind::NotFound && request.opening.is_some() => {
            Err(ApiError::data("Agent not found."))
        }
        // Another request has just created it.
        (Err(error), Some(id)) if error.kind == ErrorKind::Conflict => {
            let session = state.app.sessions.load(&SessionKey::new(&canvas.tenant, id)).await?;
            Ok((session, SessionOrigin::Known))
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Starts the turn that a request asks for, once earlier questions of the session allow it, and returns it with its
/// conversation. For a key that was used before it returns the turn of that time.
pub(crate) async fn begin_turn(
    state: &ServerState,
    canvas: &CanvasKey,
    request: &CompletionRequest,
    unknown: UnknownSession,
) -> Result<(SessionId, RunHandle), ApiError> {
    let waiting = Waiting { after: request.after.clone(), ..state.waiting(request.strategy) };
    let Some(key) = &request.idempotency_key else {
        let (session, origin) = opened(state, canvas, request, unknown).await?;
        // Files may take minutes to read before the run starts.
        let unasked = request.session.is_none().then(|| Unasked::new(state, &session.key));
        let asked = state.app.ask_of(&session, &request.input, &waiting).await;
        if let Some(unasked) = unasked {
            unasked.asked();
        }
        let handle = kept_with(state, &session, origin, asked).await?;
        return Ok((session.key.id, handle));
    };
    let keyed = state.app.keyed(canvas, key).await?;
    let (session, origin) = match (&keyed.known, &request.session) {
        // A key stands for one question; in another conversation it would be a different question.
        (Some(run), Some(named)) if run.session != *named => {
            return Err(ApiError::argument("the idempotency key was used in another session"));
        }
        // Checked before the conversation is looked up: that may be gone by now, and "the newest version" may be a
        // different one.
        (Some(run), _) => {
            return Ok((run.session.clone(), state.app.again(run, &request.input).await?));
        }
        (None, Some(_)) => opened(state, canvas, request, unknown).await?,
        // The conversation's id is derived from the key as well, so that two concurrent copies of a question create
        // only one.
        (None, None) => of_id(state, canvas, request, &keyed.session, UnknownSession::Begin).await?,
    };
    let asked = state.app.ask_once(&session, &request.input, &keyed.run, &waiting).await;
    let (handle, _) = kept_with(state, &session, origin, asked).await?;
    Ok((session.key.id, handle))
}

/// Returns the outcome of a question. If the question was refused, the empty conversation created for it is removed.
///
/// # Errors
/// The reason for which the question was refused.
pub(crate) async fn kept_with<T>(
    state: &ServerState,
    session: &Session,
    origin: SessionOrigin,
    asked: weft_core::Result<T>,
) -> weft_core::Result<T> {
    if asked.is_err() && origin == SessionOrigin::Begun {
        forget_empty(state, &session.key).await?;
    }
    asked
}

/// Removes a conversation that was created for a question, unless it has a run.
async fn forget_empty(state: &ServerState, session: &SessionKey) -> weft_core::Result<()> {
    // A copy of the question may have started a run in it meanwhile, or be about to: until the conversation is removed,
    // none starts.
    let Ok(_held) = state.app.engine.hold_session(session) else { return Ok(()) };
    let filter = RunFilter { session: Some(session.id.clone()), limit: 1, ..RunFilter::default() };
    if state.app.runs.list(&session.tenant, &filter).await?.is_empty() {
        forget(state, session).await;
    }
    Ok(())
}

/// Removes a conversation if the caller goes away before its first question is asked. Only for conversations whose id
/// was generated for the request: nobody else knows them, so that nobody else may be about to use them.
struct Unasked {
    state: ServerState,
    session: Option<SessionKey>,
}

impl Unasked {
    fn new(state: &ServerState, session: &SessionKey) -> Self {
        Self { state: state.clone(), session: Some(session.clone()) }
    }

    /// The question was asked or refused, so the conversation is no longer removed.
    fn asked(mut self) {
        self.session = None;
    }
}

impl Drop for Unasked {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let state = self.state.clone();
        self.state.app.afterwards(async move {
            if let Err(error) = forget_empty(&state, &session).await {
                tracing::warn!(session.id = %session.id, error = error.detail(), "an unused conversation could not be removed");
            }
        });
    }
}

/// Removes a conversation that is no longer needed and may not even exist.
pub(super) async fn forget(state: &ServerState, session: &SessionKey) {
    if let Err(error) = found(state.app.remove_session(session).await) {
        tracing::warn!(session.id = %session.id, error = error.detail(), "an unused conversation could not be removed");
    }
}

/// Runs a turn of an agent and answers in the form of the route.
pub(crate) async fn run(
    state: &ServerState,
    canvas: &CanvasKey,
    request: CompletionRequest,
    unknown: UnknownSession,
    manner: Manner,
) -> Result<Response, ApiError> {
    let (session, handle) = begin_turn(state, canvas, &request, unknown).await?;
    let view = RunView::new(&handle.key.id, &session);
    if request.dialect == Dialect::Agent {
        return match request.response_mode {
            ResponseMode::Stream => {
                Ok(sse::respond(handle.entries, AgentEvents::new(view, manner.terminator, 0)))
            }
            ResponseMode::Whole => reply_of(handle, view).await,
        };
    }
    let frames = RunEvents::new(view.clone(), manner.kinds, manner.terminator);
    let (frames, traced) =
        if request.trace { (frames.traced(), Some(NodeTrace::default())) } else { (frames, None) };
    match request.response_mode {
        ResponseMode::Stream => Ok(sse::respond(handle.entries, frames)),
        ResponseMode::Whole => in_one_piece(handle, view, traced).await,
    }
}

/// Waits for the end of a run and sends a single answer.
pub(crate) async fn in_one_piece(
    handle: RunHandle,
    mut view: RunView,
    mut traced: Option<NodeTrace>,
) -> Result<Response, ApiError> {
    let mut answer = Answer::default();
    // A client that has received nothing yet counts as still waiting.
    let mut entries = handle.entries.answering_at_the_end();
    while let Some(entry) = entries.next().await? {
        view.learn(&entry);
        answer.learn(&entry);
        if let Some(traced) = &mut traced {
            traced.learn(&entry);
        }
    }
    let traced = traced.map(NodeTrace::into_nodes);
    Ok(match answer.failure() {
        Some(reason) => failed(reason, whole(&answer, &view, traced)),
        None => Success(whole(&answer, &view, traced)).into_response(),
    })
}

/// Waits for the end of a run and sends the reply of an agent.
async fn reply_of(handle: RunHandle, view: RunView) -> Result<Response, ApiError> {
    let mut run = AgentRun::new(view);
    let mut entries = handle.entries.answering_at_the_end();
    while let Some(entry) = entries.next().await? {
        run.learn(&entry);
    }
    Ok(match run.failure() {
        Some(reason) => {
            let body = json!({"code": code::FAILED, "message": reason, "data": run.reply()});
            respond(axum::http::StatusCode::OK, &body)
        }
        None => Success(run.reply()).into_response(),
    })
}

/// The answer for a failed run: its code is for programs; its data is an event like any other, because clients only
/// look there.
fn failed(reason: &str, mut event: Json) -> Response {
    event["data"]["content"] = format!("**ERROR**: {reason}").into();
    let body = json!({"code": code::FAILED, "message": reason, "data": event});
    respond(axum::http::StatusCode::OK, &body)
}

/// Waits for the end of a run.
pub(crate) async fn answered(handle: RunHandle, view: &mut RunView) -> Result<Answer, ApiError> {
    Ok(collect(&mut handle.entries.answering_at_the_end(), view).await?)
}

/// The key of the canvas that a path or a body names.
pub(crate) fn canvas_key(caller: &Caller, id: impl Into<CanvasId>) -> CanvasKey {
    CanvasKey::new(&caller.tenant, id)
}

/// Returns a request that contains only a question, for routes whose bodies have their own format.
pub(crate) fn question(
    body: &Body,
    caller: &Caller,
    session: Option<String>,
    query: String,
    default: ResponseMode,
) -> Result<CompletionRequest, ApiError> {
    let read = CompletionRequest::read(body, caller, default)?;
    // Their formats cannot express which message a piece belongs to.
    let input = TurnInput { query, parallel_messages: false, ..read.input };
    Ok(CompletionRequest { session: session.map(SessionId::from), input, ..read })
}
