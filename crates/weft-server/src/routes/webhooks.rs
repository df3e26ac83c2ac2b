//! Webhooks: other programs start runs of a canvas whose Begin component allows it.

mod access;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value as Json, json};
use weft_core::id::FileId;
use weft_core::seam::canvas_store::{CHAT_TYPE, PIPELINE_TYPE};
use weft_core::seam::session_store::Session;
use weft_core::webhook::{Webhook, WebhookAnswer};
use weft_core::{CanvasId, CanvasKey, Ending, Error, ErrorKind, Role, SessionKey, TurnInput};
use weft_engine::RunHandle;

use access::{admitted, signed};

use super::owned::or;
use super::turn::{SessionOrigin, canvas_key, kept_with};
use super::uploads::{MultipartForm, multipart};
use crate::answer::Answer;
use crate::auth::{Caller, check_change};
use crate::body::{VALUES_MAX, check_encoding};
use crate::dialect::ragflow::RunView;
use crate::error::ApiError;
use crate::frames::{Kinds, RunEvents, Terminator};
use crate::path::Path;
use crate::sse;
use crate::state::ServerState;
use crate::upload_memory::{MemoryRefusal, belongs_to, counted};
use crate::webhook::payload::{self, WebhookCall};
use crate::webhook::{self, Peer};
use crate::wire::completion::checked_key;
use crate::wire::envelope::respond;
use crate::wire::form_name::written_name;
use weft_app::asking::RunOrigin;
use weft_app::idempotency::CALL_NOTE;
use weft_app::new_session::NewSession;

/// User id of runs that a call starts.
const USER: &str = "webhook";
/// Name of the sessions of calls; the second one of test calls.
const NAME: &str = "webhook";
pub(super) const TEST_NAME: &str = "webhook test";
/// Code and HTTP status of every refusal.
const REFUSED: u16 = 400;
/// Maximum number of files in one call.
const FILES_MAX: usize = 10;
/// Maximum number of parts in the form of one call.
const PARTS_MAX: usize = 1_000;
/// Time limit for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(120);

fn refused(message: impl Into<String>) -> ApiError {
    ApiError::new(REFUSED, message).with_status(StatusCode::BAD_REQUEST).bare()
}

/// The sender of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Another program, which must satisfy the requirements of the canvas.
    Program,
    /// The owner, who tests the webhook: the API token replaces the requirements of the canvas.
    Owner,
}

/// The canvas that a call addresses.
struct CalledCanvas {
    canvas: CanvasKey,
    version: Arc<str>,
    webhook: Arc<Webhook>,
}

/// `/api/v1/agents/{id}/webhook` and its older name, with any method: starts a run. The canvas decides who may call.
///
/// # Errors
/// 400 for everything that its Begin component does not allow.
pub(crate) async fn call(
    State(state): State<ServerState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    check_change(state.auth, request.headers())?;
    let id = CanvasId::from(id);
    let unknown = || refused("Canvas not found.");
    // Calls carry no API token, so the tenant is looked up by the canvas id.
    let tenant = state.app.canvases.tenant_of(&id).await?.ok_or_else(unknown)?;
    answered(&state, CanvasKey::new(&tenant, id), By::Program, request).await
}

/// `/api/v1/agents/{id}/webhook/test` and its older name: the same for its owner, with the newest version of the
/// canvas.
///
/// # Errors
/// As [`call`]; 401 without a token.
pub(crate) async fn test(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    check_change(state.auth, request.headers())?;
    answered(&state, canvas_key(&caller, id), By::Owner, request).await
}

async fn answered(
    state: &ServerState,
    canvas: CanvasKey,
    by: By,
    request: Request,
) -> Result<Response, ApiError> {
    let called = called(state, canvas, by).await?;
    let webhook = Arc::clone(&called.webhook);
    let peer = request.extensions().get::<Peer>().copied();
    let (parts, body) = request.into_parts();
    // A call without access is refused before any of the body is read.
    let secret = admitted(state, &called, by, &parts, peer).await?;
    check_encoding(&parts.headers).map_err(|error| refused(error.message()))?;
    belongs_to(&parts.extensions, &called.canvas.tenant);
    let bytes = read(&webhook, counted(&parts.extensions, body)).await?;
    let once = match by {
        By::Owner => None,
        By::Program => signed(state, &called, &parts.headers, (&*bytes, &*secret))?.once,
    };
    let media = webhook::media_type(&parts.headers);
    webhook::check_media_type(&webhook, media.as_deref()).map_err(refused)?;
    // The sender of a replayed call cannot choose its signature, but can choose a header.
    let once = match (once, parts.headers.get("idempotency-key")) {
        (None, Some(key)) => {
            let checked = checked_key(key.to_str().unwrap_or_default());
            Some(checked.map_err(|error| refused(error.message()))?)
        }
        (once, _) => once,
    };
    let once = once.map(|key| Once { key, call: payload::fingerprint(&parts, media.as_deref(), &bytes) });
    let events = wants_events(&parts.headers);
    let mut files = Vec::new();
    let begun = async {
        let payload = payload_of(state, &called, CallContent { parts, media, bytes }, &mut files).await?;
        begun(state, &called, by, payload, once).await.map_err(|error| match error.kind {
            ErrorKind::Internal => error.into(),
            _ => refused(error.full()),
        })
    };
    let begun = begun.await;
    // The files of a call that starts no run of its own belong to no run.
    if !files.is_empty()
        && !matches!(begun, Ok(WebhookRun { origin: RunOrigin::Started, .. }))
        && let Err(error) = state.app.files.remove(&called.canvas.tenant, &files).await
    {
        tracing::warn!(
            canvas.id = %called.canvas.id,
            error = error.detail(),
            "files that were not passed to a run could not be removed"
        );
    }
    let WebhookRun { session, handle, .. } = begun?;
    given(state, (&webhook.answer, events), session, handle).await
}

/// The content of a call, apart from its secret.
struct CallContent {
    parts: Parts,
    media: Option<String>,
    bytes: Bytes,
}

/// What makes a call the same as an earlier one.
struct Once {
    /// The key by which it says so.
    key: String,
    /// The fingerprint of its content, which must be that of the earlier one.
    call: String,
}

/// The run that belongs to a call.
struct WebhookRun {
    session: Session,
    handle: RunHandle,
    origin: RunOrigin,
}

/// Returns the canvas that a call addresses if it can be called. Other programs call the published version if there
/// is one.
async fn called(state: &ServerState, canvas: CanvasKey, by: By) -> Result<CalledCanvas, ApiError> {
    let stored = state.app.canvases.get(&canvas).await;
    let stored = stored.map_err(|error| or(error, refused("Canvas not found.")))?;
    match stored.head.canvas_type.as_str() {
        PIPELINE_TYPE => return Err(refused("Dataflow can not be triggered by webhook.")),
        CHAT_TYPE => return Err(refused("Canvas not found.")),
        _ => {}
    }
    let published = match by {
        By::Program => stored.published.map(|(version, _)| version),
        By::Owner => None,
    };
    let version = published.unwrap_or(stored.version);
    let plan = state.app.plan(&canvas, &version).await.map_err(|error| match (error.kind, by) {
        (ErrorKind::Invalid, By::Owner) => refused(error.full()),
        // Only its owner should learn what is wrong with it. Anyone may call, and must not be able to fill the log.
        (ErrorKind::Invalid, By::Program) => {
            tracing::debug!(canvas.id = %canvas.id, error = error.detail(), "a canvas with errors was called");
            refused("Invalid DSL format.")
        }
        _ => error.into(),
    })?;
    let entry = plan.nodes.iter().find(|node| node.role == Role::Entry && node.scope == 0);
    let webhook = entry.and_then(|node| node.shape.webhook.clone());
    let webhook = webhook.ok_or_else(|| refused("Webhook not configured for this agent."))?;
    Ok(CalledCanvas { canvas, version, webhook })
}

/// Reads the body of a call up to the limit of the canvas, whatever its content length claims.
async fn read(webhook: &Webhook, (body, memory): (Body, MemoryRefusal)) -> Result<Bytes, ApiError> {
    let most = usize::try_from(webhook.body_bytes_max).unwrap_or(usize::MAX);
    let reading = tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, most));
    match reading.await {
        Ok(Ok(bytes)) => Ok(bytes),
        // A connection that breaks off is an error, too, but then nobody receives the answer.
        Ok(Err(_)) => {
            let too_large = || refused(format!("Request body too large: it has more than {most} bytes"));
            Err(memory.error().map_or_else(too_large, ApiError::bare))
        }
        Err(_) => Err(refused("the body of the request did not arrive in time")),
    }
}

async fn payload_of(
    state: &ServerState,
    called: &CalledCanvas,
    sent: CallContent,
    files: &mut Vec<FileId>,
) -> Result<Json, ApiError> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(&sent.parts.uri)
        .map_err(|_| refused("the query parameters cannot be read"))?;
    let query = pairs.0.into_iter().map(|(name, value)| (name, value.into())).collect();
    let headers = payload::headers(&sent.parts.headers, &called.webhook.auth);
    let content_type = sent.media.clone();
    let body = body_of(state, called, sent, files).await?;
    let call = WebhookCall { query, headers, body, content_type };
    payload::given(&called.webhook, call).map_err(refused)
}

/// Parses a body by its media type: JSON, a form, or otherwise JSON if it can be parsed.
async fn body_of(
    state: &ServerState,
    called: &CalledCanvas,
    CallContent { parts, media, bytes }: CallContent,
    files: &mut Vec<FileId>,
) -> Result<Json, ApiError> {
    let nothing = || Json::Object(Map::new());
    match media.as_deref() {
        Some("multipart/form-data") => {
            let form = multipart(Request::from_parts(parts, Body::from(bytes)), state).await;
            let form = form.map_err(|_| refused("the form cannot be read"))?;
            form_of(state, called, form, files).await
        }
        Some("application/x-www-form-urlencoded") => {
            payload::form(&bytes).map(Json::Object).ok_or_else(|| refused("the form cannot be read"))
        }
        // Some senders name JSON as the type of an empty body.
        _ if bytes.iter().all(u8::is_ascii_whitespace) => Ok(nothing()),
        _ if crate::body::values_of(&bytes) > VALUES_MAX => {
            Err(refused(format!("the body has more than {VALUES_MAX} values")))
        }
        Some(kind) if kind == "application/json" || kind.ends_with("+json") => {
            serde_json::from_slice(&bytes).map_err(|_| refused("the body is not JSON"))
        }
        _ => Ok(serde_json::from_slice(&bytes).unwrap_or_else(|_| nothing())),
    }
}

/// Reads the fields of a form. Files are stored for the canvas that declares them and replaced by a reference.
async fn form_of(
    state: &ServerState,
    called: &CalledCanvas,
    mut form: MultipartForm,
    kept: &mut Vec<FileId>,
) -> Result<Json, ApiError> {
    let broken = |_| refused("the form cannot be read");
    let (mut members, mut files, mut parts) = (Map::new(), 0, 0);
    while let Some(part) = form.next_part().await.map_err(|error| refused(error.message()))? {
        parts += 1;
        if parts > PARTS_MAX {
            return Err(refused(format!("the form has more than {PARTS_MAX} parts")));
        }
        let name = part.name().unwrap_or_default().to_owned();
        let Some(file) = written_name(part.headers(), part.file_name()) else {
            members.insert(name, part.text().await.map_err(broken)?.into());
            continue;
        };
        files += 1;
        if files > FILES_MAX {
            return Err(refused(format!("the form has more than {FILES_MAX} files")));
        }
        let bytes = part.bytes().await.map_err(broken)?;
        // Only declared files are stored.
        if !called.webhook.body.fields.contains_key(&name) {
            continue;
        }
        let file =
            state.app.keep_file(&called.canvas.tenant, None, &file, bytes).await.map_err(
                |error| match error.kind {
                    ErrorKind::Invalid | ErrorKind::QuotaExceeded => refused(error.full()),
                    _ => error.into(),
                },
            )?;
        let described =
            json!({"id": file.id, "name": file.name, "size": file.size, "mime_type": file.mime_type});
        kept.push(file.id);
        match members.entry(name).or_insert_with(|| json!([])) {
            Json::Array(several) => several.push(described),
            other => *other = json!([described]),
        }
    }
    Ok(Json::Object(members))
}

/// Starts the run of a call in a new session: calls share nothing. A repeated call returns the same run.
async fn begun(
    state: &ServerState,
    called: &CalledCanvas,
    by: By,
    payload: Json,
    once: Option<Once>,
) -> weft_core::Result<WebhookRun> {
    let noted = |once: &Once| Box::new(Map::from_iter([(CALL_NOTE.to_owned(), json!(once.call))]));
    let input = TurnInput {
        notes: once.as_ref().map(noted),
        user_id: USER.to_owned(),
        webhook: Some(Box::new(payload)),
        // The run has no reader, and must not be cancelled for that reason.
        background: matches!(by, By::Program) && !matches!(called.webhook.answer, WebhookAnswer::Streaming),
        ..TurnInput::default()
    };
    let name = match by {
        By::Program => NAME,
        By::Owner => TEST_NAME,
    };
    let open = async |id| {
        let new = NewSession { user_id: USER, id, name, ..NewSession::default() };
        state.app.open_session_on(&called.canvas, new, &called.version).await
    };
    let Some(Once { key, .. }) = once else {
        let session = open(None).await?;
        let asked = state.app.ask_of(&session, &input, &state.waiting(None)).await;
        let handle = kept_with(state, &session, SessionOrigin::Begun, asked).await?;
        return Ok(WebhookRun { session, handle, origin: RunOrigin::Started });
    };
    // The prefix separates keys of calls from those of other questions to the canvas.
    let keyed = state.app.keyed(&called.canvas, &format!("webhook {key}")).await?;
    let known = SessionKey::new(&called.canvas.tenant, keyed.session.clone());
    let (session, of_session) = match open(Some(keyed.session)).await {
        // The session was created by an earlier call with this key, or by a concurrent one.
        Err(error) if error.kind == ErrorKind::Conflict => {
            (state.app.sessions.load(&known).await?, SessionOrigin::Known)
        }
        opened => (opened?, SessionOrigin::Begun),
    };
    let asked = state.app.ask_once(&session, &input, &keyed.run, &state.waiting(None)).await;
    let (handle, origin) = kept_with(state, &session, of_session, asked).await?;
    Ok(WebhookRun { session, handle, origin })
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accepted.to_ascii_lowercase().contains("text/event-stream")
}

async fn given(
    state: &ServerState,
    (answer, events): (&WebhookAnswer, bool),
    session: Session,
    handle: RunHandle,
) -> Result<Response, ApiError> {
    match answer {
        WebhookAnswer::Immediate { status, body } => {
            // The run has no reader, and must not be cancelled for that reason.
            state.app.engine.run_in_background(&handle.key);
            Ok(at_once(*status, body))
        }
        WebhookAnswer::Deferred => {
            state.app.engine.run_in_background(&handle.key);
            let run = &handle.key.id;
            let told =
                json!({"success": true, "run_id": run, "session_id": session.key.id, "status": "running"});
            let mut response = respond(StatusCode::ACCEPTED, &told);
            if let Ok(place) = HeaderValue::from_str(&format!("/api/v1/runs/{run}")) {
                response.headers_mut().insert(header::LOCATION, place);
            }
            Ok(response)
        }
        WebhookAnswer::Streaming if events => {
            let view = RunView::new(&handle.key.id, &session.key.id);
            Ok(sse::respond(handle.entries, RunEvents::new(view, Kinds::Messages, Terminator::Done)))
        }
        WebhookAnswer::Streaming => said(handle).await,
    }
}

/// The configured answer, which does not depend on the run.
fn at_once(status: u16, body: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    if has_no_body(status) {
        return status.into_response();
    }
    let is_json = body.trim().is_empty() || serde_json::from_str::<Json>(body).is_ok();
    let (kind, text) = match (is_json, body.trim().is_empty()) {
        (true, true) => ("application/json", "null"),
        (true, false) => ("application/json", body),
        (false, _) => ("text/plain; charset=utf-8", body),
    };
    let plain: [(HeaderName, &'static str); 2] =
        // The text comes from the canvas, and browsers must not interpret it as a page.
        [(header::CONTENT_TYPE, kind), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, plain, text.to_owned()).into_response()
}

/// Waits for the end of a run and returns its answer.
async fn said(handle: RunHandle) -> Result<Response, ApiError> {
    let mut answer = Answer::default();
    let mut entries = handle.entries.answering_at_the_end();
    while let Some(entry) = entries.next().await? {
        answer.learn(&entry);
    }
    let failed = |message: &str| {
        respond(StatusCode::BAD_REQUEST, &json!({"code": REFUSED, "message": message, "success": false}))
    };
    let ending = answer.end.as_ref().map(|end| end.ending);
    Ok(match ending {
        Some(Ending::Failed) => failed(answer.failure().unwrap_or("the run failed")),
        Some(Ending::Cancelled) => failed("the run was cancelled"),
        None => return Err(Error::internal("a run that was called has no end").into()),
        Some(Ending::Succeeded | Ending::Waiting) => {
            let waits = ending == Some(Ending::Waiting);
            let usual = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
            // A status below 200 is not a final response.
            let status = answer.status().filter(|status| status.as_u16() >= 200).unwrap_or(usual);
            at_the_end(status, &answer.text())
        }
    })
}

/// The answer of a run that has succeeded.
fn at_the_end(status: StatusCode, text: &str) -> Response {
    if has_no_body(status) {
        return status.into_response();
    }
    respond(status, &json!({"message": text, "success": true, "code": status.as_u16()}))
}

/// Whether an answer with this status ends after its headers (RFC 9110 §15): clients would take a body for the beginning
/// of the next answer.
fn has_no_body(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_contains_only_code_and_message() {
        let response = refused("no").into_response();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn an_immediate_response_is_json_if_possible() {
        let kind =
            |body: &str| at_once(201, body).headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        assert_eq!(
            (kind("{\"ok\": true}"), kind("")),
            ("application/json".into(), "application/json".into())
        );
        assert_eq!(kind("<b>thanks</b>"), "text/plain; charset=utf-8");
        assert_eq!(at_once(204, "").status(), StatusCode::NO_CONTENT);
    }

    #[test]
    fn some_answers_have_no_body() {
        for (status, has_body) in [(200, true), (204, false), (205, false), (304, false), (399, true)] {
            let at_end = at_the_end(StatusCode::from_u16(status).unwrap(), "done");
            for response in [at_once(status, "{}"), at_end] {
                assert_eq!(response.status(), status);
                assert_eq!(response.headers().contains_key(header::CONTENT_TYPE), has_body, "{status}");
            }
        }
    }
}
