//! Signing in at an MCP server of the tenant: a person allows in a browser what agents do there.
//!
//! The page that the browser comes back to is the caller's own, such as one of a user interface; it hands on what it was called
//! with. So nothing here takes a browser without a token, and nobody can make somebody else's sign-in their own.

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weft_app::tool_servers::{SignInCallback, SignInRequest};
use weft_core::Error;

use super::tool_servers::found;
use crate::auth::Caller;
use crate::body::Body;
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;

/// Bytes of an address.
const URL_MAX: usize = 16 << 10;

fn told(error: &Error) -> ApiError {
    ApiError::data(error.full())
}

/// An address of the body.
fn address(body: &Body, name: &str) -> Result<String, ApiError> {
    body.require(&[name])?;
    let url = body.text(name)?.unwrap_or_default();
    let is_web = url.parse::<Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty())
    });
    if url.len() > URL_MAX || !is_web {
        let message = format!("`{name}` must be an http or https address of {URL_MAX} bytes at most");
        return Err(ApiError::argument(message));
    }
    Ok(url)
}

/// `POST /api/v1/mcp/servers/{server}/authorization {redirect_uri, scope}`: the page at which a person signs in.
///
/// # Errors
/// 101 without an address to come back to; 102 for an unknown server, for one at which nobody signs in, and when it or its
/// authorization server cannot be asked.
pub(crate) async fn begin(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let request = SignInRequest { redirect_uri: address(&body, "redirect_uri")?, scope: body.text("scope")? };
    let server = found(&state, &caller, &id).await?;
    let begun = state.app.tool_servers.begin_sign_in(&caller.tenant, &server, &request).await;
    let page = begun.map_err(|error| told(&error))?;
    Ok(Success(json!({"authorization_url": page.url, "state": page.state})).into_response())
}

/// `PUT /api/v1/mcp/servers/{server}/authorization {callback_url}`: ends a sign-in with the address that the browser was sent
/// to.
///
/// # Errors
/// 101 without such an address; 102 for an unknown server, for a sign-in that was refused, has not begun or takes too long,
/// and when the authorization server gives no tokens.
pub(crate) async fn finish(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let callback = SignInCallback::of_url(&address(&body, "callback_url")?).map_err(|error| told(&error))?;
    let server = found(&state, &caller, &id).await?;
    let finished = state.app.tool_servers.finish_sign_in(&caller.tenant, &server, &callback).await;
    finished.map_err(|error| told(&error))?;
    Ok(Success(true).into_response())
}

/// `DELETE /api/v1/mcp/servers/{server}/authorization`: forgets what was allowed; whether anything was.
///
/// # Errors
/// 102 for an unknown server.
pub(crate) async fn remove(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let server = found(&state, &caller, &id).await?;
    Ok(Success(state.app.tool_servers.sign_out(&caller.tenant, &server.id).await?).into_response())
}
