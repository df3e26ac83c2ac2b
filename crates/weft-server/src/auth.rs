//! Authentication and authorization. A handler that takes a [`Caller`] can only be reached by an authorized one.

use std::fmt;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use weft_core::access::{MemberRole, Permission};
use weft_core::id::UserId;
use weft_core::seam::share_store::{ShareTarget, ShareToken, visitor};
use weft_core::seam::token_store::StoredToken;
use weft_core::{Error, ErrorKind, TenantId};

use crate::audit::asked;
use crate::error::{ApiError, code};
use crate::openapi::{Access, Shared};
use crate::state::ServerState;
use crate::upload_memory;
use weft_app::app::DEFAULT_TENANT;
use weft_app::config::Auth;
use weft_app::tokens::{self, LOGIN_PREFIX, SHARE_PREFIX};

/// Maximum length of a token that is looked up, in bytes.
// Valid tokens are far shorter, so longer ones need not be hashed.
const TOKEN_BYTES_MAX: usize = 1_024;

/// The authenticated caller, and what it may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The tenant whose data it sees.
    pub tenant: TenantId,
    /// The user id that applies when a request does not name one.
    pub user_id: String,
    /// Its role in that tenant.
    pub role: MemberRole,
    /// How it was authenticated.
    pub actor: Actor,
    /// The user: the caller itself, or the creator of the API key.
    pub user: Option<UserId>,
}

/// How a caller was authenticated. Its text form is written to the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// As a program on this machine.
    Local,
    /// With the API key that has this id.
    Key(String),
    /// With a sign-in of this user, by its hash.
    User(UserId, String),
    /// With the share token that has this id, which gives access to its target only.
    Share(String, ShareTarget),
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Key(id) => write!(f, "key:{id}"),
            Self::User(id, _) => write!(f, "user:{id}"),
            Self::Share(id, _) => write!(f, "share:{id}"),
        }
    }
}

/// The user who started the program may do everything in a tenant.
impl From<TenantId> for Caller {
    fn from(tenant: TenantId) -> Self {
        let user_id = tenant.to_string();
        Self { tenant, user_id, role: MemberRole::Owner, actor: Actor::Local, user: None }
    }
}

impl FromRequestParts<ServerState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ServerState) -> Result<Self, ApiError> {
        // A route that does not declare its access is closed to everyone.
        let access = parts.extensions.get::<Access>().copied();
        let access = access.ok_or_else(|| ApiError::internal("a route does not say who may ask for it"))?;
        let caller = Self::identified(parts, state).await?;
        upload_memory::belongs_to(&parts.extensions, &caller.tenant);
        let Some(permission) = access.permission() else { return Ok(caller) };
        // Recorded before any refusal, so that the audit log contains refusals, too.
        asked(parts, &caller, permission);
        // A share token grants only access to its target, whatever its role.
        match (&caller.actor, access) {
            (Actor::Share(_, target), Access::Shared(_, shared)) => {
                if !opens(target, shared, parts).await {
                    return Err(caller.share_refused());
                }
            }
            (Actor::Share(..), _) => return Err(caller.share_refused()),
            _ => caller.check(permission)?,
        }
        Ok(caller)
    }
}

/// Returns whether a share token is for what the path of a request names.
async fn opens(target: &ShareTarget, shared: Shared, parts: &mut Parts) -> bool {
    let right_kind = match (target, shared) {
        // Handlers look up what the path names within the tenant.
        (ShareTarget::OfKey(_), _) | (_, Shared::File) => return true,
        (ShareTarget::Agent(_), _) => shared == Shared::Agent,
        (ShareTarget::Chat(_), _) => shared == Shared::Chat,
    };
    let Ok(path) = RawPathParams::from_request_parts(parts, &()).await else { return false };
    right_kind && path.iter().any(|(name, value)| name == "id" && value == target.id().as_str())
}

impl Caller {
    async fn identified(parts: &Parts, state: &ServerState) -> Result<Self, ApiError> {
        if state.auth == Auth::Off {
            check_local(&parts.method, &parts.headers)?;
            return Ok(TenantId::new(DEFAULT_TENANT).into());
        }
        let token = token(&parts.headers).ok_or_else(ApiError::unauthorized)?;
        // The store holds only hashes, so that reading it reveals no usable token.
        let hash = tokens::hash(token);
        // The prefix determines the table in which to look up the hash.
        let known = if token.starts_with(LOGIN_PREFIX) {
            Self::of_login(state, &hash).await
        } else if token.starts_with(SHARE_PREFIX) {
            state.app.opened_by(&hash).await.map(Self::of_share)
        } else {
            Self::of_key(state, &hash).await
        };
        known.map_err(|error| match error.kind {
            // An unknown token, an expired one and one of a disabled user are indistinguishable to the client.
            ErrorKind::NotFound => ApiError::unauthorized(),
            _ => error.into(),
        })
    }

    async fn of_key(state: &ServerState, hash: &str) -> weft_core::Result<Self> {
        let stored = state.app.tokens.find(hash).await?;
        let role = role_of(state, &stored).await?;
        // Recorded after the role is known: a key that grants nothing any more was not used.
        note_use(state, TokenKind::Key, &stored.hash).await;
        let actor = Actor::Key(stored.id().to_owned());
        let StoredToken { tenant, user, .. } = stored;
        let user_id = user.as_ref().map_or_else(|| tenant.to_string(), UserId::to_string);
        Ok(Self { tenant, user_id, role, actor, user })
    }

    async fn of_login(state: &ServerState, hash: &str) -> weft_core::Result<Self> {
        let (login, role) = state.app.accounts.stores.users.login(hash).await?;
        let over = || Error::not_found("the sign-in has ended");
        if login.expires_ms <= state.app.clock.now_ms() {
            return Err(over());
        }
        // A user who has left the tenant has no role there.
        let role = role.ok_or_else(over)?;
        note_use(state, TokenKind::Login, &login.hash).await;
        Ok(Self {
            tenant: login.tenant,
            user_id: login.user.to_string(),
            role,
            actor: Actor::User(login.user.clone(), login.hash),
            user: Some(login.user),
        })
    }

    fn of_share(share: ShareToken) -> Self {
        let id = share.id().to_owned();
        Self {
            tenant: share.tenant,
            user_id: visitor(&id).to_string(),
            role: MemberRole::Viewer,
            actor: Actor::Share(id, share.target),
            user: None,
        }
    }

    /// Checks that the caller has a permission.
    ///
    /// # Errors
    /// 103 with HTTP status 403.
    pub fn check(&self, permission: Permission) -> Result<(), ApiError> {
        if self.role.may(permission) {
            return Ok(());
        }
        let message =
            format!("this needs the role `{}`; yours is `{}` here", permission.least_role(), self.role);
        Err(ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN))
    }

    /// Returns whether the caller has a share token.
    pub fn is_share(&self) -> bool {
        matches!(self.actor, Actor::Share(..))
    }

    /// Returns the owner of what the caller uploads: its user or, with a share token, the id that stands for the token.
    pub(crate) fn file_owner(&self) -> Option<UserId> {
        match &self.actor {
            Actor::Share(id, _) => Some(visitor(id)),
            _ => self.user.clone(),
        }
    }

    fn share_refused(&self) -> ApiError {
        let opened = match &self.actor {
            Actor::Share(_, target) => weft_app::accounts::opened(target),
            _ => String::new(),
        };
        let message = format!("a share token opens only what it was created for, here {opened}");
        ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN)
    }
}

/// An operator of the server. Being an owner of a tenant is not enough: what operators read covers all tenants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator;

impl FromRequestParts<ServerState> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ServerState) -> Result<Self, ApiError> {
        let set = &state.app.accounts.config.metrics_token;
        // Compares hashes, because the time of that comparison reveals nothing about the token.
        let is_set = |shown: &str| !set.is_empty() && tokens::hash(shown) == tokens::hash(set.reveal());
        if token(&parts.headers).is_some_and(is_set) {
            return Ok(Self);
        }
        let caller = Caller::from_request_parts(parts, state).await?;
        // The owners of the default tenant have set up the server. If an operator token is set, it is required
        // instead.
        if set.is_empty() && caller.tenant.as_str() == DEFAULT_TENANT {
            return Ok(Self);
        }
        let message = if set.is_empty() {
            "this covers all tenants: only owners of the tenant `default` may request it"
        } else {
            "this covers all tenants: it needs the token set as accounts.metrics_token"
        };
        Err(ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN))
    }
}

/// The current role of an API key: never more than that of the user who created it.
async fn role_of(state: &ServerState, stored: &StoredToken) -> weft_core::Result<MemberRole> {
    let Some(user) = &stored.user else { return Ok(stored.role) };
    let stores = &state.app.accounts.stores;
    if !stores.users.user(user).await?.enabled {
        return Err(Error::not_found("the user who created the key is disabled"));
    }
    // `NotFound` for a user who has left the tenant: their keys grant nothing there any more.
    let membership = stores.tenants.membership(&stored.tenant, user).await?;
    Ok(membership.role.min(stored.role))
}

/// The kind of token that was used.
#[derive(Clone, Copy, Debug)]
enum TokenKind {
    Key,
    Login,
}

/// Records the use of a token, so that administrators see which are in use. A failure to record it does not fail the
/// request.
async fn note_use(state: &ServerState, what: TokenKind, hash: &str) {
    let now_ms = state.app.clock.now_ms();
    // One write per interval is enough to show that a token is in use.
    if !state.app.token_uses.is_news(hash, now_ms) {
        return;
    }
    let noted = match what {
        TokenKind::Key => state.app.tokens.used(hash, now_ms).await,
        TokenKind::Login => state.app.accounts.stores.users.login_used(hash, now_ms).await,
    };
    if let Err(error) = noted {
        tracing::warn!(error = error.detail(), "the use of a token could not be recorded");
    }
}

/// Returns the token of the `Authorization` header, with or without the scheme `Bearer`.
fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let token = match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        // Another scheme, such as `Basic`, does not carry such a token.
        Some(_) => return None,
        None => value,
    };
    (!token.is_empty() && token.len() <= TOKEN_BYTES_MAX).then_some(token)
}

/// Checks that a request to a server without tokens comes from a program on this machine.
fn check_local(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    check_host(headers)?;
    check_page(method, headers)
}

/// Without tokens the server trusts every program on this machine, but no page in its browser. A page whose name was
/// made to resolve to this machine (DNS rebinding) still sends its own name.
fn check_host(headers: &HeaderMap) -> Result<(), ApiError> {
    // Browsers always send the host, so a client without one is a program.
    let mut hosts = headers.get_all(header::HOST).iter();
    let Some(host) = hosts.next() else { return Ok(()) };
    // Only one of them is checked, and something in between may go by another one (RFC 9112 §3.2).
    if hosts.next().is_some() {
        let message = "the request has more than one `Host` header: send a single one";
        return Err(ApiError::new(code::ARGUMENT, message).with_status(StatusCode::BAD_REQUEST));
    }
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
    let message = "without authentication the server accepts only the hosts localhost, 127.0.0.1 and [::1]";
    Err(ApiError::new(code::OPERATING, message))
}

/// Header in which a browser states the origin of a request that a page makes.
const FETCH_SITE: &str = "sec-fetch-site";

/// Any page may submit a form to any address without a preflight request, and the browser states the origin of the
/// page. Without tokens this is the only difference from requests of programs, which do not send these headers.
fn check_page(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    if method.is_safe() { Ok(()) } else { check_own_page(headers) }
}

/// Checks the page behind a request that changes something whatever its method, such as a webhook called with `GET`:
/// any page can make a browser send that, too, for example as the address of a picture.
pub(crate) fn check_change(auth: Auth, headers: &HeaderMap) -> Result<(), ApiError> {
    match auth {
        // A page of another origin has no token.
        Auth::On => Ok(()),
        Auth::Off => {
            check_host(headers)?;
            check_own_page(headers)
        }
    }
}

fn check_own_page(headers: &HeaderMap) -> Result<(), ApiError> {
    if is_own_page(headers) {
        return Ok(());
    }
    let message =
        "without authentication the server accepts no changes from pages of other origins; turn it on";
    Err(ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN))
}

fn is_own_page(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(FETCH_SITE) {
        // `none`: initiated by the user, not by a page.
        return matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    // A browser without `sec-fetch-site` sends an origin with requests that change something; programs send neither.
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let name = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    name.zip(host).is_some_and(|(name, host)| name.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn tokens_are_accepted_with_and_without_bearer() {
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
    fn requests_for_other_host_names_are_refused() {
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
    fn two_hosts_are_a_bad_request() {
        for second in ["evil.example", "localhost"] {
            let mut two = headers(header::HOST, "localhost");
            two.append(header::HOST, second.parse().unwrap());
            let refused = check_host(&two).unwrap_err().into_response();
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{second}");
        }
    }

    #[test]
    fn changes_from_other_origins_are_refused() {
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
