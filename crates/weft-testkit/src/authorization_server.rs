//! An authorization server (OAuth 2.1) that grants every request immediately, as routes that a test adds to its own
//! server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

/// Configuration and records of the server. Clones share them.
#[derive(Clone, Debug)]
pub struct AuthorizationServer {
    /// Prefix of its tokens; a number follows.
    prefix: Arc<str>,
    /// The token that is currently valid; `None` if no token is required.
    pub token: Arc<Mutex<Option<String>>>,
    /// The forms sent to the token endpoint, oldest first.
    pub given: Arc<Mutex<Vec<HashMap<String, String>>>>,
    /// Refresh tokens that have been used and are no longer valid. A token named `spent` never is.
    pub spent: Arc<Mutex<Vec<String>>>,
    /// Lifetime of tokens, in seconds.
    pub lasting: Arc<AtomicUsize>,
    /// Whether the lifetime is sent as a string.
    pub lasting_is_text: Arc<AtomicBool>,
    /// Locked before each token is issued, so a test that holds it delays the tokens.
    pub gives: Arc<tokio::sync::Mutex<()>>,
    /// Number of clients that have registered.
    pub registered: Arc<AtomicUsize>,
    /// The address under which the MCP server names it; `None` for the address of the MCP server itself.
    pub named: Arc<Mutex<Option<String>>>,
}

impl AuthorizationServer {
    /// Creates a server whose tokens have this prefix. No client has a valid token yet.
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: Arc::from(prefix),
            token: Arc::new(Mutex::new(Some("nobody has it yet".to_owned()))),
            given: Arc::default(),
            spent: Arc::default(),
            lasting: Arc::new(AtomicUsize::new(3_600)),
            lasting_is_text: Arc::default(),
            gives: Arc::default(),
            registered: Arc::default(),
            named: Arc::default(),
        }
    }

    /// Whether a request with these headers has the valid token, or none is required.
    pub fn is_let_in(&self, headers: &HeaderMap) -> bool {
        let wanted = lock(&self.token).as_ref().map(|token| format!("Bearer {token}"));
        wanted.is_none_or(|wanted| text(headers, header::AUTHORIZATION.as_str()) == wanted)
    }

    /// Its routes, and the metadata of an MCP server at `/mcp` that names it.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/token", post(token))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(document))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .with_state(self.clone())
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn here(headers: &HeaderMap) -> String {
    format!("http://{}", text(headers, header::HOST.as_str()))
}

/// The metadata of the MCP server, which name the authorization server.
async fn resource(State(server): State<AuthorizationServer>, headers: HeaderMap) -> Json<Value> {
    let here = here(&headers);
    let named = lock(&server.named).clone().unwrap_or_else(|| here.clone());
    Json(
        json!({"resource": format!("{here}/mcp"), "authorization_servers": [named], "scopes_supported": ["tools"]}),
    )
}

async fn document(headers: HeaderMap) -> Json<Value> {
    let here = here(&headers);
    let at = |path: &str| format!("{here}/{path}");
    Json(json!({
        "issuer": here, "authorization_endpoint": at("authorize"), "token_endpoint": at("token"),
        "registration_endpoint": at("register"), "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"], "authorization_response_iss_parameter_supported": true,
    }))
}

async fn register(State(server): State<AuthorizationServer>, Json(client): Json<Value>) -> Response {
    let number = server.registered.fetch_add(1, Ordering::SeqCst);
    let answer = json!({"client_id": format!("client-{number}"), "redirect_uris": client["redirect_uris"]});
    (StatusCode::CREATED, Json(answer)).into_response()
}

/// Grants the request immediately, in place of a user.
async fn authorize(Query(query): Query<HashMap<String, String>>, headers: HeaderMap) -> Response {
    let said = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let code = format!("code+for+{}", said("scope").replace(' ', "+"));
    let (redirect, state, here) = (said("redirect_uri"), said("state"), here(&headers));
    let back = format!("{redirect}?code={code}&state={state}&iss={here}");
    (StatusCode::FOUND, [(header::LOCATION, back)]).into_response()
}

async fn token(State(server): State<AuthorizationServer>, body: String) -> Response {
    // A form is encoded like a query string.
    let form = format!("/?{body}").parse::<Uri>().ok();
    let form = form.and_then(|uri| Query::<HashMap<String, String>>::try_from_uri(&uri).ok());
    let Some(Query(form)) = form else { return StatusCode::BAD_REQUEST.into_response() };
    let shown = form.get("refresh_token").cloned();
    let number = {
        let mut given = lock(&server.given);
        given.push(form);
        given.len()
    };
    let is_spent = |token: &String| token == "spent" || lock(&server.spent).contains(token);
    if shown.as_ref().is_some_and(is_spent) {
        let refusal = json!({"error": "invalid_grant", "error_description": "never mind"});
        return (StatusCode::BAD_REQUEST, Json(refusal)).into_response();
    }
    lock(&server.spent).extend(shown);
    drop(server.gives.lock().await);
    let token = format!("{}-{number}", server.prefix);
    *lock(&server.token) = Some(token.clone());
    let lasting = server.lasting.load(Ordering::SeqCst);
    let is_text = server.lasting_is_text.load(Ordering::SeqCst);
    let lasting = if is_text { json!(lasting.to_string()) } else { json!(lasting) };
    Json(json!({
        "access_token": token, "token_type": "Bearer", "expires_in": lasting,
        "refresh_token": format!("refresh-{number}"),
    }))
    .into_response()
}
