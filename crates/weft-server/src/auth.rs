//! Who asks. A handler with a [`Caller`] cannot be reached without one.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use weft_core::{ErrorKind, TenantId};

use crate::error::{ApiError, code};
use crate::state::ServerState;
use weft_app::app::DEFAULT_TENANT;
use weft_app::config::Auth;
use weft_app::tokens;

/// Tokens that are longer are not looked up.
const TOKEN_BYTES_MAX: usize = 1_024;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose data they see.
    pub tenant: TenantId,
    /// Who they are when a request does not say.
    pub user_id: String,
}

impl From<TenantId> for Caller {
    fn from(tenant: TenantId) -> Self {
        let user_id = tenant.to_string();
        Self { tenant, user_id }
    }
}

impl FromRequestParts<ServerState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ServerState) -> Result<Self, ApiError> {
        match state.auth {
            Auth::Off => {
                check_local(&parts.method, &parts.headers)?;
                Ok(TenantId::new(DEFAULT_TENANT).into())
            }
            Auth::On => {
                let token = token(&parts.headers).ok_or_else(ApiError::unauthorized)?;
                match state.app.tokens.find(&tokens::hash(token)).await {
                    Ok(stored) => {
                        note_use(state, &stored.hash).await;
                        Ok(stored.tenant.into())
                    }
                    Err(error) if error.kind == ErrorKind::NotFound => Err(ApiError::unauthorized()),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

/// Whoever looks after tokens wants to know which are used. Nobody is turned away because it cannot be noted.
async fn note_use(state: &ServerState, hash: &str) {
    let now_ms = state.app.clock.now_ms();
    if !state.app.token_uses.is_news(hash, now_ms) {
        return;
    }
    if let Err(error) = state.app.tokens.used(hash, now_ms).await {
        tracing::warn!(error = error.detail(), "the use of a token could not be noted");
    }
}

/// With and without the word `Bearer` before it.
fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let token = match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        Some(_) => return None,
        None => value,
    };
    (!token.is_empty() && token.len() <= TOKEN_BYTES_MAX).then_some(token)
}

/// What a server without tokens takes: requests of programs of this machine.
pub(crate) fn check_local(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    check_host(headers)?;
    check_page(method, headers)
}

/// Without tokens the server trusts every program of this machine, and no page in its browser: a
/// page whose name was made to point here still says its own name.
fn check_host(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let host = host.to_str().unwrap_or_default();
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _port)) => name,
        None => host.split(':').next().unwrap_or_default(),
    };
    let loopback = name
        .parse::<std::net::IpAddr>()
        .map_or(name.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback());
    if loopback {
        return Ok(());
    }
    let message = "without authentication the server answers to localhost, 127.0.0.1 and [::1] only";
    Err(ApiError::new(code::OPERATING, message))
}

/// Where a request comes from that a browser makes for a page, in words of the browser.
const FETCH_SITE: &str = "sec-fetch-site";

/// Any page may send a form to any address without asking, and the browser says which page it was. Without
/// tokens nothing else tells such a request from those of programs, which say nothing of the kind.
fn check_page(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    if method.is_safe() || is_own_page(headers) {
        return Ok(());
    }
    let message = "without authentication the server changes nothing for pages of other servers; turn authentication on";
    Err(ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN))
}

fn is_own_page(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(FETCH_SITE) {
        // `none`: the person did it, not a page.
        return matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let name = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    name.zip(host).is_some_and(|(name, host)| name.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn tokens_come_with_and_without_bearer() {
        let check = |value: &str, expected: Option<&str>| {
            assert_eq!(token(&headers(header::AUTHORIZATION, value)), expected, "{value}");
        };
        check("Bearer abc", Some("abc"));
        check("bearer  abc ", Some("abc"));
        check("abc", Some("abc"));
        check("Basic abc", None);
        check("Bearer ", Some("Bearer"));
        check("", None);
        check(&"a".repeat(TOKEN_BYTES_MAX + 1), None);
    }

    #[test]
    fn pages_of_other_names_are_refused() {
        let check = |host: &str, expected: bool| {
            assert_eq!(check_host(&headers(header::HOST, host)).is_ok(), expected, "{host}");
        };
        check("localhost:9380", true);
        check("127.0.0.1", true);
        check("[::1]:9380", true);
        check("evil.example:9380", false);
        check("127.0.0.1.evil.example", false);
    }

    #[test]
    fn pages_of_others_change_nothing() {
        let check = |pairs: &[(&'static str, &str)], expected: bool| {
            let headers = pairs
                .iter()
                .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap()));
            let headers = HeaderMap::from_iter(headers);
            assert_eq!(check_page(&Method::POST, &headers).is_ok(), expected, "{pairs:?}");
            assert!(check_page(&Method::GET, &headers).is_ok());
        };
        let host = ("host", "localhost:9380");
        check(&[host], true);
        check(&[host, ("origin", "http://localhost:9380")], true);
        check(&[host, ("origin", "http://LOCALHOST:9380"), ("sec-fetch-site", "same-origin")], true);
        check(&[host, ("sec-fetch-site", "none")], true);
        check(&[host, ("origin", "http://evil.example")], false);
        check(&[host, ("origin", "http://localhost:8000")], false);
        check(&[host, ("origin", "null")], false);
        check(&[("origin", "http://localhost:9380")], false);
        check(&[host, ("sec-fetch-site", "cross-site")], false);
        check(&[host, ("sec-fetch-site", "same-site"), ("origin", "http://localhost:9380")], false);
    }
}
