//! The audit log of requests: who sent a request, and its outcome.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
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

/// The caller of a request and the permission it needed; filled in when they are known.
#[derive(Clone, Debug, Default)]
struct AuditSlot(Arc<OnceLock<AskedPermission>>);

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
    let Some(AuditSlot(slot)) = parts.extensions.get::<AuditSlot>() else { return };
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let asked = AskedPermission {
        tenant: caller.tenant.clone(),
        actor: caller.actor.to_string(),
        action: action(&parts.method, path),
        permission,
        address: address_of(parts.extensions.get::<Peer>()),
    };
    // Setting it a second time has no effect.
    let _ = slot.set(asked);
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
    let Some(asked) = slot.0.get() else { return response };
    // Most failures have HTTP status 200; the outcome is the code of the envelope.
    let outcome = match response.extensions().get::<Outcome>() {
        Some(Outcome(code)) => *code,
        None if response.status().is_success() => 0,
        None => response.status().as_u16(),
    };
    // Logged before the answer is sent: what a client knows is in the log.
    if is_noted(level, asked.permission, outcome) {
        let AskedPermission { tenant, actor, action, address, .. } = asked;
        let target = &shown_path(uri.path());
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
