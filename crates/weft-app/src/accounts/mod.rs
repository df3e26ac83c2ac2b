//! Users, tenants and access rights.

mod address;
mod audit;
mod members;
pub mod oidc;
pub mod password;
mod personal;
mod refusals;
mod shares;
mod sign_in;
mod tenancy;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weft_core::access::MemberRole;
use weft_core::counts::Counts;
use weft_core::id::UserId;
use weft_core::seam::share_store::ShareTarget;
use weft_core::seam::tenant_store::Tenant;
use weft_core::seam::user_store::{User, UserChange};
use weft_core::seam::{AuditStore, IdentityStore, ShareStore, TenantStore, UserStore};
use weft_core::webhook::Rate;
use weft_core::{Error, Result, TenantId};
use weft_net::StreamingHttp;

pub use self::audit::{Audited, CLI, REFUSED, is_noted};
pub use self::members::Invited;
pub use self::refusals::{Refusals, SignInResult};
pub use self::sign_in::{PasswordChange, SignInRefusal, SignedIn};
pub use self::tenancy::Erasure;

use self::oidc::Providers;
use self::password::Passwords;
use crate::app::{App, DEFAULT_TENANT};
use crate::config::AccountsConfig;
use crate::rates::Rates;

/// Maximum number of members, invitations or sign-ins in one list.
pub const LISTED_MAX: u64 = 10_000;
/// Maximum length of a nickname, in characters.
const NICKNAME_CHARS_MAX: usize = 100;
/// Number of tenants read in one batch when all are enumerated.
const TENANTS_AT_ONCE: u64 = 500;

/// The stores that hold users, tenants and their rights.
#[derive(Clone)]
pub struct AccountStores {
    /// Users and their sign-ins.
    pub users: Arc<dyn UserStore>,
    /// Their identities at OpenID providers.
    pub identities: Arc<dyn IdentityStore>,
    /// Tenants, members and invitations.
    pub tenants: Arc<dyn TenantStore>,
    /// Share tokens.
    pub shares: Arc<dyn ShareStore>,
    /// The audit log.
    pub audit: Arc<dyn AuditStore>,
}

/// Accounts, with their rate limits. Cheap to clone.
#[derive(Clone)]
pub struct Accounts {
    /// The stores.
    pub stores: AccountStores,
    /// The settings.
    pub config: Arc<AccountsConfig>,
    pub(crate) limits: Arc<AttemptLimits>,
    providers: Arc<Providers>,
    erasure: Arc<Erasure>,
}

/// Rate limits of attempts, in this process.
#[derive(Debug, Default)]
pub(crate) struct AttemptLimits {
    passwords: Passwords,
    /// Attempts with a password.
    attempts: Rates<Attempts>,
    /// Refused ones that were reported.
    refusals: Rates<Attempts>,
    /// Sign-ins by outcome.
    sign_ins: Counts<SignInResult>,
    /// Calls with share tokens, by hash.
    pub(crate) shares: Rates<String>,
}

/// What attempts with a password are counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Attempts {
    /// An account and one network address: guesses of a password.
    Account(String, String),
    /// A network address: guesses across accounts.
    Address(String),
    /// An account from all addresses: distributed guesses of a password. The limit is much higher, because it also
    /// locks out the owner.
    Everywhere(String),
    /// A network address: sign-ins at providers that are started and never finished.
    Begun(String),
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Accounts {
    /// Creates the accounts of these stores.
    pub fn new(stores: AccountStores, config: AccountsConfig) -> Self {
        let erasure: Arc<Erasure> = Arc::new(|_| Box::pin(async { Ok(()) }));
        let (config, providers) = (Arc::new(config), Arc::default());
        Self { stores, config, limits: Arc::default(), providers, erasure }
    }

    /// Adds the providers from the settings, which are reached through `http`.
    #[must_use]
    pub fn with_providers(mut self, http: &Arc<dyn StreamingHttp>) -> Self {
        self.providers = Arc::new(Providers::new(&self.config, http));
        self
    }

    /// Returns the rate of an attempt with this limit.
    fn rate(limit: u32) -> Rate {
        /// Period of the limit.
        const WINDOW: Duration = Duration::from_secs(15 * 60);
        Rate { limit, per: WINDOW }
    }
}

/// Data of a new user.
#[derive(Clone, Copy, Debug)]
pub struct NewUser<'a> {
    /// Email address for signing in.
    pub email: &'a str,
    /// Name that others see; defaults to the part before the `@`.
    pub nickname: &'a str,
    /// Without a password the user can only sign in after one was set.
    pub password: Option<&'a weft_core::Secret>,
}

impl App {
    /// Creates a tenant with this id unless it exists.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn ensure_tenant(&self, id: &TenantId) -> Result<()> {
        let tenant = Tenant { id: id.clone(), name: id.to_string(), created_ms: self.clock.now_ms() };
        self.accounts.stores.tenants.add_tenant(&tenant).await
    }

    /// Returns the ids of all tenants.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn all_tenants(&self) -> Result<Vec<TenantId>> {
        let mut all: Vec<TenantId> = Vec::new();
        loop {
            // Pages continue from the last id, so that new tenants shift nothing.
            let page = self.accounts.stores.tenants.tenants(all.last(), TENANTS_AT_ONCE).await?;
            let last = (page.len() as u64) < TENANTS_AT_ONCE;
            all.extend(page.into_iter().map(|tenant| tenant.id));
            if last {
                break;
            }
        }
        // It may have been used although it was never stored.
        let default = TenantId::new(DEFAULT_TENANT);
        if !all.contains(&default) {
            all.push(default);
        }
        Ok(all)
    }

    /// Finds a user by their email address or id.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn find_user(&self, name: &str) -> Result<User> {
        let users = &self.accounts.stores.users;
        // Every address contains an `@`, and no id does.
        if name.contains('@') {
            users.user_by_email(name).await
        } else {
            users.user(&UserId::from(name)).await
        }
    }

    /// Creates a user who is a member of a tenant with a role. Without a password they can only sign in after one was
    /// set.
    ///
    /// # Errors
    /// `Invalid` for an address, a name or a password that is not valid; `Conflict` when the address is taken.
    pub async fn create_user(&self, user: NewUser<'_>, tenant: &TenantId, role: MemberRole) -> Result<User> {
        let user = self.new_user(user).await?;
        self.ensure_tenant(tenant).await?;
        let membership = weft_core::seam::tenant_store::Membership {
            tenant: tenant.clone(),
            user: user.id.clone(),
            role,
            created_ms: user.created_ms,
        };
        // In one step with the membership: a user who belongs to no tenant could not sign in.
        self.accounts.stores.users.add_user(&user, &[membership]).await?;
        Ok(user)
    }

    /// Returns a user that is not stored yet.
    async fn new_user(&self, NewUser { email, nickname, password }: NewUser<'_>) -> Result<User> {
        let email = address::check(email)?;
        let nickname = checked_nickname(nickname)?;
        let nickname = if nickname.is_empty() {
            email.split('@').next().unwrap_or_default().to_owned()
        } else {
            nickname
        };
        let password_hash = match password {
            Some(password) => self.accounts.limits.passwords.hash(password).await?,
            // An empty hash matches no password.
            None => String::new(),
        };
        Ok(User {
            id: UserId::generate(),
            email,
            nickname,
            password_hash,
            enabled: true,
            created_ms: self.clock.now_ms(),
            signed_in_ms: None,
        })
    }

    /// Renames a user.
    ///
    /// # Errors
    /// `Invalid` for a name that is not a single line; `NotFound`.
    pub async fn rename_user(&self, id: &UserId, nickname: &str) -> Result<User> {
        let user = self.accounts.stores.users.user(id).await?;
        let nickname = new_nickname(nickname)?;
        let change = UserChange { nickname: Some(nickname.clone()), ..UserChange::default() };
        self.accounts.stores.users.change_user(id, &change).await?;
        Ok(User { nickname, ..user })
    }
}

/// Checks the new name of a user.
///
/// # Errors
/// `Invalid` for a name that is empty or not a single line.
pub fn new_nickname(name: &str) -> Result<String> {
    let name = checked_nickname(name)?;
    if name.is_empty() { Err(Error::invalid("the name of a user must not be empty")) } else { Ok(name) }
}

/// Checks a name, which must fit on a line of a list.
fn checked_nickname(name: &str) -> Result<String> {
    let name = name.trim();
    if name.chars().count() > NICKNAME_CHARS_MAX || name.chars().any(char::is_control) {
        let error = Error::invalid("the name of a user must be one line");
        return Err(error.help(format!("at most {NICKNAME_CHARS_MAX} characters")));
    }
    Ok(name.to_owned())
}

/// Describes what a share token gives access to.
pub fn opened(target: &ShareTarget) -> String {
    match target {
        ShareTarget::Agent(id) | ShareTarget::Chat(id) => format!("{} {id}", target.kind()),
        ShareTarget::OfKey(_) => "pages of agents and chat assistants".to_owned(),
    }
}
