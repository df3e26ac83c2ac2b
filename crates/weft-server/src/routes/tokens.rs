//! API keys of the caller's own tenant. Owners see all of them, other users only their own.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use weft_core::CanvasId;
use weft_core::access::{MemberRole, Permission};
use weft_core::seam::share_store::ShareTarget;
use weft_core::seam::token_store::TokenFilter;

use super::owned::or;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::{Part, Success};
use crate::wire::token::TokenRow;
use weft_app::tokens::{self, NewKey};

/// Default name of a token.
const UNNAMED: &str = "api";

/// `POST /api/v1/system/tokens {"name"?, "role"?}`: creates a key. No other answer contains the key itself. Its role
/// is at most that of its creator.
///
/// # Errors
/// 101 for a name that is not a single line, for an unknown role, and for a tenant other than the caller's; 103 for a
/// role above the caller's, and when the caller is a key without a user that is not an owner's.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    let name = match body.text("name")? {
        Some(name) => name,
        None => params.get("name").unwrap_or(UNNAMED).to_owned(),
    };
    if body.text("tenant")?.is_some_and(|tenant| tenant != caller.tenant.as_str()) {
        let message = "`tenant`: tokens are created here only for the caller's tenant; `weft token create` makes others";
        return Err(ApiError::argument(message));
    }
    let role = match body.text("role")? {
        Some(role) => role.parse::<MemberRole>()?,
        None => caller.role,
    };
    let refuse = |message: String| ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN);
    if role > caller.role {
        return Err(refuse(format!("a key may do no more than its creator, who is `{}` here", caller.role)));
    }
    // Revoking such a key would not revoke the keys that it has created.
    if caller.user.is_none() && !caller.role.may(Permission::Administer) {
        return Err(refuse("a key that belongs to no user cannot create others".to_owned()));
    }
    let key = NewKey { name: &name, role, user: caller.user.clone() };
    let made = state.app.create_key(&caller.tenant, key).await?;
    // Whoever may share an agent gets a share token with every key.
    let beta =
        if role.may(Permission::Edit) { Some(state.app.share_of_key(&made.stored).await?) } else { None };
    Ok(Success(TokenRow::made(&made, beta.as_ref())).into_response())
}

/// `GET /api/v1/system/tokens`: lists the keys without their secrets, by `page` and `page_size`.
///
/// # Errors
/// 100 when the store cannot be read.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let sees_all = caller.role.may(Permission::Administer);
    let user = caller.user.clone().filter(|_| !sees_all);
    // A key without a user is owned by nobody.
    if user.is_none() && !sees_all {
        return Ok(Part { data: Vec::<TokenRow>::new(), total: 0 }.into_response());
    }
    let (tenant, page) = (Some(caller.tenant.clone()), params.page_if_asked(tokens::LISTED_MAX));
    let seen = TokenFilter { tenant, user, offset: page.offset, limit: page.limit, ..TokenFilter::default() };
    let tokens = state.app.tokens.list(&seen).await?;
    let total = state.app.tokens.total(&seen).await?;
    Ok(Part { data: tokens.iter().map(TokenRow::stored).collect(), total }.into_response())
}

/// `DELETE /api/v1/system/tokens/{token}`: removes a key, given by its secret, its id, or a name that is unique.
///
/// # Errors
/// 102 for an unknown one, and for another user's.
pub(crate) async fn remove(
    State(state): State<ServerState>,
    caller: Caller,
    Path(token): Path<String>,
) -> Result<Response, ApiError> {
    let unknown = || ApiError::data("Token not found!");
    let told = |error| or(error, unknown());
    let sees_all = caller.role.may(Permission::Administer);
    let user = caller.user.as_ref().filter(|_| !sees_all);
    // A key without a user is owned by nobody.
    if user.is_none() && !sees_all {
        return Err(unknown());
    }
    // Only among those that the caller may see: a key of another user with the same name must not be in the way.
    let found = tokens::named(&*state.app.tokens, &caller.tenant, user, &token).await.map_err(told)?;
    // The share token of the key is useless without it.
    let target = ShareTarget::OfKey(CanvasId::from(found.hash.as_str()));
    state.app.accounts.stores.shares.remove_shares(&caller.tenant, &target).await?;
    state.app.tokens.remove(&caller.tenant, &found.hash).await.map_err(told)?;
    Ok(Success(true).into_response())
}
