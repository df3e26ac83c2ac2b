//! Users, tenants, members, share tokens, notifications and the audit log in the format of the API.

use serde_json::{Value as Json, json};
use weft_core::TenantId;
use weft_core::access::MemberRole;
use weft_core::seam::audit_store::AuditEntry;
use weft_core::seam::identity_store::Identity;
use weft_core::seam::notice_store::{NoticeState, StoredNotice};
use weft_core::seam::share_store::ShareToken;
use weft_core::seam::tenant_store::{Invitation, Membership, Tenant};
use weft_core::seam::user_store::{Login, User};

use super::time::http_date;

/// A user's own account. Contains all fields that clients of the compatible API read, with their meaning here.
pub fn user(user: &User, tenant: &TenantId, role: MemberRole) -> Json {
    json!({
        "id": user.id,
        "nickname": user.nickname,
        "email": user.email,
        "avatar": "",
        "language": "English",
        "timezone": "UTC",
        "status": if user.enabled { "1" } else { "0" },
        "is_active": if user.enabled { "1" } else { "0" },
        "is_authenticated": "1",
        "is_anonymous": "0",
        "is_superuser": false,
        "login_channel": "password",
        "has_password": !user.password_hash.is_empty(),
        "last_login_time": user.signed_in_ms.map(http_date),
        "tenant_id": tenant,
        "role": role,
        "create_time": user.created_ms,
        "create_date": http_date(user.created_ms),
        "update_time": user.created_ms,
        "update_date": http_date(user.created_ms),
    })
}

/// A sign-in of a user. `own` is the one with which the request was made.
pub fn login(login: &Login, own: &str) -> Json {
    json!({
        "id": login.id(),
        "tenant_id": login.tenant,
        "current": login.hash == own,
        "create_time": login.created_ms,
        "expire_time": login.expires_ms,
        "last_used_time": login.last_used_ms,
    })
}

/// A user's identity at a provider.
pub fn identity(identity: &Identity) -> Json {
    json!({
        "id": identity.id(),
        "provider": identity.provider,
        "issuer": identity.issuer,
        "subject": identity.subject,
        "email": identity.email,
        "create_time": identity.created_ms,
        "last_used_time": identity.used_ms,
    })
}

/// A tenant of a user.
pub fn tenancy(tenant: &Tenant, role: &str) -> Json {
    json!({
        "tenant_id": tenant.id,
        "name": tenant.name,
        "nickname": tenant.name,
        "role": role,
        "create_time": tenant.created_ms,
        "update_date": http_date(tenant.created_ms),
    })
}

/// A member of a tenant.
pub fn member(membership: &Membership, user: &User) -> Json {
    json!({
        "id": user.id,
        "user_id": user.id,
        "tenant_id": membership.tenant,
        "email": user.email,
        "nickname": user.nickname,
        "avatar": "",
        "role": membership.role,
        "status": if user.enabled { "1" } else { "0" },
        "is_active": if user.enabled { "1" } else { "0" },
        "create_time": membership.created_ms,
        "update_date": http_date(membership.created_ms),
    })
}

/// An invitation. `secret` is only set in the answer that creates it.
pub fn invitation(invitation: &Invitation, secret: Option<&str>) -> Json {
    json!({
        "id": invitation.id(),
        "tenant_id": invitation.tenant,
        "email": invitation.email,
        "role": "invite",
        "offered_role": invitation.role,
        "invitation": secret,
        "create_time": invitation.created_ms,
        "expire_time": invitation.expires_ms,
    })
}

/// A share token. `secret` is only set in the answer that creates it.
pub fn share(share: &ShareToken, secret: Option<&str>) -> Json {
    json!({
        "id": share.id(),
        "name": share.name,
        "token": secret,
        "kind": share.target.kind(),
        "target_id": share.target.id(),
        "create_time": share.created_ms,
        "expire_time": share.expires_ms,
        "last_used_time": share.last_used_ms,
    })
}

/// Returns a notification as JSON, with the state of its delivery.
pub fn notice(stored: &StoredNotice) -> Json {
    let (state, state_ms) = match stored.state {
        NoticeState::Waiting { from_ms } => ("waiting", from_ms),
        NoticeState::Taken { until_ms } => ("taken", until_ms),
        NoticeState::Delivered { at_ms } => ("delivered", at_ms),
        NoticeState::GivenUp { at_ms } => ("given_up", at_ms),
    };
    json!({
        "event": stored.notice.key.kind,
        "subject": stored.notice.key.subject,
        "time": stored.notice.at_ms,
        "state": state,
        "state_time": state_ms,
        "done": stored.done,
        "attempts": stored.attempts,
        "reason": stored.reason,
    })
}

/// An entry of the audit log.
pub fn audit(entry: &AuditEntry) -> Json {
    json!({
        "id": entry.id,
        "time": entry.at_ms,
        "actor": entry.actor,
        "action": entry.action,
        "target": entry.target,
        "code": entry.outcome,
        "address": entry.address,
    })
}
