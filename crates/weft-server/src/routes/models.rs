//! The models that canvases may name.

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::auth::Caller;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::model::by_kind;

/// `GET /api/v1/models`: the configured models by purpose, without keys and addresses.
pub(crate) async fn list(State(state): State<ServerState>, caller: Caller) -> Response {
    Success(by_kind(state.app.models.list(&caller.tenant))).into_response()
}
