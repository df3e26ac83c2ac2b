//! Sign-in by OpenID Connect, and the identities of a user at providers.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use weft_app::accounts::oidc::{Returned, SignInBegun, SignInFinished, SignInOutcome};
use weft_app::accounts::{Audited, SignInRefusal, SignedIn};
use weft_core::id::UserId;
use weft_core::seam::identity_store::Identity;
use weft_core::{Error, ErrorKind, Secret};

use super::users::{ClientAddress, address, code_of, refused, signed_in, welcome};
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::account;
use crate::wire::envelope::Success;

/// Lifetime of the cookie of a sign-in under way in seconds: the time that a sign-in may take.
const COOKIE_SECONDS: u32 = 600;

/// Converts the reason why a sign-in cannot start or continue into an error, with the HTTP status that browsers and
/// programs expect.
fn told(error: Error) -> ApiError {
    let status = match error.kind {
        ErrorKind::NotFound => Some(StatusCode::NOT_FOUND),
        ErrorKind::Denied => Some(StatusCode::FORBIDDEN),
        ErrorKind::Conflict => Some(StatusCode::CONFLICT),
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Garbled => Some(StatusCode::BAD_GATEWAY),
        _ => None,
    };
    // An invalid answer of another server is not a failure of this one.
    let error = match error.kind {
        ErrorKind::Garbled => Error { kind: ErrorKind::Unavailable, ..error },
        _ => error,
    };
    let told = ApiError::from(error);
    status.into_iter().fold(told, ApiError::with_status)
}

fn refusal(refusal: SignInRefusal) -> ApiError {
    match refusal {
        SignInRefusal::Failed(error) => told(error),
        other => refused(other).with_status(StatusCode::FORBIDDEN),
    }
}

/// Returns the error code of a refusal, for the audit log.
fn noted(refusal: &SignInRefusal) -> u16 {
    match refusal {
        SignInRefusal::Failed(error) => match error.kind {
            ErrorKind::Denied => code::OPERATING,
            ErrorKind::Conflict => code::RUNNING,
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Garbled => code::CONNECTION,
            _ => code_of(refusal),
        },
        _ => code_of(refusal),
    }
}

/// Builds a cookie that pages cannot read and that is sent to no other server. An empty value removes it.
fn set_cookie(state: &ServerState, name: &str, value: &str) -> Result<HeaderValue, ApiError> {
    let seconds = if value.is_empty() { 0 } else { COOKIE_SECONDS };
    let secure = if state.app.accounts.is_over_tls() { "; Secure" } else { "" };
    // `Lax` rather than `Strict`: the provider redirects the browser back from another site.
    let cookie = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&cookie).map_err(|_| ApiError::internal("a cookie does not fit into a header"))
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Prevents caching, and keeps the URL from being sent to the next page as its referrer.
fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Redirects a browser; programs read the same data in the body.
fn sent_to(url: &str, mut response: Response) -> Result<Response, ApiError> {
    let place = HeaderValue::from_str(url)
        .map_err(|_| ApiError::internal("an address does not fit into a header"))?;
    response.headers_mut().insert(header::LOCATION, place);
    *response.status_mut() = StatusCode::SEE_OTHER;
    Ok(private(response))
}

/// Builds the fragment of a URL, which is not sent to any server.
fn fragment(name: &str, value: &str) -> String {
    let mut text = format!("#{name}=");
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn begun(state: &ServerState, begun: &SignInBegun) -> Result<Response, ApiError> {
    let mut response = private(Success(json!({"url": begun.url})).into_response());
    let cookie = set_cookie(state, &begun.cookie, begun.browser.reveal())?;
    response.headers_mut().append(header::SET_COOKIE, cookie);
    Ok(response)
}

/// `GET /api/v1/auth/providers`.
pub(crate) async fn providers(State(state): State<ServerState>) -> Response {
    let all = state.app.accounts.offered();
    let path = |name: &str| format!("/api/v1/auth/oidc/{name}");
    let all = all.iter().map(|one| json!({"name": one.name, "title": one.title, "path": path(&one.name)}));
    Success(all.collect::<Vec<Json>>()).into_response()
}

/// `GET /api/v1/auth/oidc/{provider}`: redirects a browser to the provider.
///
/// # Errors
/// 102 with HTTP status 404 for an unknown provider; 101 for a `next` that is not a page of this server; 105 with 502
/// when the provider cannot be reached; 429.
pub(crate) async fn begin(
    State(state): State<ServerState>,
    from: ClientAddress,
    Path(provider): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let next = params.get("next").unwrap_or_default();
    let sent = state.app.begin_oidc(&provider, next, None, &address(from)).await.map_err(told)?;
    sent_to(&sent.url, begun(&state, &sent)?)
}

/// `GET /api/v1/auth/oidc/{provider}/callback`: the address to which the provider redirects the browser.
///
/// # Errors
/// 102 with HTTP status 404 for an unknown provider; 103 with 403 for a sign-in that has expired, was started in
/// another browser, or is refused; 105 with 502 when the provider cannot be reached.
pub(crate) async fn finish(
    State(state): State<ServerState>,
    from: ClientAddress,
    Path(provider): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let text = |name: &str| params.get(name).map(str::to_owned);
    let returned = Returned {
        state: text("state").unwrap_or_default(),
        code: Secret::new(text("code").unwrap_or_default()),
        issuer: text("iss"),
        error: text("error"),
        error_description: text("error_description").unwrap_or_default(),
    };
    // Each sign-in has its own cookie, so that two windows of a browser do not interfere.
    let name = state.app.accounts.oidc_cookie(&returned.state);
    let (browser, address) = (cookie(&headers, &name), address(from));
    let finished = state.app.finish_oidc(&provider, &returned, browser, &address).await.map_err(told)?;
    note_end(&state, &provider, &finished, &address).await;
    let mut response = answer(finished)?;
    response.headers_mut().append(header::SET_COOKIE, set_cookie(&state, &name, "")?);
    Ok(private(response))
}

async fn note_end(state: &ServerState, provider: &str, finished: &SignInFinished, address: &str) {
    let user = |id: &UserId| format!("user:{id}");
    let (actor, action, outcome) = match &finished.outcome {
        Ok(SignInOutcome::SignedIn(signed_in)) => (user(&signed_in.user.id), "login by provider", 0),
        Ok(SignInOutcome::Linked(identity)) => (user(&identity.user), "add identity", 0),
        Err(refusal) => ("nobody".to_owned(), "login by provider", noted(refusal)),
    };
    let (tenant, actor) = (&finished.tenant, &*actor);
    state.app.note(Audited { tenant, actor, action, target: provider, outcome, address }).await;
}

fn answer(finished: SignInFinished) -> Result<Response, ApiError> {
    let SignInFinished { next, outcome, .. } = finished;
    match (outcome, next.is_empty()) {
        (Ok(SignInOutcome::SignedIn(signed_in)), true) => welcome(&signed_in),
        (Ok(SignInOutcome::SignedIn(signed_in)), false) => {
            let SignedIn { user, tenant, role, token } = &*signed_in;
            let body = Success(account::user(user, tenant, *role)).into_response();
            sent_to(&format!("{next}{}", fragment("authorization", token.reveal())), body)
        }
        (Ok(SignInOutcome::Linked(identity)), true) => {
            Ok(Success(account::identity(&identity)).into_response())
        }
        (Ok(SignInOutcome::Linked(identity)), false) => {
            let body = Success(account::identity(&identity)).into_response();
            sent_to(&format!("{next}{}", fragment("added", &identity.provider)), body)
        }
        (Err(why), true) => Ok(refusal(why).into_response()),
        (Err(why), false) => {
            let error = refusal(why);
            let url = format!("{next}{}", fragment("error", error.message()));
            sent_to(&url, error.into_response())
        }
    }
}

/// `GET /api/v1/users/me/identities`.
///
/// # Errors
/// 103 for an API key.
pub(crate) async fn identities(
    State(state): State<ServerState>,
    caller: Caller,
) -> Result<Response, ApiError> {
    let (user, _) = signed_in(&caller)?;
    let all: Vec<Identity> = state.app.identities(user).await?;
    Ok(Success(all.iter().map(account::identity).collect::<Vec<_>>()).into_response())
}

/// `POST /api/v1/users/me/identities {"provider", "next"?}`.
///
/// # Errors
/// 103 for an API key; otherwise as [`begin`].
pub(crate) async fn add_identity(
    State(state): State<ServerState>,
    from: ClientAddress,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let (user, _) = signed_in(&caller)?;
    body.require(&["provider"])?;
    let provider = body.text("provider")?.unwrap_or_default();
    let next = body.text("next")?.unwrap_or_default();
    let sent = state.app.begin_oidc(&provider, &next, Some(user), &address(from)).await.map_err(told)?;
    begun(&state, &sent)
}

/// `DELETE /api/v1/users/me/identities/{identity}`.
///
/// # Errors
/// 102 for an unknown one; 103 for an API key, and for the last identity of a user without a password.
pub(crate) async fn remove_identity(
    State(state): State<ServerState>,
    from: ClientAddress,
    caller: Caller,
    Path(identity): Path<String>,
) -> Result<Response, ApiError> {
    let (user, _) = signed_in(&caller)?;
    let removed = state.app.unlink(user, &identity).await?;
    let (tenant, actor) = (&caller.tenant, &*caller.actor.to_string());
    let (action, target, address) = ("remove identity", &*removed.provider, &*address(from));
    state.app.note(Audited { tenant, actor, action, target, outcome: 0, address }).await;
    Ok(Success(true).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_by_its_exact_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; weft-oidc-ab=x=y; b"));
        headers.append(header::COOKIE, HeaderValue::from_static("c=3"));
        let of = |name| cookie(&headers, name);
        assert_eq!([of("a"), of("weft-oidc-ab"), of("c")], [Some("1"), Some("x=y"), Some("3")]);
        assert_eq!([of("weft-oidc-a"), of("b"), of("")], [None; 3]);
    }

    #[test]
    fn text_in_a_url_fragment_is_escaped() {
        assert_eq!(fragment("error", "<b>&ü\n"), "#error=%3Cb%3E%26%C3%BC%0A");
    }
}
