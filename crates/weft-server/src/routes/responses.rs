//! Agents served through OpenAI's Responses API. A response is a run, and its conversation is a session.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value as Json, json};
use weft_core::error::found;
use weft_core::masking::shown as shown_record;
use weft_core::reference::Inputs;
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::session_store::Session;
use weft_core::seam::task_store::{Task, TaskKind};
use weft_core::{
    CanvasKey, Ending, Entry, Error, Record, Role, RunKey, SessionKey, TaskKey, TenantId, TurnInput,
};
use weft_engine::{EntryReader, RunHandle};

use super::owned::or;
use super::turn::{UnknownSession, begin_turn, canvas_key, session};
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::dialect::responses::{Note, ResponseRun, response_id};
use crate::error::{ApiError, code};
use crate::frames::ResponseEvents;
use crate::openai::OpenAi;
use crate::path::Path;
use crate::sse;
use crate::state::ServerState;
use crate::wire::completion::{CompletionRequest, ResponseMode};
use crate::wire::envelope::respond;
use crate::wire::response_input::ResponseReply;
use crate::wire::responses::{ResponseRequest, item_page, no_response, run_of};
use weft_app::tasks::{Answering, TaskAnswer};

/// Number of journal entries read in one batch.
const ENTRIES_AT_ONCE: u64 = 500;
/// How long a cancellation waits for the run to stop.
const CANCEL_WAIT: Duration = Duration::from_secs(10);
/// The input field of a canvas that receives instructions.
const INSTRUCTIONS: &str = "instructions";

/// `POST /v1/responses`.
///
/// # Errors
/// Those of the OpenAI API: 400 for what is not valid or has no effect, 401, 403, 404 for an unknown agent, response
/// or task, 409 for a conversation that has continued since.
pub(crate) async fn create(
    State(state): State<ServerState>,
    OpenAi(caller): OpenAi<Caller>,
    headers: HeaderMap,
    OpenAi(body): OpenAi<Body>,
) -> Result<Response, ApiError> {
    begun(&state, &caller, &headers, &body).await.map_err(ApiError::for_openai)
}

async fn begun(
    state: &ServerState,
    caller: &Caller,
    headers: &HeaderMap,
    body: &Body,
) -> Result<Response, ApiError> {
    let ResponseRequest { model, previous, turn, answers, note } = ResponseRequest::read(body, caller)?;
    let mut turn = turn.with_headers(headers)?;
    let before = match &previous {
        Some(id) => Some(known(state, &RunKey::new(&caller.tenant, id.clone())).await?.0),
        None => None,
    };
    let canvas = match (&model, &before) {
        (Some(model), _) => of_model(state, caller, model, &mut turn).await?,
        (None, Some(run)) => canvas_key(caller, run.canvas.clone()),
        (None, None) => return Err(ApiError::argument("`model` must name an agent")),
    };
    if let Some(run) = &before {
        let again = match &turn.idempotency_key {
            Some(key) => state.app.keyed(&canvas, key).await?.known,
            None => None,
        };
        goes_on_from(state, run, again.as_ref()).await?;
        turn.session = Some(run.session.clone());
        turn.after = Some(run.key.id.clone());
    }
    if let Some(instructions) = &note.instructions {
        instruct(state, &canvas, &mut turn, instructions).await?;
    }
    let mode = turn.response_mode;
    let handle = if answers.is_empty() {
        match begin_turn(state, &canvas, &turn, UnknownSession::Begin).await {
            Ok((_, handle)) => handle,
            Err(error) => {
                // Another question may have continued the conversation while this one was queued.
                if let Some(run) = &before {
                    goes_on_from(state, run, None).await?;
                }
                return Err(error);
            }
        }
    } else {
        answered(state, &canvas, turn, answers).await?
    };
    told(state, handle, mode, &note).await
}

/// Sends the response of a run that was started, in the requested form.
async fn told(
    state: &ServerState,
    handle: RunHandle,
    mode: ResponseMode,
    note: &Note,
) -> Result<Response, ApiError> {
    let stored = state.app.runs.get(&handle.key).await?;
    let mut run = of(&stored);
    if mode == ResponseMode::Stream {
        return Ok(sse::respond(handle.entries, ResponseEvents::new(run, None)));
    }
    let mut entries = handle.entries.answering_at_the_end();
    if note.background {
        // The first entry tells when the run started and what was asked.
        if let Some(first) = entries.next().await? {
            run.events(&first);
        }
    } else {
        read_all(&mut entries, &mut run).await?;
    }
    Ok(respond(StatusCode::OK, &run.response()))
}

fn of(run: &StoredRun) -> ResponseRun {
    ResponseRun::new(&run.key.id, &run.session, &run.canvas)
}

async fn read_all(entries: &mut EntryReader, run: &mut ResponseRun) -> Result<(), ApiError> {
    while let Some(entry) = entries.next().await? {
        run.events(&entry);
    }
    Ok(())
}

/// Resolves a model name to an agent: its id, or its id, `@` and a version.
async fn of_model(
    state: &ServerState,
    caller: &Caller,
    model: &str,
    turn: &mut CompletionRequest,
) -> Result<CanvasKey, ApiError> {
    // The whole name is tried first, because an id may contain an `@`.
    let whole = canvas_key(caller, model);
    if found(state.app.canvases.newest(&whole).await)?.is_some() {
        return Ok(whole);
    }
    let unknown =
        || ApiError::data(format!("There is no agent `{}`: `model` must be the id of an agent.", whole.id));
    let (agent, version) = model.rsplit_once('@').ok_or_else(unknown)?;
    let canvas = canvas_key(caller, agent);
    found(state.app.canvases.newest(&canvas).await)?.ok_or_else(unknown)?;
    turn.version.get_or_insert_with(|| version.to_owned());
    Ok(canvas)
}

/// Returns the run of a stored response that belongs to the caller, with the note of its request.
async fn known(state: &ServerState, key: &RunKey) -> Result<(StoredRun, ResponseRun), ApiError> {
    let missing = || no_response(&response_id(&key.id));
    let stored = state.app.runs.get(key).await.map_err(|error| or(error, missing()))?;
    let mut run = of(&stored);
    // The first entry contains the note of the request.
    for entry in entries_of(state, key, 0, 1).await? {
        run.events(&entry);
    }
    if run.note().store { Ok((stored, run)) } else { Err(missing()) }
}

/// Returns the entries of a journal that are stored so far; more may follow.
async fn entries_of(
    state: &ServerState,
    key: &RunKey,
    after: u64,
    count_max: u64,
) -> Result<Vec<Arc<Entry>>, ApiError> {
    let read = |stored: weft_core::seam::run_store::StoredEntry| {
        let record = serde_json::from_str(&shown_record(&stored.record))
            .map_err(|cause| Error::internal("cannot read an entry of a journal").because(cause))?;
        Ok(Arc::new(Entry { seq: stored.seq, event: stored.event, at_ms: stored.at_ms, record }))
    };
    state.app.runs.entries(key, after, count_max).await?.into_iter().map(read).collect()
}

/// Returns the response of a run as far as it has progressed.
async fn so_far(state: &ServerState, stored: &StoredRun) -> Result<ResponseRun, ApiError> {
    let (mut run, mut after) = (of(stored), 0);
    loop {
        let entries = entries_of(state, &stored.key, after, ENTRIES_AT_ONCE).await?;
        let Some(last) = entries.last() else { return Ok(run) };
        after = last.seq;
        for entry in &entries {
            run.events(entry);
        }
    }
}

/// Checks that a question may continue from a run. A conversation can only continue from its end: otherwise the
/// history would contain turns that the client does not know about.
async fn goes_on_from(
    state: &ServerState,
    from: &StoredRun,
    again: Option<&StoredRun>,
) -> Result<(), ApiError> {
    let session = SessionKey::new(&from.key.tenant, from.session.clone());
    let again = again.map(|again| &again.key.id);
    match state.app.gone_on_since(&session, &from.key.id, again).await? {
        None => Ok(()),
        Some(newer) => {
            let message = format!(
                "the conversation has continued since {}: continue from {}, or start another one",
                response_id(&from.key.id),
                response_id(&newer)
            );
            Err(ApiError::new(code::CONFLICT, message).with_status(StatusCode::CONFLICT))
        }
    }
}

/// Passes instructions to a canvas that accepts them.
async fn instruct(
    state: &ServerState,
    canvas: &CanvasKey,
    turn: &mut CompletionRequest,
    instructions: &str,
) -> Result<(), ApiError> {
    let session = match &turn.session {
        // A conversation that does not exist yet starts with this turn.
        Some(id) => found(state.app.sessions.load(&SessionKey::new(&canvas.tenant, id.clone())).await)?,
        None => None,
    };
    let version = match session {
        Some(session) => session.canvas_version,
        None => state.app.find_version(canvas, turn.version.as_deref().unwrap_or("latest")).await?,
    };
    let plan = state.app.plan(canvas, &version).await?;
    let entry = plan.nodes.iter().find(|node| node.role == Role::Entry && node.scope == 0);
    let takes =
        entry.is_some_and(|node| node.component.form(&Inputs::default()).fields.contains_key(INSTRUCTIONS));
    if !takes {
        let message = "`instructions` and messages with the role `system` or `developer` have no effect: the agent's \
            instructions are in its canvas; omit them, or add an input `instructions` to its Begin and use it";
        return Err(ApiError::argument(message));
    }
    turn.input.inputs.entry(INSTRUCTIONS).or_insert_with(|| instructions.into());
    Ok(())
}

/// Resumes a suspended run. The tasks identify it, so that the client need not know the conversation.
async fn answered(
    state: &ServerState,
    canvas: &CanvasKey,
    mut turn: CompletionRequest,
    answers: Vec<(String, ResponseReply)>,
) -> Result<RunHandle, ApiError> {
    let mut given = Vec::new();
    for (id, reply) in answers {
        let key = TaskKey::new(&canvas.tenant, id.as_str());
        let missing = || ApiError::data(format!("Nothing waits for an answer to `{id}`."));
        let task = state.app.tasks.get(&key).await.map_err(|error| or(error, missing()))?;
        turn.session.get_or_insert_with(|| task.session.clone());
        given.push((key, answer(&task, reply)));
    }
    let session: Session = session(state, canvas, &turn, UnknownSession::Refuse).await?;
    let run = match &turn.idempotency_key {
        Some(key) => Some(state.app.keyed(canvas, key).await?.run),
        None => None,
    };
    let waiting = state.waiting(turn.strategy);
    let TurnInput { notes, background, .. } = turn.input;
    let with = Answering { run, notes, background };
    Ok(state.app.answer_tasks_with(&session, given, &waiting, with).await?)
}

/// Converts a reply into the answer to a task. The output of a function is the values of a form as JSON, the value of
/// its only field, or a decision such as `approve`.
fn answer(task: &Task, reply: ResponseReply) -> TaskAnswer {
    let output = match reply {
        ResponseReply::Approval { approve: true, .. } => return TaskAnswer::Decision(json!("approve")),
        ResponseReply::Approval { approve: false, reason } => {
            return TaskAnswer::Decision(json!({"decision": "deny", "reason": reason.unwrap_or_default()}));
        }
        ResponseReply::Output(output) => output,
    };
    match serde_json::from_str(&output) {
        Ok(Json::Object(values)) if !values.contains_key("decision") => TaskAnswer::Inputs(values),
        Ok(decision @ Json::Object(_)) => TaskAnswer::Decision(decision),
        _ if task.kind == TaskKind::Form => {
            let fields = task.form.fields.keys().take(1).filter(|_| task.form.fields.len() == 1);
            TaskAnswer::Inputs(fields.map(|field| (field.clone(), json!(output))).collect())
        }
        _ => TaskAnswer::Decision(json!(output)),
    }
}

/// `GET /v1/responses/{id}`: the response so far, or with `stream=true` its events after `starting_after`.
///
/// # Errors
/// 404 for an unknown one and for one that is not stored, 400 for a `starting_after` that is not a number.
pub(crate) async fn get(
    State(state): State<ServerState>,
    OpenAi(caller): OpenAi<Caller>,
    OpenAi(Path(id)): OpenAi<Path<String>>,
    OpenAi(params): OpenAi<Params>,
) -> Result<Response, ApiError> {
    shown(&state, &caller.tenant, &id, &params).await.map_err(ApiError::for_openai)
}

async fn shown(
    state: &ServerState,
    tenant: &TenantId,
    id: &str,
    params: &Params,
) -> Result<Response, ApiError> {
    let key = RunKey::new(tenant, run_of(id)?);
    let (stored, _) = known(state, &key).await?;
    if params.flag("stream") != Some(true) {
        return Ok(respond(StatusCode::OK, &so_far(state, &stored).await?.response()));
    }
    let after = params.get("starting_after").map(str::parse::<u64>).transpose();
    let after = after.map_err(|_| ApiError::argument("`starting_after` must be the number of an event"))?;
    // Starts at the first entry, because a response is the fold of all entries; events up to the number are left out.
    let entries = state.app.engine.events(&key, 0).await?;
    Ok(sse::respond(entries, ResponseEvents::new(of(&stored), after)))
}

/// `GET /v1/responses/{id}/input_items`.
///
/// # Errors
/// 404 as [`get`], 400 for a page that is not valid.
pub(crate) async fn input_items(
    State(state): State<ServerState>,
    OpenAi(caller): OpenAi<Caller>,
    OpenAi(Path(id)): OpenAi<Path<String>>,
    OpenAi(params): OpenAi<Params>,
) -> Result<Response, ApiError> {
    asked_with(&state, &caller.tenant, &id, &params).await.map_err(ApiError::for_openai)
}

async fn asked_with(
    state: &ServerState,
    tenant: &TenantId,
    id: &str,
    params: &Params,
) -> Result<Response, ApiError> {
    let key = RunKey::new(tenant, run_of(id)?);
    let (_, run) = known(state, &key).await?;
    let first = entries_of(state, &key, 0, 1).await?;
    let files = match first.first().map(|entry| &entry.record) {
        Some(Record::RunStarted { input, .. }) => input.files.as_slice(),
        _ => &[],
    };
    Ok(respond(StatusCode::OK, &item_page(&key.id, run.note(), files, params)?))
}

/// `POST /v1/responses/{id}/cancel`: stops the response and returns it. Has no effect on one that has ended.
///
/// # Errors
/// 404 as [`get`].
pub(crate) async fn cancel(
    State(state): State<ServerState>,
    OpenAi(caller): OpenAi<Caller>,
    OpenAi(Path(id)): OpenAi<Path<String>>,
) -> Result<Response, ApiError> {
    cancelled(&state, &caller.tenant, &id).await.map_err(ApiError::for_openai)
}

async fn cancelled(state: &ServerState, tenant: &TenantId, id: &str) -> Result<Response, ApiError> {
    let key = RunKey::new(tenant, run_of(id)?);
    let (stored, _) = known(state, &key).await?;
    if state.app.cancel_run(&key).await? {
        let mut run = of(&stored);
        let mut entries = state.app.engine.events(&key, 0).await?;
        // Any process may be executing the run. If it takes longer to stop, the current state is returned.
        if let Ok(read) = tokio::time::timeout(CANCEL_WAIT, read_all(&mut entries, &mut run)).await {
            read?;
            return Ok(respond(StatusCode::OK, &run.response()));
        }
    }
    Ok(respond(StatusCode::OK, &so_far(state, &stored).await?.response()))
}

/// `DELETE /v1/responses/{id}`: removes its journal, and its messages from its conversation.
///
/// # Errors
/// 404 as [`get`], 409 while it is under way, or when its conversation has continued from it.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    OpenAi(caller): OpenAi<Caller>,
    OpenAi(Path(id)): OpenAi<Path<String>>,
) -> Result<Response, ApiError> {
    deleted(&state, &caller.tenant, &id).await.map_err(ApiError::for_openai)
}

async fn deleted(state: &ServerState, tenant: &TenantId, id: &str) -> Result<Response, ApiError> {
    let key = RunKey::new(tenant, run_of(id)?);
    let (stored, _) = known(state, &key).await?;
    if stored.ending.is_none() {
        let message = format!("{id} is under way: cancel it first");
        return Err(ApiError::new(code::CONFLICT, message).with_status(StatusCode::CONFLICT));
    }
    let session = SessionKey::new(tenant, stored.session);
    if stored.ending == Some(Ending::Waiting) {
        // Otherwise its open tasks would remain for ever, without a run that they belong to.
        found(state.app.give_up_waiting(&session, &key.id).await)?;
    }
    // The conversation comes first: if the process ends in between, the run still exists, so that the deletion can be
    // repeated. The run may have left no messages, or its conversation may be gone.
    found(state.app.sessions.forget_run(&session, &key.id).await)?;
    state.app.runs.remove(&[key]).await?;
    Ok(respond(StatusCode::OK, &json!({"id": id, "object": "response", "deleted": true})))
}
