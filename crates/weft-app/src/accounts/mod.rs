//! Users, tenants and who may do what there.

mod address;
mod audit;
mod members;
pub mod oidc;
pub mod password;
mod personal;
mod shares;
mod sign_in;
mod tenancy;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weft_core::access::MemberRole;
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
pub use self::sign_in::{PasswordChange, SignInRefusal, SignedIn};
pub use self::tenancy::Erasure;

use self::oidc::Providers;
use self::password::Passwords;
use crate::app::{App, DEFAULT_TENANT};
use crate::config::AccountsConfig;
use crate::rates::Rates;

/// Members, invitations and sign-ins that one list has at most.
pub const LISTED_MAX: u64 = 10_000;
/// Characters of what others call somebody.
const NICKNAME_CHARS_MAX: usize = 100;
/// Tenants that are read at once where all of them are gone through.
const TENANTS_AT_ONCE: u64 = 500;

/// Where accounts are kept.
#[derive(Clone)]
pub struct AccountStores {
    /// Users and their sign-ins.
    pub users: Arc<dyn UserStore>,
    /// Who they are at OpenID providers.
    pub identities: Arc<dyn IdentityStore>,
    /// Tenants, members and invitations.
    pub tenants: Arc<dyn TenantStore>,
    /// Share tokens.
    pub shares: Arc<dyn ShareStore>,
    /// Who did what.
    pub audit: Arc<dyn AuditStore>,
}

/// Accounts, and what holds attempts back. Cheap to clone.
#[derive(Clone)]
pub struct Accounts {
    /// Where they are kept.
    pub stores: AccountStores,
    /// How they are dealt with.
    pub config: Arc<AccountsConfig>,
    pub(crate) limits: Arc<Limits>,
    providers: Arc<Providers>,
    erasure: Arc<Erasure>,
}

/// What holds attempts back, in this process.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    passwords: Passwords,
    /// Attempts with a password, by what they are counted for.
    attempts: Rates<Attempts>,
    /// Calls with share tokens, by hash.
    pub(crate) shares: Rates<String>,
}

/// What attempts with a password are counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Attempts {
    /// An account, from one network address: somebody guesses a password.
    Account(String, String),
    /// A network address: somebody goes through accounts.
    Address(String),
    /// An account from everywhere: many machines guess one password. Much higher, since it locks out its owner, too.
    Everywhere(String),
    /// A network address: somebody begins sign-ins at providers and finishes none.
    Begun(String),
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Accounts {
    /// Accounts that are kept here.
    pub fn new(stores: AccountStores, config: AccountsConfig) -> Self {
        let erasure: Arc<Erasure> = Arc::new(|_| Box::pin(async { Ok(()) }));
        let (config, providers) = (Arc::new(config), Arc::default());
        Self { stores, config, limits: Arc::default(), providers, erasure }
    }

    /// With the providers of the settings, which are asked this way.
    #[must_use]
    pub fn with_providers(mut self, http: &Arc<dyn StreamingHttp>) -> Self {
        self.providers = Arc::new(Providers::new(&self.config, http));
        self
    }

    /// How often an attempt may be made.
    fn rate(limit: u32) -> Rate {
        /// In this time.
        const WINDOW: Duration = Duration::from_secs(15 * 60);
        Rate { limit, per: WINDOW }
    }
}

/// What is said of somebody who gets an account.
#[derive(Clone, Copy, Debug)]
pub struct NewUser<'a> {
    /// What they sign in with.
    pub email: &'a str,
    /// What others see; the part before the `@` when it is empty.
    pub nickname: &'a str,
    /// Without one they can sign in only after one was set.
    pub password: Option<&'a weft_core::Secret>,
}

impl App {
    /// Makes sure that there is a tenant with this id.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn ensure_tenant(&self, id: &TenantId) -> Result<()> {
        let tenant = Tenant { id: id.clone(), name: id.to_string(), created_ms: self.clock.now_ms() };
        self.accounts.stores.tenants.add_tenant(&tenant).await
    }

    /// The ids of all tenants.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn all_tenants(&self) -> Result<Vec<TenantId>> {
        let mut all: Vec<TenantId> = Vec::new();
        loop {
            // From the last id on, so that tenants that come meanwhile shift nothing.
            let page = self.accounts.stores.tenants.tenants(all.last(), TENANTS_AT_ONCE).await?;
            let last = (page.len() as u64) < TENANTS_AT_ONCE;
            all.extend(page.into_iter().map(|tenant| tenant.id));
            if last {
                break;
            }
        }
        // It may have been used without anybody having been let in.
        let default = TenantId::new(DEFAULT_TENANT);
        if !all.contains(&default) {
            all.push(default);
        }
        Ok(all)
    }

    /// A user by their address or their id.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn find_user(&self, name: &str) -> Result<User> {
        let users = &self.accounts.stores.users;
        // Every address has one, and no id.
        if name.contains('@') {
            users.user_by_email(name).await
        } else {
            users.user(&UserId::from(name)).await
        }
    }

    /// Makes a user who is a member of a tenant with a role. Without a password they can sign in only after one was
    /// set.
    ///
    /// # Errors
    /// `Invalid` for an address, a name or a password that cannot be one; `Conflict` when the address is taken.
    pub async fn create_user(&self, user: NewUser<'_>, tenant: &TenantId, role: MemberRole) -> Result<User> {
        let user = self.new_user(user).await?;
        self.ensure_tenant(tenant).await?;
        let membership = weft_core::seam::tenant_store::Membership {
            tenant: tenant.clone(),
            user: user.id.clone(),
            role,
            created_ms: user.created_ms,
        };
        self.accounts.stores.users.add_user(&user, &[membership]).await?;
        Ok(user)
    }

    /// A user who is not stored yet.
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

    /// Gives a user another name.
    ///
    /// # Errors
    /// `Invalid` for a name that is no line; `NotFound`.
    pub async fn rename_user(&self, id: &UserId, nickname: &str) -> Result<User> {
        let user = self.accounts.stores.users.user(id).await?;
        let nickname = new_nickname(nickname)?;
        let change = UserChange { nickname: Some(nickname.clone()), ..UserChange::default() };
        self.accounts.stores.users.change_user(id, &change).await?;
        Ok(User { nickname, ..user })
    }
}

/// A name that a user may be given in place of the one that they have.
///
/// # Errors
/// `Invalid` for a name that is empty or no line.
pub fn new_nickname(name: &str) -> Result<String> {
    let name = checked_nickname(name)?;
    if name.is_empty() { Err(Error::invalid("the name of a user must not be empty")) } else { Ok(name) }
}

/// Names are shown in lists, on a line each.
fn checked_nickname(name: &str) -> Result<String> {
    let name = name.trim();
    if name.chars().count() > NICKNAME_CHARS_MAX || name.chars().any(char::is_control) {
        let error = Error::invalid("the name of a user must be one line");
        return Err(error.help(format!("at most {NICKNAME_CHARS_MAX} characters")));
    }
    Ok(name.to_owned())
}

/// What a share token is called where it stands for whoever asks.
pub fn share_user(id: &str) -> String {
    format!("share-{id}")
}

/// What a share token opens, in words.
pub fn opened(target: &ShareTarget) -> String {
    match target {
        ShareTarget::Agent(id) | ShareTarget::Chat(id) => format!("{} {id}", target.kind()),
        ShareTarget::OfKey(_) => "pages of agents and chat assistants".to_owned(),
    }
}
