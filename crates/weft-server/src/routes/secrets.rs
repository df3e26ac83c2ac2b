//! Secrets of the caller's own tenant. No answer contains a value.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use weft_core::{Json, Secret};

use crate::auth::Caller;
use crate::body::Body;
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::secret::SecretRow;

/// `GET /api/v1/secrets`: the names of the secrets.
///
/// # Errors
/// 100 when the store cannot be read.
pub(crate) async fn list(State(state): State<ServerState>, caller: Caller) -> Result<Response, ApiError> {
    let secrets = state.app.secrets.list(&caller.tenant).await?;
    let rows: Vec<_> = secrets.iter().map(SecretRow::from).collect();
    Ok(Success(rows).into_response())
}

/// `PUT /api/v1/secrets/{name} {"value"}`: creates a secret, or changes its value.
///
/// # Errors
/// 101 for a name or a value that cannot be stored.
pub(crate) async fn put(
    State(state): State<ServerState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    // The error must not contain the value.
    let Some(Json::String(value)) = body.get("value") else {
        return Err(ApiError::argument("`value`: must be a string"));
    };
    let put = state.app.secrets.put(&caller.tenant, &name, &Secret::new(value.as_str())).await?;
    Ok(Success(SecretRow::from(&put)).into_response())
}

/// `DELETE /api/v1/secrets/{name}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn remove(
    State(state): State<ServerState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    state.app.secrets.remove(&caller.tenant, &name).await?;
    Ok(Success(true).into_response())
}
