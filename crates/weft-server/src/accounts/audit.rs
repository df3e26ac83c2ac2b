//! The audit log: requests of callers, and what else changes who may do what.

use std::sync::{Arc, OnceLock};

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use weft_core::access::Permission;
use weft_core::seam::audit_store::AuditEntry;
use weft_core::{TenantId, id};

use crate::app::App;
use crate::auth::Caller;
use crate::config::{AuditLevel, Auth};
use crate::state::ServerState;
use crate::webhook::Peer;

/// Who acts on the command line.
pub const CLI: &str = "cli";

/// How a request ended, as its answer says it: 0, or the code of the failure. Kept beside the answer.
#[derive(Clone, Copy, Debug)]
pub struct Outcome(pub u16);

/// Who has made a request, and what it needed; filled in where that becomes known.
#[derive(Clone, Debug, Default)]
struct Slot(Arc<OnceLock<Asked>>);

#[derive(Debug)]
struct Asked {
    tenant: TenantId,
    actor: String,
    action: String,
    target: String,
    permission: Permission,
    address: String,
}

/// Something that is noted.
#[derive(Clone, Copy, Debug)]
pub struct Audited<'a> {
    /// Whose data it was about.
    pub tenant: &'a TenantId,
    /// Who, as [`AuditEntry::actor`] has it.
    pub actor: &'a str,
    /// What.
    pub action: &'a str,
    /// On what.
    pub target: &'a str,
    /// 0, or the code of the failure.
    pub outcome: u16,
    /// From where.
    pub address: &'a str,
}

/// The network address of a request; empty when there is none.
pub(crate) fn address_of(peer: Option<&Peer>) -> String {
    peer.map(|Peer(address)| address.to_canonical().to_string()).unwrap_or_default()
}

/// Says who has made a request. Without the layer that writes the log it is said to nobody.
pub(crate) fn asked(parts: &Parts, caller: &Caller, permission: Permission) {
    let Some(Slot(slot)) = parts.extensions.get::<Slot>() else { return };
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let asked = Asked {
        tenant: caller.tenant.clone(),
        actor: caller.actor.to_string(),
        action: action(&parts.method, path),
        target: parts.uri.path().to_owned(),
        permission,
        address: address_of(parts.extensions.get::<Peer>()),
    };
    // A second look at who it is changes nothing.
    let _ = slot.set(asked);
}

fn action(method: &Method, path: &str) -> String {
    format!("{method} {path}")
}

/// Notes a request when it has been answered, or when its stream has begun.
pub async fn record_requests(State(state): State<ServerState>, mut request: Request, next: Next) -> Response {
    let level = state.app.accounts.config.audit;
    // Where nobody is asked who they are there is nobody to name.
    if level == AuditLevel::Off || state.auth == Auth::Off {
        return next.run(request).await;
    }
    let slot = Slot::default();
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    let Some(asked) = slot.0.get() else { return response };
    let outcome = match response.extensions().get::<Outcome>() {
        Some(Outcome(code)) => *code,
        None if response.status().is_success() => 0,
        None => response.status().as_u16(),
    };
    if is_noted(level, asked.permission, outcome) {
        let Asked { tenant, actor, action, target, address, .. } = asked;
        state.app.note(Audited { tenant, actor, action, target, outcome, address }).await;
    }
    response
}

/// Whether a request belongs into the log. Whoever was turned away does, whatever they wanted.
fn is_noted(level: AuditLevel, permission: Permission, outcome: u16) -> bool {
    match level {
        AuditLevel::Off => false,
        AuditLevel::All => true,
        AuditLevel::Changes => permission >= Permission::Edit || outcome == crate::error::code::OPERATING,
    }
}

impl App {
    /// Notes what a caller does that is no request of its own.
    pub(crate) async fn note_call(
        &self,
        caller: &Caller,
        (permission, what): (Permission, &str),
        outcome: u16,
    ) {
        if is_noted(self.accounts.config.audit, permission, outcome) {
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
            self.note(noted).await;
        }
    }

    /// Adds to the audit log, unless it is off. A log that cannot be written is said in the log of the program, and
    /// keeps nothing from being done.
    pub async fn note(&self, noted: Audited<'_>) {
        if self.accounts.config.audit == AuditLevel::Off {
            return;
        }
        let entry = AuditEntry {
            tenant: noted.tenant.clone(),
            at_ms: self.clock.now_ms(),
            id: id::generate(),
            actor: noted.actor.to_owned(),
            action: noted.action.to_owned(),
            target: noted.target.to_owned(),
            outcome: noted.outcome,
            address: noted.address.to_owned(),
        };
        if let Err(error) = self.accounts.stores.audit.add_audit(&entry).await {
            tracing::error!(
                error = error.detail(),
                audit.actor = entry.actor,
                audit.action = entry.action,
                audit.target = entry.target,
                audit.outcome = entry.outcome,
                "the audit log could not be written"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_refusals_are_noted_and_reading_when_it_is_asked_for() {
        use Permission::{Administer, Edit, Read, Run};
        let noted = |level, outcome| Permission::ALL.map(|permission| is_noted(level, permission, outcome));
        assert_eq!([Read, Run, Edit, Administer], Permission::ALL);
        assert_eq!(noted(AuditLevel::Changes, 0), [false, false, true, true]);
        assert_eq!(noted(AuditLevel::Changes, 102), [false, false, true, true]);
        assert_eq!(noted(AuditLevel::Changes, 103), [true; 4]);
        assert_eq!(noted(AuditLevel::All, 0), [true; 4]);
        assert_eq!(noted(AuditLevel::Off, 103), [false; 4]);
    }
}
