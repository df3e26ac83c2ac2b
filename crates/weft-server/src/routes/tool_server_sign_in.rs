//! Sign-in at an MCP server of the tenant: a person authorizes in a browser what agents may do there.
//!
//! The page to which the browser returns belongs to the caller, such as a user interface; it passes on the URL with
//! which it was opened. Therefore no route here accepts a browser without a token, and nobody can take over another
//! user's sign-in.

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

/// Maximum length of a URL, in bytes.
const URL_MAX: usize = 16 << 10;

fn told(error: &Error) -> ApiError {
    ApiError::data(error.full())
}

/// Reads a URL from the body.
fn address(body: &Body, name: &str) -> Result<String, ApiError> {
    body.require(&[name])?;
    let url = body.text(name)?.unwrap_or_default();
    let is_web = url.parse::<Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty())
    });
    if url.len() > URL_MAX || !is_web {
        let message = format!("`{name}` must be an http or https address of at most {URL_MAX} bytes");
        return Err(ApiError::argument(message));
    }
    Ok(url)
}

/// `POST /api/v1/mcp/servers/{server}/authorization {redirect_uri, scope}`: starts a sign-in and returns the page at
/// which a person signs in.
///
/// # Errors
/// 101 without a redirect URI; 102 for an unknown server, for one without sign-in, and when the server or its
/// authorization server cannot be reached.
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

/// `PUT /api/v1/mcp/servers/{server}/authorization {callback_url}`: completes a sign-in with the URL to which the
/// browser was redirected.
///
/// # Errors
/// 101 without such a URL; 102 for an unknown server, for a sign-in that was refused, was not started or has expired,
/// and when the authorization server issues no tokens.
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

/// `DELETE /api/v1/mcp/servers/{server}/authorization`: removes the authorization. Returns whether there was one.
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
