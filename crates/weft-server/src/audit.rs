//! The audit log of requests: who sent a request, and its outcome.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use serde_json::Value as Json;
use weft_app::accounts::{Audited, is_noted};
use weft_app::app::App;
use weft_app::config::{AuditLevel, Auth};
use weft_app::tokens;
use weft_core::TenantId;
use weft_core::access::Permission;

use crate::auth::Caller;
use crate::state::ServerState;
use crate::webhook::Peer;
use crate::webhook::payload::decoded;

/// The outcome of a request: 0, or the code of the failure. Attached to the response as an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome(pub u16);

/// The tenant in whose log a request is recorded if it is not the caller's. Attached to the response as an extension.
#[derive(Clone, Debug)]
pub(crate) struct RecordedIn(pub TenantId);

/// What the log needs from the handler of a request: the caller and the permission it needed, and the ids in its body.
/// Filled in when they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditSlot {
    asked: Arc<OnceLock<AskedPermission>>,
    ids: Arc<OnceLock<String>>,
}

/// Fields of a body with the ids of what a request removes or changes.
const IDS: [&str; 8] =
    ["ids", "file_ids", "src_file_ids", "canvas_ids", "doc_ids", "document_ids", "chunk_ids", "mcp_ids"];

/// Maximum number of ids of one request that an entry has, so that it is not cut in the middle of one.
const IDS_MAX: usize = 20;

/// Maximum length of such an id, in bytes. Other texts are not repeated, because the log has no content.
const ID_BYTES_MAX: usize = 40;

impl AuditSlot {
    /// Keeps the ids in a body, up to a limit.
    pub(crate) fn name_ids(&self, body: &Json) {
        let given = IDS.iter().filter_map(|field| body.get(field)?.as_array()).flatten();
        let count = given.clone().count();
        if count == 0 {
            return;
        }
        let is_id = |text: &&str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            text.len() <= ID_BYTES_MAX && text.bytes().all(fits)
        };
        let ids = given.filter_map(Json::as_str).filter(is_id).take(IDS_MAX);
        let mut named: Vec<String> =
            ids.map(|id| tokens::masked(id).unwrap_or_else(|| id.to_owned())).collect();
        let left = count - named.len();
        if left > 0 {
            named.push(format!("and {left} more"));
        }
        // Setting it a second time has no effect.
        let _ = self.ids.set(named.join(", "));
    }
}

#[derive(Debug)]
struct AskedPermission {
    tenant: TenantId,
    actor: String,
    action: String,
    permission: Permission,
    address: String,
}

/// Returns the network address of a request; empty if there is none.
pub(crate) fn address_of(peer: Option<&Peer>) -> String {
    peer.map(|Peer(address)| address.to_canonical().to_string()).unwrap_or_default()
}

/// Returns a path for logs: a token in it, such as one that is to be revoked, is replaced by its id.
pub(crate) fn shown_path(path: &str) -> String {
    // Most paths cannot contain one.
    if !path.contains("weft") && !path.contains('%') {
        return path.to_owned();
    }
    let shown = path.split('/').map(|part| {
        // The part may be percent-encoded, and is decoded when the token is looked up.
        let masked = decoded(part.as_bytes()).and_then(|part| tokens::masked(&part));
        masked.map_or(Cow::Borrowed(part), Cow::Owned)
    });
    shown.collect::<Vec<_>>().join("/")
}

/// Records the caller of a request. Has no effect without the layer that writes the log.
pub(crate) fn asked(parts: &Parts, caller: &Caller, permission: Permission) {
    let Some(slot) = parts.extensions.get::<AuditSlot>() else { return };
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let asked = AskedPermission {
        tenant: caller.tenant.clone(),
        actor: caller.actor.to_string(),
        action: action(&parts.method, path),
        permission,
        address: address_of(parts.extensions.get::<Peer>()),
    };
    // Setting it a second time has no effect.
    let _ = slot.asked.set(asked);
}

fn action(method: &Method, path: &str) -> String {
    format!("{method} {path}")
}

/// Logs a request once it has been answered, or its stream has started.
pub(crate) async fn record_requests(
    State(state): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    let level = state.app.accounts.config.audit;
    // Without authentication there is no caller to name.
    if level == AuditLevel::Off || state.auth == Auth::Off {
        return next.run(request).await;
    }
    let slot = AuditSlot::default();
    // Kept from here, because the handler of a nested route gets a path without its prefix.
    let uri = request.uri().clone();
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    // Nobody was authenticated, so there is no tenant to whose log it would belong.
    let Some(asked) = slot.asked.get() else { return response };
    // Most failures have HTTP status 200; the outcome is the code of the envelope.
    let outcome = match response.extensions().get::<Outcome>() {
        Some(Outcome(code)) => *code,
        None if response.status().is_success() => 0,
        None => response.status().as_u16(),
    };
    // Logged before the answer is sent: what a client knows is in the log.
    if is_noted(level, asked.permission, outcome) {
        let AskedPermission { tenant, actor, action, address, .. } = asked;
        let path = shown_path(uri.path());
        let target = &match slot.ids.get() {
            Some(ids) => format!("{path}: {ids}"),
            None => path,
        };
        let tenant = response.extensions().get::<RecordedIn>().map_or(tenant, |RecordedIn(other)| other);
        state.app.note(Audited { tenant, actor, action, target, outcome, address }).await;
    }
    response
}

/// Logs an action of a caller that is not a request of its own.
pub(crate) async fn note_call(app: &App, caller: &Caller, permission: Permission, what: &str, outcome: u16) {
    if is_noted(app.accounts.config.audit, permission, outcome) {
        let actor = caller.actor.to_string();
        let action = format!("mcp {what}");
        let noted = Audited {
            tenant: &caller.tenant,
            actor: &actor,
            action: &action,
            target: "",
            outcome,
            address: "",
        };
        app.note(noted).await;
    }
}
