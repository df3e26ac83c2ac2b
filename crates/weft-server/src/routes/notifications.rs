//! Notifications of a tenant.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use crate::auth::Caller;
use crate::body::Params;
use crate::error::ApiError;
use crate::state::ServerState;
use crate::wire::account;
use crate::wire::envelope::Success;

/// `GET /api/v1/notifications`.
///
/// # Errors
/// 100 when the store cannot be read.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let page = params.page(state.app.limits.page_size);
    let (notices, total) =
        state.app.notifications.store.notices(&caller.tenant, page.offset, page.limit).await?;
    let notices: Vec<_> = notices.iter().map(account::notice).collect();
    Ok(Success(json!({"notifications": notices, "total": total})).into_response())
}
