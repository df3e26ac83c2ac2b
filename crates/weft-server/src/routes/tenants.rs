//! Tenants, their members, and invitations.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use weft_core::access::MemberRole;
use weft_core::error::found;
use weft_core::id::UserId;
use weft_core::{ErrorKind, TenantId};

use super::users::{ClientAddress, address, note_signed_in, password, refused, signed_in, welcome};
use crate::audit::RecordedIn;
use crate::auth::Caller;
use crate::body::{Body, Page, Params};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::account;
use crate::wire::envelope::{Part, Success, streamed};
use weft_app::accounts::LISTED_MAX;
use weft_app::app::DEFAULT_TENANT;

/// The error for every tenant but the caller's, whether it exists or not.
fn foreign() -> ApiError {
    let message = "No authorization: this is not your current tenant; PUT /api/v1/users/me/tenant switches to another \
                   of your tenants";
    ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN)
}

fn own(caller: &Caller, tenant: &str) -> Result<(), ApiError> {
    if caller.tenant.as_str() == tenant { Ok(()) } else { Err(foreign()) }
}

fn role(body: &Body) -> Result<Option<MemberRole>, ApiError> {
    Ok(body.text("role")?.map(|role| role.parse()).transpose()?)
}

/// `GET /api/v1/tenants`.
///
/// # Errors
/// 100 when the store cannot be read.
pub(crate) async fn list(State(state): State<ServerState>, caller: Caller) -> Result<Response, ApiError> {
    let tenants = &state.app.accounts.stores.tenants;
    let mut rows = Vec::new();
    let Some(id) = &caller.user else {
        state.app.ensure_tenant(&caller.tenant).await?;
        rows.push(account::tenancy(&tenants.tenant(&caller.tenant).await?, caller.role.as_str()));
        return Ok(Success(rows).into_response());
    };
    for one in tenants.memberships(id).await? {
        rows.push(account::tenancy(&tenants.tenant(&one.tenant).await?, one.role.as_str()));
    }
    let user = state.app.accounts.stores.users.user(id).await?;
    for invited in state.app.invitations_of(&user).await? {
        rows.push(account::tenancy(&tenants.tenant(&invited.tenant).await?, "invite"));
    }
    Ok(Success(rows).into_response())
}

/// `PATCH /api/v1/tenants/{tenant}`: accepts the invitation to the tenant.
///
/// # Errors
/// 102 for a user who is not invited there; 103 for an API key.
pub(crate) async fn accept(
    State(state): State<ServerState>,
    caller: Caller,
    Path(tenant): Path<String>,
) -> Result<Response, ApiError> {
    let (id, _) = signed_in(&caller)?;
    let user = state.app.accounts.stores.users.user(id).await?;
    let tenant = TenantId::from(tenant);
    let role = state.app.accept_as(&user, &tenant).await?;
    let tenant = state.app.accounts.stores.tenants.tenant(&tenant).await?;
    Ok(Success(account::tenancy(&tenant, role.as_str())).into_response())
}

/// `POST /api/v1/auth/invitations/accept`.
///
/// # Errors
/// 101 for a password or a name that is not valid; 102 for an invitation that does not exist or has expired; 109 for
/// a wrong password; 429.
pub(crate) async fn accept_with_secret(
    State(state): State<ServerState>,
    from: ClientAddress,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["invitation", "password"])?;
    let (secret, password) = (password(&body, "invitation")?, password(&body, "password")?);
    let nickname = body.text("nickname")?.unwrap_or_default();
    let address = address(from);
    let accepted = state.app.accept_with_secret(&secret, &nickname, &password, &address).await;
    let signed_in = accepted.map_err(refused)?;
    note_signed_in(&state, &signed_in, "accept invitation", &signed_in.user.email, &address).await;
    welcome(&signed_in)
}

/// `PUT /api/v1/users/me/tenant {"tenant_id"}`.
///
/// # Errors
/// 101 without a tenant; 103 for one that the caller is not a member of, and for an API key.
pub(crate) async fn switch(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let (id, login) = signed_in(&caller)?;
    body.require(&["tenant_id"])?;
    let tenant = TenantId::from(body.id("tenant_id")?.unwrap_or_default());
    // Non-members must not learn whether the tenant exists.
    let role = state.app.switch_tenant(id, login, &tenant).await.map_err(|error| match error.kind {
        ErrorKind::NotFound => ApiError::new(code::OPERATING, "you are not a member of this tenant")
            .with_status(StatusCode::FORBIDDEN),
        _ => error.into(),
    })?;
    let user = state.app.accounts.stores.users.user(id).await?;
    Ok(Success(account::user(&user, &tenant, role)).into_response())
}

/// `DELETE /api/v1/users/me/tenants/{tenant}`.
///
/// # Errors
/// 102 for one that the caller is not a member of; 103 for an API key; 106 for its last owner.
pub(crate) async fn leave(
    State(state): State<ServerState>,
    caller: Caller,
    Path(tenant): Path<String>,
) -> Result<Response, ApiError> {
    let (id, _) = signed_in(&caller)?;
    state.app.accounts.stores.tenants.remove_member(&TenantId::from(tenant), id).await?;
    Ok(Success(true).into_response())
}

/// `DELETE /api/v1/tenants/{tenant} {"tenant_id"}`: removes the tenant with all of its data.
///
/// # Errors
/// 101 when the body does not name the tenant, and for the default tenant; 103 for a tenant other than the caller's;
/// 106 when one of its runs does not stop.
pub(crate) async fn remove(
    State(state): State<ServerState>,
    caller: Caller,
    Path(tenant): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    own(&caller, &tenant)?;
    body.require(&["tenant_id"])?;
    if body.text("tenant_id")?.as_deref() != Some(caller.tenant.as_str()) {
        return Err(ApiError::argument(
            "`tenant_id` must repeat the id of the tenant: its removal cannot be undone",
        ));
    }
    state.app.remove_tenant(&caller.tenant).await?;
    let mut response = Success(true).into_response();
    // The log of the tenant was removed with it, and a new tenant with its id must not find this entry.
    response.extensions_mut().insert(RecordedIn(TenantId::new(DEFAULT_TENANT)));
    Ok(response)
}

/// `GET /api/v1/tenants/{tenant}/users`: the members, then the invitations, by `page` and `page_size`.
///
/// # Errors
/// 103 for a tenant other than the caller's.
pub(crate) async fn members(
    State(state): State<ServerState>,
    caller: Caller,
    Path(tenant): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    own(&caller, &tenant)?;
    let tenants = &state.app.accounts.stores.tenants;
    let Page { offset, limit } = params.page_if_asked(LISTED_MAX);
    let counts = tenants.member_counts(&caller.tenant).await?;
    let members = tenants.members(&caller.tenant, offset, limit).await?;
    let mut rows: Vec<_> = members.iter().map(|(one, user)| account::member(one, user)).collect();
    let left = limit.saturating_sub(rows.len() as u64);
    // Invitations come after the last member.
    let from = offset.saturating_sub(counts.members);
    let invited = tenants.invitations(&caller.tenant, from, left).await?;
    rows.extend(invited.iter().map(|one| account::invitation(one, None)));
    Ok(Part { data: rows, total: counts.members.saturating_add(counts.invitations) }.into_response())
}

/// `POST /api/v1/tenants/{tenant}/users {"email", "role"?}`.
///
/// # Errors
/// 101 for an address or a role that is not valid; 103 for a tenant other than the caller's.
pub(crate) async fn invite(
    State(state): State<ServerState>,
    caller: Caller,
    Path(tenant): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    own(&caller, &tenant)?;
    body.require(&["email"])?;
    let email = body.text("email")?.unwrap_or_default();
    let role = role(&body)?.unwrap_or(MemberRole::User);
    let by = caller.actor.to_string();
    let invited = state.app.invite(&caller.tenant, &email, role, &by).await?;
    Ok(Success(account::invitation(&invited.invitation, Some(invited.secret.reveal()))).into_response())
}

/// `PATCH /api/v1/tenants/{tenant}/users/{user} {"role"}`.
///
/// # Errors
/// 101 for a role that is not valid; 102 for a user who is not a member; 103 for a tenant other than the caller's;
/// 106 for the last owner.
pub(crate) async fn set_role(
    State(state): State<ServerState>,
    caller: Caller,
    Path((tenant, user)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    own(&caller, &tenant)?;
    body.require(&["role"])?;
    let role = role(&body)?.unwrap_or_default();
    state.app.set_role(&caller.tenant, &UserId::from(user), role).await?;
    Ok(Success(true).into_response())
}

/// `DELETE /api/v1/tenants/{tenant}/users/{user}`: removes a member, or an invitation by its id or its address.
///
/// # Errors
/// 102 for a user who is neither a member nor invited; 103 for a tenant other than the caller's; 106 for the last
/// owner.
pub(crate) async fn remove_member(
    State(state): State<ServerState>,
    caller: Caller,
    Path((tenant, user)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    own(&caller, &tenant)?;
    let id = UserId::from(user.as_str());
    if found(state.app.accounts.stores.tenants.remove_member(&caller.tenant, &id).await)?.is_none() {
        state.app.take_back_invitation(&caller.tenant, &user).await?;
    }
    Ok(Success(true).into_response())
}

/// `GET /api/v1/tenants/{tenant}/users/{user}/export`.
///
/// # Errors
/// 102 for a user who is not a member; 103 for a tenant other than the caller's.
pub(crate) async fn export_member(
    State(state): State<ServerState>,
    caller: Caller,
    Path((tenant, user)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    own(&caller, &tenant)?;
    let stores = &state.app.accounts.stores;
    let membership = stores.tenants.membership(&caller.tenant, &UserId::from(user)).await?;
    let user = stores.users.user(&membership.user).await?;
    let found = state.app.personal_data(user, Some(membership.tenant));
    Ok(streamed(r#"{"code":0,"message":"success","data":["#, found, "]}".to_owned()))
}
