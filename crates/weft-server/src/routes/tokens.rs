//! Tokens of the caller's own tenant.

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use weft_core::ErrorKind;

use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::token::TokenRow;
use weft_app::tokens;

/// What a token is called that nobody named.
const UNNAMED: &str = "api";

/// `POST /api/v1/system/tokens {"name"?}`: the only answer that has the token itself.
///
/// # Errors
/// 101 for a name that is no line, and for another tenant than the caller's own.
pub async fn create(
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
        let message = "`tenant`: tokens are made here for the caller's own tenant; `weft token create` makes those of others";
        return Err(ApiError::argument(message));
    }
    let made = tokens::create(&*state.app.tokens, &caller.tenant, &name, state.app.clock.now_ms()).await?;
    Ok(Success(TokenRow::made(&made)).into_response())
}

/// `GET /api/v1/system/tokens`: what there are, without the tokens themselves.
///
/// # Errors
/// 100 when the store cannot be read.
pub async fn list(State(state): State<ServerState>, caller: Caller) -> Result<Response, ApiError> {
    let tokens = state.app.tokens.list(Some(&caller.tenant), tokens::LISTED_MAX).await?;
    let rows: Vec<_> = tokens.iter().map(TokenRow::stored).collect();
    Ok(Success(rows).into_response())
}

/// `DELETE /api/v1/system/tokens/{token}`: the token itself, its id, or a name that no other has.
///
/// # Errors
/// 102 for an unknown one.
pub async fn remove(
    State(state): State<ServerState>,
    caller: Caller,
    Path(token): Path<String>,
) -> Result<Response, ApiError> {
    let told = |error: weft_core::Error| match error.kind {
        ErrorKind::NotFound => ApiError::data("Token not found!"),
        _ => error.into(),
    };
    let found = tokens::named(&*state.app.tokens, &caller.tenant, &token).await.map_err(told)?;
    state.app.tokens.remove(&caller.tenant, &found.hash).await.map_err(told)?;
    Ok(Success(true).into_response())
}
