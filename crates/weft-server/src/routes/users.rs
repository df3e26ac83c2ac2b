//! Sign-in, sign-out, registration, and the caller's own account.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use weft_core::id::UserId;
use weft_core::seam::user_store::Logins;
use weft_core::{Secret, TenantId};

use super::owned::or_taken;
use crate::audit::address_of;
use crate::auth::{Actor, Caller};
use crate::body::{Body, Page, Params};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::webhook::Peer;
use crate::wire::account;
use crate::wire::envelope::{Success, streamed};
use weft_app::accounts::{
    Audited, LISTED_MAX, PasswordChange, Refusals, SignInRefusal, SignedIn, new_nickname,
};
use weft_app::app::DEFAULT_TENANT;

/// Address that a request comes from, if known.
pub(super) type ClientAddress = Option<Extension<Peer>>;

/// The period of the limits of sign-ins, as the message for a refused one says.
const SIGN_IN_WINDOW: Duration = Duration::from_secs(15 * 60);

/// Number of characters of a typed email address that the audit log repeats.
const TYPED_MAX: usize = 254;

pub(super) fn address(from: ClientAddress) -> String {
    address_of(from.map(|Extension(peer)| peer).as_ref())
}

/// Converts a refused sign-in into an error.
pub(super) fn refused(refusal: SignInRefusal) -> ApiError {
    match refusal {
        SignInRefusal::Mismatch => ApiError::new(code::NO_ACCESS, "Email and password do not match!"),
        SignInRefusal::Disabled => {
            ApiError::new(403, "This account has been disabled, please contact the administrator!")
        }
        SignInRefusal::NoTenant => ApiError::new(
            code::OPERATING,
            "This account is not a member of the tenant; ask one of its owners for an invitation. The operator of \
             the server can export and remove the account: `weft user export` and `weft user remove`.",
        ),
        SignInRefusal::TooMany(_) => {
            let message = "Too many attempts to sign in. Try again in a quarter of an hour.";
            let error = ApiError::new(code::TOO_MANY, message).with_status(StatusCode::TOO_MANY_REQUESTS);
            error.retry_after(SIGN_IN_WINDOW)
        }
        SignInRefusal::Failed(error) => error.into(),
    }
}

/// Returns the error code of a refusal, for the audit log.
pub(super) fn code_of(refusal: &SignInRefusal) -> u16 {
    match refusal {
        SignInRefusal::Mismatch => code::NO_ACCESS,
        SignInRefusal::Disabled => 403,
        SignInRefusal::NoTenant => code::OPERATING,
        SignInRefusal::TooMany(_) => code::TOO_MANY,
        SignInRefusal::Failed(_) => code::EXCEPTION,
    }
}

/// Reads a password from a body.
pub(super) fn password(body: &Body, key: &str) -> Result<Secret, ApiError> {
    Ok(Secret::new(body.text(key)?.unwrap_or_default()))
}

/// The answer to a successful sign-in: the user, and the sign-in token in a header.
pub(super) fn welcome(signed_in: &SignedIn) -> Result<Response, ApiError> {
    let SignedIn { user, tenant, role, token } = signed_in;
    let mut response = Success(account::user(user, tenant, *role)).into_response();
    let value = HeaderValue::from_str(token.reveal())
        .map_err(|_| ApiError::internal("a token does not fit into a header"))?;
    // Clients read the token from this header.
    response.headers_mut().insert(header::AUTHORIZATION, value);
    // Allows pages of other origins to read it.
    let exposed = HeaderValue::from_static("authorization");
    response.headers_mut().insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Returns the signed-in user and the hash of their sign-in.
///
/// # Errors
/// 103 for an API key: personal data is not available to programs.
pub(super) fn signed_in(caller: &Caller) -> Result<(&UserId, &str), ApiError> {
    match &caller.actor {
        Actor::User(id, hash) => Ok((id, hash)),
        _ => {
            let message = "this requires a signed-in user, not an API key";
            Err(ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN))
        }
    }
}

/// `GET /api/v1/system/config`.
pub(crate) async fn settings(State(state): State<ServerState>) -> Response {
    let open = state.app.accounts.config.sign_up;
    Success(json!({"registerEnabled": u8::from(open), "disablePasswordLogin": false})).into_response()
}

/// `POST /api/v1/auth/login`.
///
/// # Errors
/// 101 without an address or a password; 109 when they do not match, with the same message and after the same time
/// whether or not the account exists; 403 for a disabled account; 429 after too many attempts.
pub(crate) async fn sign_in(
    State(state): State<ServerState>,
    from: ClientAddress,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["email", "password"])?;
    // As it is stored, so that the audit log has one form of an address, which is replaced when the user is erased.
    let email = body.text("email")?.unwrap_or_default().trim().to_lowercase();
    let tenant = body.id("tenant_id")?.map(TenantId::from);
    let address = address(from);
    let password = password(&body, "password")?;
    match state.app.sign_in(&email, &password, tenant.as_ref(), &address).await {
        Ok(signed_in) => {
            note_signed_in(&state, &signed_in, "login", &email, &address).await;
            welcome(&signed_in)
        }
        Err(refusal) => {
            // Logging every attempt beyond the limit would only fill the log.
            if !matches!(refusal, SignInRefusal::TooMany(Refusals::Repeated)) {
                let tenant = known_tenant(&state, &email).await;
                note(
                    &state,
                    Audited {
                        tenant: &tenant,
                        actor: "nobody",
                        action: "login",
                        target: &email,
                        outcome: code_of(&refusal),
                        address: &address,
                    },
                )
                .await;
            }
            Err(refused(refusal))
        }
    }
}

/// Returns the tenant whose audit log records a failed sign-in. It takes as long for an account that does not exist.
async fn known_tenant(state: &ServerState, email: &str) -> TenantId {
    let stores = &state.app.accounts.stores;
    let user =
        stores.users.user_by_email(email).await.map_or_else(|_| UserId::from("nobody"), |user| user.id);
    let theirs = stores.tenants.memberships(&user).await.unwrap_or_default();
    theirs.into_iter().next().map_or_else(|| TenantId::new(DEFAULT_TENANT), |one| one.tenant)
}

async fn note(state: &ServerState, noted: Audited<'_>) {
    let target: String = noted.target.chars().take(TYPED_MAX).collect();
    state.app.note(Audited { target: &target, ..noted }).await;
}

/// Logs what a user did who is signed in now.
pub(super) async fn note_signed_in(
    state: &ServerState,
    signed_in: &SignedIn,
    action: &str,
    target: &str,
    address: &str,
) {
    let (tenant, actor) = (&signed_in.tenant, format!("user:{}", signed_in.user.id));
    note(state, Audited { tenant, actor: &actor, action, target, outcome: 0, address }).await;
}

/// Logs what a caller did to their own account.
async fn note_own(state: &ServerState, caller: &Caller, action: &str, outcome: u16, address: &str) {
    let (tenant, actor) = (&caller.tenant, caller.actor.to_string());
    note(state, Audited { tenant, actor: &actor, action, target: "", outcome, address }).await;
}

/// `POST /api/v1/auth/logout`.
///
/// # Errors
/// 103 for an API key.
pub(crate) async fn sign_out(
    State(state): State<ServerState>,
    from: ClientAddress,
    caller: Caller,
) -> Result<Response, ApiError> {
    let (user, hash) = signed_in(&caller)?;
    state.app.accounts.stores.users.remove_logins(user, Logins::One(hash)).await?;
    note_own(&state, &caller, "logout", 0, &address(from)).await;
    Ok(Success(true).into_response())
}

/// `POST /api/v1/users`.
///
/// # Errors
/// 103 where registration is closed, for an address that is not valid, and for one that is taken; 101 for a password
/// or a name that is not valid; 429.
pub(crate) async fn register(
    State(state): State<ServerState>,
    from: ClientAddress,
    body: Body,
) -> Result<Response, ApiError> {
    let email = body.text("email")?.unwrap_or_default();
    let nickname = body.text("nickname")?.unwrap_or_default();
    let (password, address) = (password(&body, "password")?, address(from));
    let taken = || ApiError::new(code::OPERATING, format!("Email: {email} has already registered!"));
    let signed_in = state.app.register(&email, &nickname, &password, &address).await;
    let signed_in = signed_in.map_err(|error| or_taken(error, taken()))?;
    note_signed_in(&state, &signed_in, "register", &signed_in.user.email, &address).await;
    welcome(&signed_in)
}

/// `GET /api/v1/users/me`. An API key without a user is shown as its tenant.
///
/// # Errors
/// 100 when the store cannot be read.
pub(crate) async fn me(State(state): State<ServerState>, caller: Caller) -> Result<Response, ApiError> {
    let Some(id) = &caller.user else {
        let name = caller.tenant.to_string();
        let nobody = weft_core::seam::user_store::User {
            id: UserId::from(name.as_str()),
            email: String::new(),
            nickname: name,
            password_hash: String::new(),
            enabled: true,
            created_ms: 0,
            signed_in_ms: None,
        };
        return Ok(Success(account::user(&nobody, &caller.tenant, caller.role)).into_response());
    };
    let user = state.app.accounts.stores.users.user(id).await?;
    Ok(Success(account::user(&user, &caller.tenant, caller.role)).into_response())
}

/// `PATCH /api/v1/users/me {"nickname"?, "password"?, "new_password"?}`.
///
/// # Errors
/// 101 for a name or a password that is not valid; 103 for an API key; 109 when the old password is wrong.
pub(crate) async fn change_me(
    State(state): State<ServerState>,
    from: ClientAddress,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let (id, hash) = signed_in(&caller)?;
    let nickname = body.text("nickname")?;
    // Checked before the password changes: a request that is refused changes nothing.
    nickname.as_deref().map(new_nickname).transpose()?;
    if body.get("new_password").is_some() {
        let (old, new) = (password(&body, "password")?, password(&body, "new_password")?);
        // Checked before comparing the old password, which is deliberately slow.
        weft_app::accounts::password::check_new(&new)?;
        let address = address(from);
        let change = PasswordChange { old: &old, new: &new, address: &address, kept: hash };
        let changed = state.app.change_password(id, change).await;
        // Logged whatever the outcome: wrong passwords are what an audit log is read for.
        let outcome = changed.as_ref().map_or_else(code_of, |()| 0);
        note_own(&state, &caller, "change password", outcome, &address).await;
        changed.map_err(refused)?;
    }
    if let Some(nickname) = nickname {
        state.app.rename_user(id, &nickname).await?;
    }
    let user = state.app.accounts.stores.users.user(id).await?;
    Ok(Success(account::user(&user, &caller.tenant, caller.role)).into_response())
}

/// `DELETE /api/v1/users/me {"password"}`.
///
/// # Errors
/// 103 for an API key; 106 for the last owner of a tenant that has other members; 109 for a wrong password.
pub(crate) async fn erase_me(
    State(state): State<ServerState>,
    from: ClientAddress,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let (id, _) = signed_in(&caller)?;
    let address = address(from);
    let user = state.app.accounts.stores.users.user(id).await?;
    // A user who only signs in at a provider has no password.
    if !user.password_hash.is_empty() {
        state.app.confirm(id, &password(&body, "password")?, &address).await.map_err(refused)?;
    }
    state.app.erase_user(id).await?;
    note_own(&state, &caller, "erase account", 0, &address).await;
    Ok(Success(true).into_response())
}

/// `GET /api/v1/users/me/export`.
///
/// # Errors
/// 103 for an API key.
pub(crate) async fn export_me(
    State(state): State<ServerState>,
    caller: Caller,
) -> Result<Response, ApiError> {
    let (id, _) = signed_in(&caller)?;
    let user = state.app.accounts.stores.users.user(id).await?;
    let found = state.app.personal_data(user, None);
    Ok(streamed(r#"{"code":0,"message":"success","data":["#, found, "]}".to_owned()))
}

/// `GET /api/v1/users/me/logins`: the newest first, by `page` and `page_size`.
///
/// # Errors
/// 103 for an API key.
pub(crate) async fn logins(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let (id, hash) = signed_in(&caller)?;
    let Page { offset, limit } = params.page_if_asked(LISTED_MAX);
    let all = state.app.accounts.stores.users.logins(id, None, offset, limit).await?;
    Ok(Success(all.iter().map(|one| account::login(one, hash)).collect::<Vec<_>>()).into_response())
}

/// `DELETE /api/v1/users/me/logins`: ends all sign-ins but the one that the request is made with.
///
/// # Errors
/// 103 for an API key.
pub(crate) async fn end_logins(
    State(state): State<ServerState>,
    caller: Caller,
) -> Result<Response, ApiError> {
    let (id, hash) = signed_in(&caller)?;
    let ended = state.app.accounts.stores.users.remove_logins(id, Logins::Others(hash)).await?;
    Ok(Success(ended).into_response())
}

/// `DELETE /api/v1/users/me/logins/{login}`.
///
/// # Errors
/// 102 for one that is not there; 103 for an API key.
pub(crate) async fn end_login(
    State(state): State<ServerState>,
    caller: Caller,
    Path(login): Path<String>,
) -> Result<Response, ApiError> {
    let (id, _) = signed_in(&caller)?;
    let users = &state.app.accounts.stores.users;
    match users.remove_logins(id, Logins::Named(&login)).await? {
        0 => Err(ApiError::data("Sign-in not found!")),
        _ => Ok(Success(true).into_response()),
    }
}
