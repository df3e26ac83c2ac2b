//! API tokens: created here, shown once, stored as hashes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use weft_core::access::MemberRole;
use weft_core::error::found;
use weft_core::id::UserId;
use weft_core::seam::TokenStore;
use weft_core::seam::token_store::{StoredToken, TokenFilter, hash_id};
use weft_core::{Error, Result, TenantId, hex};
use weft_models::Secret;

use crate::app::{App, DEFAULT_TENANT};

/// Prefix of every API key, so that people and scanners recognize one.
const PREFIX: &str = "weft-";
/// Prefix of the tokens of sign-ins.
pub const LOGIN_PREFIX: &str = "weftlogin-";
/// Prefix of share tokens.
pub const SHARE_PREFIX: &str = "weftshare-";
/// Prefix of the secrets of invitations.
pub const INVITATION_PREFIX: &str = "weftinvite-";

// As many as in keys of the compatible API.
/// Number of random bytes in a token.
const RANDOM_BYTES: usize = 32;
// With the prefix of a share token this gives 32 characters, the length that clients expect.
/// Number of random bytes in a short token.
const SHORT_BYTES: usize = 16;

/// Minimum number of characters after the prefix of a token: [`SHORT_BYTES`] take 22.
const RANDOM_CHARS_MIN: usize = 20;

/// Returns a token in the form for logs: its prefix, and its id as lists show it; `None` for any other text.
pub fn masked(text: &str) -> Option<String> {
    let prefixes = [PREFIX, LOGIN_PREFIX, SHARE_PREFIX, INVITATION_PREFIX];
    let (prefix, rest) =
        prefixes.into_iter().find_map(|prefix| Some((prefix, text.strip_prefix(prefix)?)))?;
    let is_plain = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let is_token = rest.len() >= RANDOM_CHARS_MIN && is_plain;
    is_token.then(|| format!("{prefix}***{}", hash_id(&hash(text))))
}

/// A new token. It cannot be read again later.
#[derive(Debug)]
pub struct NewToken {
    secret: Secret,
    /// The part that is stored.
    pub stored: StoredToken,
}

impl NewToken {
    /// Returns the token, for the one place that shows it.
    pub fn reveal(&self) -> &str {
        self.secret.reveal()
    }
}

impl App {
    /// Creates the first token of a new store; `None` if there is a token or a user already.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn first_token(&self) -> Result<Option<NewToken>> {
        let users = self.accounts.stores.users.users("", 1).await?;
        if self.tokens.count().await? > 0 || !users.is_empty() {
            return Ok(None);
        }
        let tenant = TenantId::new(DEFAULT_TENANT);
        self.create_key(&tenant, NewKey::owners("first start")).await.map(Some)
    }

    /// Creates an API key for a tenant.
    ///
    /// # Errors
    /// As [`create`].
    pub async fn create_key(&self, tenant: &TenantId, key: NewKey<'_>) -> Result<NewToken> {
        self.ensure_tenant(tenant).await?;
        create_with(&*self.tokens, tenant, key, self.clock.now_ms()).await
    }
}

/// Properties of a new API key.
#[derive(Clone, Debug)]
pub struct NewKey<'a> {
    /// Its name.
    pub name: &'a str,
    /// The highest role that it grants.
    pub role: MemberRole,
    /// The user who owns it.
    pub user: Option<UserId>,
}

impl<'a> NewKey<'a> {
    /// Returns a key with all permissions that belongs to no user.
    pub fn owners(name: &'a str) -> Self {
        Self { name, role: MemberRole::Owner, user: None }
    }
}

/// Returns a random token with this prefix.
///
/// # Errors
/// When the system provides no random numbers.
pub(crate) fn random(prefix: &str) -> Result<Secret> {
    random_of::<RANDOM_BYTES>(prefix)
}

/// Returns a token of 32 characters, which is still unguessable.
///
/// # Errors
/// As [`random`].
pub(crate) fn random_short(prefix: &str) -> Result<Secret> {
    random_of::<SHORT_BYTES>(prefix)
}

fn random_of<const N: usize>(prefix: &str) -> Result<Secret> {
    let mut random = [0_u8; N];
    getrandom::fill(&mut random).map_err(|cause| Error::internal("cannot make a token").because(cause))?;
    Ok(Secret::new(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random))))
}

/// Creates a token with all permissions, and stores its hash.
///
/// # Errors
/// When the system provides no random numbers, or the store cannot be written.
pub async fn create(
    store: &dyn TokenStore,
    tenant: &TenantId,
    name: &str,
    created_ms: i64,
) -> Result<NewToken> {
    create_with(store, tenant, NewKey::owners(name), created_ms).await
}

async fn create_with(
    store: &dyn TokenStore,
    tenant: &TenantId,
    key: NewKey<'_>,
    created_ms: i64,
) -> Result<NewToken> {
    let secret = random(PREFIX)?;
    let stored = StoredToken {
        tenant: tenant.clone(),
        hash: hash(secret.reveal()),
        name: checked_name(key.name)?,
        role: key.role,
        user: key.user,
        created_ms,
        last_used_ms: None,
    };
    store.add(&stored).await?;
    Ok(NewToken { secret, stored })
}

/// Maximum length of a token's name, in characters.
const NAME_CHARS_MAX: usize = 100;

/// Checks a name, which must fit on a line of a list.
pub(crate) fn checked_name(name: &str) -> Result<String> {
    let name = name.trim();
    if name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control) {
        let message = "the name of a token must be one line";
        return Err(Error::invalid(message).help(format!("at most {NAME_CHARS_MAX} characters")));
    }
    Ok(name.to_owned())
}

/// Maximum number of tokens in a list.
pub const LISTED_MAX: u64 = 10_000;

/// Finds a token of a tenant: by the token itself, its id, or a name that is unique. With `user`, only among the
/// tokens of that user.
///
/// # Errors
/// `NotFound`; `Invalid` when several have the name.
pub async fn named(
    store: &dyn TokenStore,
    tenant: &TenantId,
    user: Option<&UserId>,
    name: &str,
) -> Result<StoredToken> {
    // An exact match takes precedence over other tokens with that name.
    let exact = found(store.find(&hash(name)).await)?;
    let is_meant = |token: &StoredToken| {
        token.tenant == *tenant && user.is_none_or(|user| token.user.as_ref() == Some(user))
    };
    if let Some(token) = exact.filter(is_meant) {
        return Ok(token);
    }
    let (tenant, user, called) = (Some(tenant.clone()), user.cloned(), Some(name.to_owned()));
    let named = TokenFilter { tenant, user, name: called, limit: LISTED_MAX, ..TokenFilter::default() };
    let mut called = store.list(&named).await?;
    if let Some(at) = called.iter().position(|token| token.id() == name) {
        return Ok(called.swap_remove(at));
    }
    match called.len() {
        0 => Err(Error::not_found("there is no such token").help("`weft token list` shows which there are")),
        1 => Ok(called.swap_remove(0)),
        count => Err(Error::invalid(format!("{count} tokens have the name `{name}`"))
            .help("say which by its id; `weft token list` shows them")),
    }
}

/// Finds a token in all tenants by the token itself or its id, and among the tokens of `tenant` by a name that is unique
/// there: another tenant may have the name, too.
///
/// # Errors
/// As [`named`]; the remedy says if another tenant has a token of this name.
pub async fn named_anywhere(store: &dyn TokenStore, tenant: &TenantId, name: &str) -> Result<StoredToken> {
    if let Some(token) = found(store.find(&hash(name)).await)? {
        return Ok(token);
    }
    let called = Some(name.to_owned());
    let filter = TokenFilter { name: called, limit: LISTED_MAX, ..TokenFilter::default() };
    let mut called = store.list(&filter).await?;
    if let Some(at) = called.iter().position(|token| token.id() == name) {
        return Ok(called.swap_remove(at));
    }
    if !called.is_empty() && called.iter().all(|token| token.tenant != *tenant) {
        let message = format!("there is no such token in the tenant `{tenant}`");
        let help =
            "another tenant has one of this name: say which by its id, or name the tenant with --tenant";
        return Err(Error::not_found(message).help(help));
    }
    named(store, tenant, None, name).await
}

/// How long a recorded use covers further ones, in milliseconds: recording each would mean a write per request.
const USE_NOTED_EVERY_MS: i64 = 60_000;

/// Number of tokens whose last recorded use is cached.
const USES_KNOWN_MAX: usize = 4_096;

/// Uses of tokens that this process has recorded.
#[derive(Debug, Default)]
pub struct Uses(Mutex<HashMap<String, i64>>);

impl Uses {
    /// Returns whether this use should be recorded.
    pub fn is_news(&self, hash: &str, now_ms: i64) -> bool {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get(hash).is_some_and(|at| now_ms.saturating_sub(*at) < USE_NOTED_EVERY_MS) {
            return false;
        }
        // Clearing the cache costs one additional write per token.
        if noted.len() >= USES_KNOWN_MAX {
            noted.clear();
        }
        noted.insert(hash.to_owned(), now_ms);
        true
    }
}

/// Returns the SHA-256 in lower-case hex. Tokens are looked up by it, so the duration of the look-up reveals nothing
/// about how much of a guess was right.
pub fn hash(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testkit::memory_store::MemoryStore;

    #[tokio::test]
    async fn a_token_is_random_and_only_its_hash_is_stored() {
        let store = MemoryStore::new();
        let tenant = TenantId::new("t");
        let a = create(&store, &tenant, "first", 7).await.unwrap();
        let b = create(&store, &tenant, "second", 7).await.unwrap();
        assert!(a.reveal().starts_with("weft-") && a.reveal().len() == 48, "{}", a.reveal());
        assert_ne!(a.reveal(), b.reveal());
        assert!(!format!("{a:?}").contains(a.reveal()));
        let stored = store.find(&hash(a.reveal())).await.unwrap();
        assert_eq!((stored.tenant, stored.name.as_str()), (tenant.clone(), "first"));
        assert_eq!((stored.role, stored.user), (MemberRole::Owner, None));
        assert!(store.find(a.reveal()).await.is_err());
        for name in ["two\nlines", &"x".repeat(101)] {
            assert!(create(&store, &tenant, name, 7).await.is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn a_token_is_found_by_value_id_or_name() {
        let (store, tenant) = (MemoryStore::new(), TenantId::new("t"));
        let mut made = Vec::new();
        for name in ["ci", "twice", "twice"] {
            made.push(create(&store, &tenant, name, 7).await.unwrap());
        }
        let of = async |name: &str| named(&store, &tenant, None, name).await.map(|token| token.hash);
        assert_eq!(of("ci").await.unwrap(), made[0].stored.hash);
        assert_eq!(of(made[1].stored.id()).await.unwrap(), made[1].stored.hash);
        assert_eq!(of(made[2].reveal()).await.unwrap(), made[2].stored.hash);
        assert!(of("twice").await.unwrap_err().full().contains("2 tokens"));
        assert_eq!(of("none").await.unwrap_err().kind, weft_core::ErrorKind::NotFound);
        assert!(named(&store, &TenantId::new("other"), None, "ci").await.is_err());
    }

    #[tokio::test]
    async fn an_id_is_found_in_all_tenants_and_a_name_in_one() {
        let store = MemoryStore::new();
        let (ours, theirs) = (TenantId::new("ours"), TenantId::new("theirs"));
        let own = create(&store, &ours, "ci", 7).await.unwrap();
        let other = create(&store, &theirs, "ci", 7).await.unwrap();
        create(&store, &theirs, "cd", 7).await.unwrap();
        let of = async |name: &str| named_anywhere(&store, &ours, name).await.map(|token| token.hash);
        assert_eq!(of("ci").await.unwrap(), own.stored.hash);
        assert_eq!(of(other.stored.id()).await.unwrap(), other.stored.hash);
        assert_eq!(of(other.reveal()).await.unwrap(), other.stored.hash);
        let refused = of("cd").await.unwrap_err().full();
        assert!(refused.contains("in the tenant `ours`") && refused.contains("--tenant"), "{refused}");
        assert!(of("none").await.unwrap_err().full().contains("weft token list"));
    }

    #[test]
    fn a_token_is_shown_in_logs_by_its_id() {
        for prefix in [PREFIX, LOGIN_PREFIX, SHARE_PREFIX, INVITATION_PREFIX] {
            for secret in [random(prefix).unwrap(), random_short(prefix).unwrap()] {
                let shown = masked(secret.reveal()).unwrap();
                assert_eq!(shown, format!("{prefix}***{}", hash_id(&hash(secret.reveal()))));
            }
        }
        for text in ["", "weft-", "weft-tour", "ci", "weft-an agent with a long name and spaces"] {
            assert_eq!(masked(text), None, "{text}");
        }
    }

    #[test]
    fn a_use_is_recorded_at_most_once_a_minute() {
        let uses = Uses::default();
        assert!(uses.is_news("a", 1_000) && uses.is_news("b", 1_000));
        assert!(!uses.is_news("a", 60_999) && uses.is_news("a", 61_000));
    }
}
