//! What all routes that run a turn have in common.

use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use weft_core::seam::session_store::Session;
use weft_core::{CanvasId, CanvasKey, ErrorKind, SessionId, SessionKey, TurnInput};
use weft_engine::RunHandle;

use crate::answer::{Answer, collect};
use crate::auth::Caller;
use crate::body::Body;
use crate::dialect::ragflow::RunView;
use crate::error::{ApiError, code};
use crate::frames::{Kinds, RunEvents, Terminator};
use crate::sse;
use crate::state::ServerState;
use crate::wire::completion::{CompletionRequest, Delivery, whole};
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

/// The conversation a request is about: the one it names, else a new one.
pub(crate) async fn session(
    state: &ServerState,
    canvas: &CanvasKey,
    request: &CompletionRequest,
    unknown: UnknownSession,
) -> Result<Session, ApiError> {
    let Some(id) = &request.session else { return begin(state, canvas, request, None).await };
    match state.app.sessions.load(&SessionKey::new(&canvas.tenant, id.clone())).await {
        Ok(session) if session.canvas == canvas.id => Ok(session),
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

async fn begin(
    state: &ServerState,
    canvas: &CanvasKey,
    request: &CompletionRequest,
    id: Option<SessionId>,
) -> Result<Session, ApiError> {
    let TurnInput { user_id, query, .. } = &request.input;
    match (state.app.open_named_session(canvas, user_id, id.clone(), query).await, id) {
        (Ok(session), _) => Ok(session),
        (Err(error), _) if error.kind == ErrorKind::NotFound => Err(ApiError::data("Agent not found.")),
        // Somebody else began it in this very moment.
        (Err(error), Some(id)) if error.kind == ErrorKind::Conflict => {
            Ok(state.app.sessions.load(&SessionKey::new(&canvas.tenant, id)).await?)
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Runs a turn of an agent and answers in the manner of the route.
pub(crate) async fn run(
    state: &ServerState,
    canvas: &CanvasKey,
    request: CompletionRequest,
    (unknown, manner): (UnknownSession, Manner),
) -> Result<Response, ApiError> {
    let session = session(state, canvas, &request, unknown).await?;
    let handle = state.app.start_turn_of(&session, request.input).await?;
    let view = RunView::new(&handle.key.id, &session.key.id);
    let frames = RunEvents::new(view.clone(), manner.kinds, manner.terminator);
    let (frames, traced) = match request.trace {
        true => (frames.traced(), Some(Vec::new())),
        false => (frames, None),
    };
    match request.delivery {
        Delivery::Stream => Ok(sse::respond(handle.entries, frames)),
        Delivery::Whole => in_one_piece(handle, view, traced).await,
    }
}

/// Waits for the end of a run and answers once.
pub(crate) async fn in_one_piece(
    mut handle: RunHandle,
    mut view: RunView,
    mut traced: Option<Vec<Json>>,
) -> Result<Response, ApiError> {
    let mut answer = Answer::default();
    while let Some(entry) = handle.entries.next().await? {
        view.learn(&entry);
        answer.learn(&entry);
        if let Some(traced) = &mut traced {
            traced.extend(crate::dialect::ragflow::traced(&entry));
        }
    }
    Ok(match answer.failure() {
        Some(reason) => failed(reason),
        None => Success(whole(&answer, &view, traced)).into_response(),
    })
}

/// A failed run: its code tells programs, its data what clients show as the answer.
fn failed(reason: &str) -> Response {
    let body = json!({"code": code::FAILED, "message": reason, "data": format!("**ERROR**: {reason}")});
    respond(axum::http::StatusCode::OK, &body)
}

/// Starts a turn of a known session and waits for its end.
pub(crate) async fn answered(handle: &mut RunHandle, view: &mut RunView) -> Result<Answer, ApiError> {
    Ok(collect(&mut handle.entries, view).await?)
}

/// The canvas that a path or body names.
pub(crate) fn canvas_key(caller: &Caller, id: impl Into<CanvasId>) -> CanvasKey {
    CanvasKey::new(&caller.tenant, id)
}

/// A request of nothing but a question, for routes with a body of their own shape.
pub(crate) fn question(
    body: &Body,
    caller: &Caller,
    (session, query, default): (Option<String>, String, Delivery),
) -> Result<CompletionRequest, ApiError> {
    let read = CompletionRequest::read(body, caller, default)?;
    let input = TurnInput { query, ..read.input };
    Ok(CompletionRequest { session: session.map(SessionId::from), input, ..read })
}
