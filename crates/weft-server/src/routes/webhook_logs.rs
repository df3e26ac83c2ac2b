//! The outcomes of calls with which an owner tests a webhook.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value as Json, json};
use weft_core::error::found;
use weft_core::masking::shown;
use weft_core::seam::run_store::{RunFilter, StoredRun};
use weft_core::seam::session_store::{SessionFilter, SessionOrder};
use weft_core::{CanvasKey, Ending, Entry, Record, RunId, RunKey};

use super::agents::stored;
use super::turn::canvas_key;
use super::webhooks::TEST_NAME;
use crate::auth::Caller;
use crate::body::Params;
use crate::dialect::ragflow::{Additions, RunView, write_frame};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use axum::response::IntoResponse as _;

/// How long a call is shown.
const KEPT_MS: i64 = 600_000;
/// Maximum number of calls among which the next one is searched.
const CALLS_MAX: u64 = 100;
/// Maximum number of events in one answer.
const EVENTS_MAX: usize = 1_000;
/// Number of journal entries read in one batch.
const ENTRIES_AT_ONCE: u64 = 500;

/// `GET /api/v1/agents/{id}/webhook/logs` and its older name, polled by clients: without `since_ts` returns the time
/// from which to look; with it, the first call after that time; with its `webhook_id` as well, the events of that
/// call after that time.
///
/// # Errors
/// 102 for an unknown agent, 101 for a time that is not valid.
pub(crate) async fn logs(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let canvas = canvas_key(&caller, id);
    stored(&state, &canvas, ApiError::data("canvas not found.").with_status(StatusCode::OK)).await?;
    let since = match params.get("since_ts").map(str::parse::<f64>) {
        None => {
            let now = seconds(state.app.clock.now_ms(), 0);
            return Ok(page(&Json::Null, &[], now, CallFinished::No));
        }
        Some(Ok(since)) if since.is_finite() => since,
        Some(_) => return Err(ApiError::argument("`since_ts` must be a number of seconds since 1970")),
    };
    match params.get("webhook_id") {
        None => next_call(&state, &canvas, since).await,
        Some(run) => events(&state, &canvas, run, since).await,
    }
}

/// Whether a call has no more events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallFinished {
    Yes,
    No,
}

fn page(id: &Json, events: &[Json], next: f64, finished: CallFinished) -> Response {
    let finished = finished == CallFinished::Yes;
    let data = json!({"webhook_id": id, "events": events, "next_since_ts": next, "finished": finished});
    Success(data).into_response()
}

/// Returns a time in seconds. Events at the same millisecond get different times by their numbers, so that none is
/// lost between two answers.
fn seconds(ms: i64, event: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "exact for every time within 280,000 years")]
    let (ms, event) = (ms as f64, event as f64);
    ms / 1000.0 + event / 1_000_000.0
}

async fn next_call(state: &ServerState, canvas: &CanvasKey, since: f64) -> Result<Response, ApiError> {
    let filter = SessionFilter {
        canvas: Some(canvas.id.clone()),
        name: Some(TEST_NAME.to_owned()),
        order: SessionOrder::Created,
        limit: CALLS_MAX,
        ..SessionFilter::default()
    };
    let (sessions, _) = state.app.sessions.list(&canvas.tenant, &filter).await?;
    let oldest = state.app.clock.now_ms().saturating_sub(KEPT_MS);
    let next = sessions
        .into_iter()
        .filter(|session| session.created_ms >= oldest && seconds(session.created_ms, 0) > since)
        .min_by_key(|session| session.created_ms);
    let Some(session) = next else { return Ok(page(&Json::Null, &[], since, CallFinished::No)) };
    let filter = RunFilter { session: Some(session.key.id), limit: 1, ..RunFilter::default() };
    let runs = state.app.runs.list(&canvas.tenant, &filter).await?;
    Ok(match runs.first() {
        Some(run) => page(&json!(run.key.id), &[], seconds(session.created_ms, 0), CallFinished::No),
        // The run is just starting.
        None => page(&Json::Null, &[], since, CallFinished::No),
    })
}

async fn events(state: &ServerState, canvas: &CanvasKey, id: &str, since: f64) -> Result<Response, ApiError> {
    let key = RunKey::new(&canvas.tenant, RunId::from(id));
    let run = found(state.app.runs.get(&key).await)?;
    let Some(run) = run.filter(|run| run.canvas == canvas.id) else {
        // There will be no more events.
        return Ok(page(&json!(id), &[], since, CallFinished::Yes));
    };
    let (mut events, mut next, mut finished) = (Vec::new(), since, CallFinished::No);
    let mut view = RunView::from(&run);
    // Starts at the first entry: later ones can only be rendered with the state from those before them.
    let mut after = 0;
    'read: loop {
        let stored = state.app.runs.entries(&key, after, ENTRIES_AT_ONCE).await?;
        let Some(last) = stored.last() else { break };
        after = last.seq;
        for stored in stored {
            let Ok(record) = serde_json::from_str(&shown(&stored.record)) else { continue };
            let entry = Entry { seq: stored.seq, event: stored.event, at_ms: stored.at_ms, record };
            let entry = std::sync::Arc::new(entry);
            view.learn(&entry);
            let ts = seconds(entry.at_ms, entry.event.unwrap_or_default());
            if entry.event.is_none() || ts <= since {
                continue;
            }
            // The rest is returned for the next request, which names the time of the last event.
            if events.len() >= EVENTS_MAX {
                break 'read;
            }
            events.extend(told(&entry, &view, ts));
            next = ts;
            if ended(&entry, &run, ts, &mut events) {
                finished = CallFinished::Yes;
            }
        }
    }
    // Its last event was returned earlier, or it has none that clients see.
    if events.is_empty() && run.ending.is_some() {
        finished = CallFinished::Yes;
    }
    Ok(page(&json!(id), &events, next, finished))
}

fn told(entry: &Entry, view: &RunView, ts: f64) -> Option<Json> {
    let mut out = Vec::new();
    let additions = Additions { blank_content: false, trace: None };
    if !write_frame(entry, view, additions, &mut out) {
        return None;
    }
    let mut event: Json = serde_json::from_slice(&out).ok()?;
    event["ts"] = json!(ts);
    Some(event)
}

/// Adds the events after the last one of a run. Returns whether the run has ended.
fn ended(entry: &Entry, run: &StoredRun, ts: f64, events: &mut Vec<Json>) -> bool {
    let Record::RunFinished { ending, error, elapsed, .. } = &entry.record else { return false };
    if *ending == Ending::Failed {
        let message = error.as_deref().unwrap_or("the run failed");
        events.push(json!({"ts": ts, "event": "error", "message": message, "error_type": "RunFailed"}));
    }
    let success = matches!(ending, Ending::Succeeded | Ending::Waiting);
    events.push(json!({"ts": ts, "event": "finished", "elapsed_time": elapsed, "success": success, "run_id": run.key.id}));
    true
}
