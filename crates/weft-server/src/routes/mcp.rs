//! The endpoint for MCP clients.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body as Bytes;
use axum::extract::{FromRequest as _, FromRequestParts as _, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use serde_json::Value as Json;
use weft_mcp::serving::{Names, Posted, Reply, ReplyBody, RpcError, check_origin, code};

use crate::auth::Caller;
use crate::body::{Body, JsonWithText};
use crate::error::ApiError;
use crate::mcp::Offering;
use crate::sse;
use crate::state::ServerState;
use crate::wire::envelope::respond;
use weft_app::config::Auth;

/// Headers in which clients of RAGFlow's own server send the token.
const KEY_HEADERS: [&str; 2] = ["api_key", "x-api-key"];

/// `POST /mcp`: a message. Failures are reported by the protocol.
pub(crate) async fn posted(State(state): State<ServerState>, request: Request) -> Response {
    let headers = request.headers().clone();
    let (caller, request) = match let_in(&state, request).await {
        Ok(known) => known,
        Err(refused) => return refused,
    };
    let (message, text) = match read(&state, request).await {
        Ok(read) => read,
        Err(error) => return response(Reply::refused(StatusCode::BAD_REQUEST, &Json::Null, error)),
    };
    let owner = owner(&caller);
    let offering = Arc::new(Offering::new(state.clone(), caller));
    let posted = Posted { owner: &owner, headers: &headers, message, text };
    response(state.mcp.post(offering, posted).await)
}

/// Reads a posted message; returns also its text.
async fn read(
    state: &ServerState,
    request: Request,
) -> Result<(serde_json::Map<String, Json>, axum::body::Bytes), RpcError> {
    let read = JsonWithText::from_request(request, state).await;
    let JsonWithText(read) = read.map_err(|error| RpcError::new(code::PARSE, error.message()))?;
    // An empty text is not JSON.
    let (json, text) = read.ok_or_else(|| RpcError::new(code::PARSE, "the request has no message"))?;
    // `Body` accepts null in place of an object, for the other routes.
    if json.is_null() {
        return Err(RpcError::new(code::INVALID_REQUEST, "a message must be an object"));
    }
    let Body(message) =
        Body::of(json).map_err(|error| RpcError::new(code::INVALID_REQUEST, error.message()))?;
    Ok((message, text))
}

/// `DELETE /mcp`: the end of a conversation.
pub(crate) async fn ended(State(state): State<ServerState>, request: Request) -> Response {
    let headers = request.headers().clone();
    match let_in(&state, request).await {
        Ok((caller, _)) => response(state.mcp.delete(&owner(&caller), &headers)),
        Err(refused) => refused,
    }
}

/// The owner of a conversation: no other caller can continue it, even in the same tenant.
fn owner(caller: &Caller) -> String {
    format!("{}/{}", caller.tenant, caller.actor)
}

/// `GET /mcp`.
pub(crate) async fn no_stream() -> Response {
    let allowed = [(header::ALLOW, HeaderValue::from_static("POST, DELETE"))];
    (StatusCode::METHOD_NOT_ALLOWED, allowed).into_response()
}

/// Returns the caller, unless the request comes from a page that is not allowed.
async fn let_in(state: &ServerState, request: Request) -> Result<(Caller, Request), Response> {
    let names = match state.auth {
        Auth::On => Names::Any,
        Auth::Off => Names::Loopback,
    };
    if let Err(reason) = check_origin(request.headers(), names) {
        let error = RpcError::new(code::INVALID_REQUEST, reason);
        return Err(response(Reply::refused(StatusCode::FORBIDDEN, &Json::Null, error)));
    }
    let (mut parts, body) = request.into_parts();
    with_token(&mut parts.headers);
    match Caller::from_request_parts(&mut parts, state).await {
        Ok(caller) => Ok((caller, Request::from_parts(parts, body))),
        Err(error) => Err(unknown(error)),
    }
}

/// Moves the token to the header that every other route uses.
fn with_token(headers: &mut HeaderMap) {
    if headers.contains_key(header::AUTHORIZATION) {
        return;
    }
    if let Some(token) = KEY_HEADERS.iter().find_map(|name| headers.get(*name)).cloned() {
        headers.insert(header::AUTHORIZATION, token);
    }
}

// HTTP requires the header with 401, and clients use it to discover how to sign in.
fn unknown(error: ApiError) -> Response {
    let mut response = error.into_response();
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn response(reply: Reply) -> Response {
    let mut response = match reply.body {
        ReplyBody::Empty => reply.status.into_response(),
        ReplyBody::Json(json) => respond(reply.status, &json),
        ReplyBody::Events(events) => sse::event_stream(Bytes::from_stream(events.map(Ok::<_, Infallible>))),
    };
    if let Some(session) = reply.session.and_then(|id| HeaderValue::from_str(&id).ok()) {
        response.headers_mut().insert("mcp-session-id", session);
    }
    response
}
