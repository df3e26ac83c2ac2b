//! What all routes that run a turn have in common.

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
use crate::dialect::ragflow::RunView;
use crate::error::{ApiError, code};
use crate::frames::{AgentEvents, Kinds, RunEvents, Terminator};
use crate::sse;
use crate::state::ServerState;
use crate::wire::completion::{CompletionRequest, ResponseMode, whole};
use crate::wire::envelope::{Success, respond};

/// What a session id that nobody knows means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownSession {
    /// A mistake.
    Refuse,
    /// A new conversation under that id.
    Begin,
}

/// How a route answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Which events its stream has.
    pub kinds: Kinds,
    /// How its stream ends.
    pub terminator: Terminator,
}

/// Whether a conversation was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It has begun with the question.
    Begun,
    /// It was.
    Known,
}

/// The conversation a request is about: the one it names, else a new one.
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
) -> Result<(Session, Origin), ApiError> {
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
) -> Result<(Session, Origin), ApiError> {
    match state.app.sessions.load(&SessionKey::new(&canvas.tenant, id.clone())).await {
        Ok(session) if session.canvas == canvas.id => {
            same_version(state, canvas, &session, request.version.as_deref()).await?;
            Ok((session, Origin::Known))
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

/// A conversation stays on its version. Whoever asks for another one means another conversation.
async fn same_version(
    state: &ServerState,
    canvas: &CanvasKey,
    session: &Session,
    version: Option<&str>,
) -> Result<(), ApiError> {
    // Conversations with assistants are on no version.
    let Some(name) = version.filter(|_| !session.canvas_version.is_empty()) else { return Ok(()) };
    let asked = state.app.find_version(canvas, name).await?;
    if asked == session.canvas_version {
        return Ok(());
    }
    let message = format!(
        "session {} is on version {}, and `{name}` is another one: begin a new session for it",
        session.key.id, session.canvas_version
    );
    Err(ApiError::argument(message))
}

/// Begins a conversation on a version of an agent, without a name on the newest one.
pub(crate) async fn begun(
    state: &ServerState,
    canvas: &CanvasKey,
    new: NewSession<'_>,
    version: Option<&str>,
) -> weft_core::Result<Session> {
    let opened = state.app.open_session_on(canvas, new, version.unwrap_or("latest")).await;
    match opened {
        Err(error) if error.kind == ErrorKind::NotFound => {
            // It is the version that there is not, if there is a canvas.
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
) -> Result<(Session, Origin), ApiError> {
    if request.opening.is_some() && request.version.is_some() {
        return Err(ApiError::argument(
            "a chat assistant has no versions: leave `version` and `release` out",
        ));
    }
    let TurnInput { user_id, query, .. } = &request.input;
    let before = request.opening.as_ref().unwrap_or(&request.before);
    let new = NewSession { user_id, id: id.clone(), name: query, before };
    let opened = match &request.opening {
        Some(_) => state.app.open_chat(canvas, new).await,
        None => begun(state, canvas, new, request.version.as_deref()).await,
    };
    match (opened, id) {
        (Ok(session), _) => Ok((session, Origin::Begun)),
        (Err(error), _) if error.kind == ErrorKind::NotFound && request.opening.is_some() => {
            Err(ApiError::data("Agent not found."))
        }
        // Somebody else began it in this very moment.
        (Err(error), Some(id)) if error.kind == ErrorKind::Conflict => {
            let session = state.app.sessions.load(&SessionKey::new(&canvas.tenant, id)).await?;
            Ok((session, Origin::Known))
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Begins the turn that a request asks for, when it is its turn, and says in which conversation. For a key
/// that was shown before it is the turn of that time.
pub(crate) async fn begin_turn(
    state: &ServerState,
    canvas: &CanvasKey,
    request: &CompletionRequest,
    unknown: UnknownSession,
) -> Result<(SessionId, RunHandle), ApiError> {
    let waiting = Waiting { after: request.after.clone(), ..state.waiting(request.strategy) };
    let Some(key) = &request.idempotency_key else {
        let (session, origin) = opened(state, canvas, request, unknown).await?;
        let asked = state.app.ask_of(&session, &request.input, &waiting).await;
        let handle = kept_with(state, &session, origin, asked).await?;
        return Ok((session.key.id, handle));
    };
    let keyed = state.app.keyed(canvas, key).await?;
    let (session, origin) = match (&keyed.known, &request.session) {
        // A key stands for one question; in another conversation it would be another one.
        (Some(run), Some(named)) if run.session != *named => {
            return Err(ApiError::argument("the idempotency key was used in another session"));
        }
        // Before its conversation is looked for: that may be gone by now, and "the newest version" another one
        // than when it began.
        (Some(run), _) => {
            return Ok((run.session.clone(), state.app.again(run, &request.input).await?));
        }
        (None, Some(_)) => opened(state, canvas, request, unknown).await?,
        // The conversation's id follows from the key as well, so a question that is sent twice at once begins
        // one.
        (None, None) => of_id(state, canvas, request, &keyed.session, UnknownSession::Begin).await?,
    };
    let asked = state.app.ask_once(&session, &request.input, &keyed.run, &waiting).await;
    let handle = kept_with(state, &session, origin, asked).await?;
    Ok((session.key.id, handle))
}

/// What came of a question. A conversation that has begun with it and stays without it is nobody's, and goes again.
///
/// # Errors
/// What the question was refused for.
pub(crate) async fn kept_with(
    state: &ServerState,
    session: &Session,
    origin: Origin,
    asked: weft_core::Result<RunHandle>,
) -> weft_core::Result<RunHandle> {
    if asked.is_err() && origin == Origin::Begun {
        // An equal question may have been asked in it meanwhile.
        let filter = RunFilter { session: Some(session.key.id.clone()), limit: 1, ..RunFilter::default() };
        if state.app.runs.list(&session.key.tenant, &filter).await?.is_empty() {
            forget(state, &session.key).await;
        }
    }
    asked
}

/// Removes a conversation that nobody goes on with, which need not have begun.
pub(super) async fn forget(state: &ServerState, session: &SessionKey) {
    if let Err(error) = found(state.app.remove_session(session).await) {
        tracing::warn!(session.id = %session.id, error = error.detail(), "a conversation that nobody goes on with stays");
    }
}

/// Runs a turn of an agent and answers in the manner of the route.
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
    let (frames, traced) = if request.trace { (frames.traced(), Some(Vec::new())) } else { (frames, None) };
    match request.response_mode {
        ResponseMode::Stream => Ok(sse::respond(handle.entries, frames)),
        ResponseMode::Whole => in_one_piece(handle, view, traced).await,
    }
}

/// Waits for the end of a run and answers once.
pub(crate) async fn in_one_piece(
    handle: RunHandle,
    mut view: RunView,
    mut traced: Option<Vec<Json>>,
) -> Result<Response, ApiError> {
    let mut answer = Answer::default();
    // A client that has heard nothing yet counts as one that still waits.
    let mut entries = handle.entries.answering_at_the_end();
    while let Some(entry) = entries.next().await? {
        view.learn(&entry);
        answer.learn(&entry);
        if let Some(traced) = &mut traced {
            traced.extend(crate::dialect::ragflow::traced(&entry));
        }
    }
    Ok(match answer.failure() {
        Some(reason) => failed(reason, whole(&answer, &view, traced)),
        None => Success(whole(&answer, &view, traced)).into_response(),
    })
}

/// Waits for the end of a run and answers with the reply of an agent.
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

/// A failed run: its code tells programs; its data is an event like any other, since clients look for the
/// answer there and nowhere else.
fn failed(reason: &str, mut event: Json) -> Response {
    event["data"]["content"] = format!("**ERROR**: {reason}").into();
    let body = json!({"code": code::FAILED, "message": reason, "data": event});
    respond(axum::http::StatusCode::OK, &body)
}

/// Waits for the end of a run.
pub(crate) async fn answered(handle: RunHandle, view: &mut RunView) -> Result<Answer, ApiError> {
    Ok(collect(&mut handle.entries.answering_at_the_end(), view).await?)
}

/// The canvas that a path or body names.
pub(crate) fn canvas_key(caller: &Caller, id: impl Into<CanvasId>) -> CanvasKey {
    CanvasKey::new(&caller.tenant, id)
}

/// A request of nothing but a question, for routes with a body of their own shape.
pub(crate) fn question(
    body: &Body,
    caller: &Caller,
    session: Option<String>,
    query: String,
    default: ResponseMode,
) -> Result<CompletionRequest, ApiError> {
    let read = CompletionRequest::read(body, caller, default)?;
    // Their shapes have no place for whose message a piece belongs to.
    let input = TurnInput { query, parallel_messages: false, ..read.input };
    Ok(CompletionRequest { session: session.map(SessionId::from), input, ..read })
}
