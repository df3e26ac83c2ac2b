//! Who asks. A handler with a [`Caller`] cannot be reached without one.

use std::fmt;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use weft_core::access::{MemberRole, Permission};
use weft_core::id::UserId;
use weft_core::seam::share_store::{ShareTarget, ShareToken};
use weft_core::seam::token_store::StoredToken;
use weft_core::{Error, ErrorKind, TenantId};

use crate::audit::asked;
use crate::error::{ApiError, code};
use crate::openapi::{Access, Shared};
use crate::state::ServerState;
use weft_app::accounts::share_user;
use weft_app::app::DEFAULT_TENANT;
use weft_app::config::Auth;
use weft_app::tokens::{self, LOGIN_PREFIX, SHARE_PREFIX};

/// Tokens that are longer are not looked up.
const TOKEN_BYTES_MAX: usize = 1_024;

/// Who asks, and what they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose data they see.
    pub tenant: TenantId,
    /// Who they are when a request does not say.
    pub user_id: String,
    /// What they may do there.
    pub role: MemberRole,
    /// How they have shown who they are.
    pub actor: Actor,
    /// The user, where it is one, or the one who has made the API key.
    pub user: Option<UserId>,
}

/// How a caller has shown who they are. As text it is what the audit log has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// By being on this machine.
    Local,
    /// By an API key with this id.
    Key(String),
    /// By a sign-in of this user; its hash.
    User(UserId, String),
    /// By a share token with this id, which opens nothing but its target.
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

/// Whoever has started the program may do everything in a tenant.
impl From<TenantId> for Caller {
    fn from(tenant: TenantId) -> Self {
        let user_id = tenant.to_string();
        Self { tenant, user_id, role: MemberRole::Owner, actor: Actor::Local, user: None }
    }
}

impl FromRequestParts<ServerState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ServerState) -> Result<Self, ApiError> {
        // Whoever adds a route says who may ask for it, or nobody may.
        let access = parts.extensions.get::<Access>().copied();
        let access = access.ok_or_else(|| ApiError::internal("a route does not say who may ask for it"))?;
        let caller = Self::identified(parts, state).await?;
        let Some(permission) = access.permission() else { return Ok(caller) };
        // Said before anything is refused, so that the audit log has refusals, too.
        asked(parts, &caller, permission);
        // A share token is worth what it was made for, whatever role stands beside it.
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

/// Whether a share token is for what the path of a request names.
async fn opens(target: &ShareTarget, shared: Shared, parts: &mut Parts) -> bool {
    let right_kind = match target {
        ShareTarget::Agent(_) => shared == Shared::Agent,
        ShareTarget::Chat(_) => shared == Shared::Chat,
        // Handlers look for what the path names among what the tenant has.
        ShareTarget::OfKey(_) => return true,
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
        // The store has nothing but hashes: whoever reads it finds no token that opens anything.
        let hash = tokens::hash(token);
        // The prefix tells in which table the hash is looked for.
        let known = if token.starts_with(LOGIN_PREFIX) {
            Self::of_login(state, &hash).await
        } else if token.starts_with(SHARE_PREFIX) {
            state.app.opened_by(&hash).await.map(Self::of_share)
        } else {
            Self::of_key(state, &hash).await
        };
        known.map_err(|error| match error.kind {
            // An unknown token, one that is over and one of a disabled user look the same to whoever shows
            // them.
            ErrorKind::NotFound => ApiError::unauthorized(),
            _ => error.into(),
        })
    }

    async fn of_key(state: &ServerState, hash: &str) -> weft_core::Result<Self> {
        let stored = state.app.tokens.find(hash).await?;
        let role = role_of(state, &stored).await?;
        // Noted after the role is known: a key that opens nothing any more was not used.
        note_use(state, Used::Key, &stored.hash).await;
        let actor = Actor::Key(stored.id().to_owned());
        let StoredToken { tenant, user, .. } = stored;
        let user_id = user.as_ref().map_or_else(|| tenant.to_string(), UserId::to_string);
        Ok(Self { tenant, user_id, role, actor, user })
    }

    async fn of_login(state: &ServerState, hash: &str) -> weft_core::Result<Self> {
        let (login, role) = state.app.accounts.stores.users.login(hash).await?;
        let over = || Error::not_found("the sign-in is over");
        if login.expires_ms <= state.app.clock.now_ms() {
            return Err(over());
        }
        // Somebody who has left the tenant is nobody there.
        let role = role.ok_or_else(over)?;
        note_use(state, Used::Login, &login.hash).await;
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
            user_id: share_user(&id),
            role: MemberRole::Viewer,
            actor: Actor::Share(id, share.target),
            user: None,
        }
    }

    /// Makes sure that they may do what needs a permission.
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

    /// Whether they have shown a share token.
    pub fn is_share(&self) -> bool {
        matches!(self.actor, Actor::Share(..))
    }

    fn share_refused(&self) -> ApiError {
        let opened = match &self.actor {
            Actor::Share(_, target) => weft_app::accounts::opened(target),
            _ => String::new(),
        };
        let message = format!("a share token opens nothing but what it was made for, here {opened}");
        ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN)
    }
}

/// Whoever looks after the server. Being an owner of some tenant is not enough: what operators read is of all tenants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator;

impl FromRequestParts<ServerState> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ServerState) -> Result<Self, ApiError> {
        let set = &state.app.accounts.config.metrics_token;
        // By their hashes: how long it takes to compare these tells nothing of the token.
        let is_set = |shown: &str| !set.is_empty() && tokens::hash(shown) == tokens::hash(set.reveal());
        if token(&parts.headers).is_some_and(is_set) {
            return Ok(Self);
        }
        let caller = Caller::from_request_parts(parts, state).await?;
        // Whoever has set the server up is an owner there; with a token of its own nobody else need read it.
        if set.is_empty() && caller.tenant.as_str() == DEFAULT_TENANT {
            return Ok(Self);
        }
        let message = if set.is_empty() {
            "this tells of all tenants: an owner of the tenant `default` may ask for it"
        } else {
            "this tells of all tenants: it needs the token that is set as accounts.metrics_token"
        };
        Err(ApiError::new(code::OPERATING, message).with_status(StatusCode::FORBIDDEN))
    }
}

/// What an API key is worth now: no more than what whoever has made it may do.
async fn role_of(state: &ServerState, stored: &StoredToken) -> weft_core::Result<MemberRole> {
    let Some(user) = &stored.user else { return Ok(stored.role) };
    let stores = &state.app.accounts.stores;
    if !stores.users.user(user).await?.enabled {
        return Err(Error::not_found("whoever has made the key is disabled"));
    }
    let membership = stores.tenants.membership(&stored.tenant, user).await?;
    Ok(membership.role.min(stored.role))
}

/// What was shown.
#[derive(Clone, Copy, Debug)]
enum Used {
    Key,
    Login,
}

/// Whoever looks after tokens wants to know which are used. Nobody is turned away because it cannot be noted.
async fn note_use(state: &ServerState, what: Used, hash: &str) {
    let now_ms = state.app.clock.now_ms();
    // One write in a while is enough to know that a token is in use.
    if !state.app.token_uses.is_news(hash, now_ms) {
        return;
    }
    let noted = match what {
        Used::Key => state.app.tokens.used(hash, now_ms).await,
        Used::Login => state.app.accounts.stores.users.login_used(hash, now_ms).await,
    };
    if let Err(error) = noted {
        tracing::warn!(error = error.detail(), "the use of a token could not be noted");
    }
}

/// With and without the word `Bearer` before it.
fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let token = match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        // Another scheme, such as `Basic`, brings no token of ours.
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
    // Browsers always name the host, so whoever names none is a program.
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
    // A browser that knows no `sec-fetch-site` sends an origin with what changes something; programs send
    // neither.
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
