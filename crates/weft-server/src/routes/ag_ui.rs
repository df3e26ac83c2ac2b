//! Agents behind the AG-UI protocol.

use axum::extract::State;
use axum::response::Response;
use weft_core::{SessionId, TaskKey};

use super::turn::{UnknownSession, begin_turn, canvas_key, session};
use crate::auth::Caller;
use crate::body::Body;
use crate::error::ApiError;
use crate::frames::{AgUiEvents, given_up};
use crate::openai::OpenAi;
use crate::path::Path;
use crate::sse;
use crate::state::ServerState;
use crate::wire::ag_ui::RunInput;
use crate::wire::completion::{CompletionRequest, ResponseMode};
use weft_app::tasks::Answering;

/// `POST /api/v1/agents/{id}/ag-ui`: a run of the protocol, whose thread is a session. An unknown thread is created;
/// a repeated request for a run returns the same run.
///
/// # Errors
/// 101, 102, 103 or 106, see the message; with a matching HTTP status.
pub(crate) async fn run(
    State(state): State<ServerState>,
    OpenAi(caller): OpenAi<Caller>,
    OpenAi(Path(id)): OpenAi<Path<String>>,
    OpenAi(body): OpenAi<Body>,
) -> Result<Response, ApiError> {
    let begun = begun(&state, &caller, id, &body).await;
    // The id of a run is used as its idempotency key, a word that the protocol does not have.
    begun.map_err(|error| error.naming("the idempotency key", "`runId`").for_openai())
}

async fn begun(state: &ServerState, caller: &Caller, id: String, body: &Body) -> Result<Response, ApiError> {
    let RunInput { names, input, answers, only_cancels } = RunInput::read(body, caller)?;
    let canvas = canvas_key(caller, id);
    let read = CompletionRequest::read(body, caller, ResponseMode::Stream)?;
    let request = CompletionRequest {
        session: Some(SessionId::from(names.thread.as_str())),
        input,
        idempotency_key: Some(names.run.clone()),
        ..read
    };
    let entries = if answers.is_empty() {
        begin_turn(state, &canvas, &request, UnknownSession::Begin).await?.1.entries
    } else {
        // The tasks must belong to a session of this agent.
        let session = session(state, &canvas, &request, UnknownSession::Refuse).await?;
        if only_cancels {
            let tasks: Vec<TaskKey> =
                answers.iter().map(|(id, _)| TaskKey::new(&caller.tenant, id.clone())).collect();
            // Without an answer to the form the run cannot resume, so the client's run ends here.
            if state.app.cancel_forms(&session, &tasks).await? {
                let events = given_up(&names, state.app.clock.now_ms());
                return Ok(sse::event_stream(axum::body::Body::from(events)));
            }
        }
        let answers =
            answers.into_iter().map(|(id, answer)| (TaskKey::new(&caller.tenant, id), answer)).collect();
        let run = Some(state.app.keyed(&canvas, &names.run).await?.run);
        let (waiting, with) = (state.waiting(request.strategy), Answering { run, ..Answering::default() });
        state.app.answer_tasks_with(&session, answers, &waiting, with).await?.entries
    };
    Ok(sse::respond(entries, AgUiEvents::new(names)))
}
