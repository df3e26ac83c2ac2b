//! Who asks. A handler with a [`Caller`] cannot be reached without one.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use weft_core::{ErrorKind, TenantId};

use crate::app::DEFAULT_TENANT;
use crate::config::Auth;
use crate::error::{ApiError, code};
use crate::state::ServerState;
use crate::tokens;

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
                check_host(&parts.headers)?;
                Ok(TenantId::new(DEFAULT_TENANT).into())
            }
            Auth::On => {
                let token = token(&parts.headers).ok_or_else(ApiError::unauthorized)?;
                match state.app.tokens.find(&tokens::hash(token)).await {
                    Ok(stored) => Ok(stored.tenant.into()),
                    Err(error) if error.kind == ErrorKind::NotFound => Err(ApiError::unauthorized()),
                    Err(error) => Err(error.into()),
                }
            }
        }
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
}
