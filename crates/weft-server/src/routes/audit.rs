//! The audit log.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use serde_json::json;
use weft_core::seam::audit_store::{AuditEntry, AuditFilter, AuditPosition};
use weft_core::{Error, TenantId};

use crate::auth::Caller;
use crate::body::Params;
use crate::error::ApiError;
use crate::state::ServerState;
use crate::wire::account;
use crate::wire::envelope::Success;
use weft_app::app::App;

/// Number of entries read in one batch for an export.
const EXPORTED_AT_ONCE: u64 = 500;

fn time(params: &Params, key: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = params.get(key) else { return Ok(None) };
    let wrong = || ApiError::argument(format!("`{key}` must be a time in milliseconds since 1970"));
    text.parse().map(Some).map_err(|_| wrong())
}

fn filter(params: &Params) -> Result<AuditFilter, ApiError> {
    Ok(AuditFilter {
        actor: params.get("actor").map(str::to_owned),
        since_ms: time(params, "since")?,
        until_ms: time(params, "until")?,
        ..AuditFilter::default()
    })
}

/// Encodes a position for the next page.
fn word(position: &AuditPosition) -> String {
    format!("{}-{}", position.at_ms, position.id)
}

fn position(word: &str) -> Result<AuditPosition, ApiError> {
    let parsed = word
        .rsplit_once('-')
        .and_then(|(at_ms, id)| Some(AuditPosition { at_ms: at_ms.parse().ok()?, id: id.to_owned() }));
    parsed.ok_or_else(|| ApiError::argument("`after` must be the `next` of a page"))
}

fn end_of(entries: &[AuditEntry]) -> Option<AuditPosition> {
    entries.last().map(|last| AuditPosition { at_ms: last.at_ms, id: last.id.clone() })
}

/// `GET /api/v1/audit`.
///
/// # Errors
/// 101 for a time or a position that is not valid.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let limit = params.page(state.app.limits.page_size).limit;
    let after = params.get("after").map(position).transpose()?;
    let filter = AuditFilter { after, limit, ..filter(&params)? };
    let entries = state.app.accounts.stores.audit.audit(&caller.tenant, &filter).await?;
    let full = entries.len() as u64 == limit;
    let next = end_of(&entries).filter(|_| full).as_ref().map(word);
    let rows: Vec<_> = entries.iter().map(account::audit).collect();
    Ok(Success(json!({"entries": rows, "next": next})).into_response())
}

/// `GET /api/v1/audit/export`: lines of JSON, read from the store at the pace of the client.
///
/// # Errors
/// 101 for a time that is not valid.
pub(crate) async fn export(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    // The oldest first, so that entries written during the export are added at its end.
    let filter = AuditFilter { ascending: true, limit: EXPORTED_AT_ONCE, ..filter(&params)? };
    let lines = stream::try_unfold(Some((state.app.clone(), caller.tenant, filter)), page_of_lines);
    let mut response = Response::new(Body::from_stream(lines));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    let attachment = HeaderValue::from_static("attachment; filename=\"audit.jsonl\"");
    headers.insert(header::CONTENT_DISPOSITION, attachment);
    Ok(response)
}

type Export = Option<(App, TenantId, AuditFilter)>;

async fn page_of_lines(rest: Export) -> Result<Option<(Bytes, Export)>, Error> {
    let Some((app, tenant, filter)) = rest else { return Ok(None) };
    let entries = app.accounts.stores.audit.audit(&tenant, &filter).await?;
    let Some(last) = end_of(&entries) else { return Ok(None) };
    let lines: String = entries.iter().map(|entry| format!("{}\n", account::audit(entry))).collect();
    let more = entries.len() as u64 == filter.limit;
    let next = more.then_some((app, tenant, AuditFilter { after: Some(last), ..filter }));
    Ok(Some((Bytes::from(lines), next)))
}
