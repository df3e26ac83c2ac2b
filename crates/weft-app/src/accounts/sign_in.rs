//! Sign-in with a password, sign-out, and registration.

use std::time::Duration;

use weft_core::access::MemberRole;
use weft_core::id::UserId;
use weft_core::seam::tenant_store::{Membership, Tenant};
use weft_core::seam::user_store::{Login, Logins, User, UserChange};
use weft_core::{Error, ErrorKind, Result, Secret, TenantId};

use super::{Accounts, Attempts, NewUser, Refusals};
use crate::app::App;
use crate::tokens::{self, LOGIN_PREFIX};

const DAY_MS: i64 = 86_400_000;
/// Limit of attempts for one account from all addresses, as a multiple of the limit from one address.
// Much higher, because otherwise a few attempts from anywhere would lock out the owner of the account.
const EVERYWHERE: u32 = 20;

/// Maximum length of an address by which attempts are counted, in bytes. No account has a longer one.
const COUNTED_BYTES_MAX: usize = 255;

/// A successful sign-in. The token cannot be read again later.
#[derive(Debug)]
pub struct SignedIn {
    /// The user.
    pub user: User,
    /// The tenant in which they work.
    pub tenant: TenantId,
    /// Their role in it.
    pub role: MemberRole,
    /// The token of the sign-in.
    pub token: Secret,
}

/// Why a sign-in was refused.
#[derive(Debug)]
pub enum SignInRefusal {
    /// The account does not exist, or the password is wrong. Clients cannot tell which.
    Mismatch,
    /// The password is right, but the account is disabled.
    Disabled,
    /// The password is right, but the user belongs to no tenant, or not to the requested one.
    NoTenant,
    /// Too many attempts.
    TooMany(Refusals),
    /// Another error.
    Failed(Error),
}

/// A user's request to change their password.
#[derive(Clone, Copy, Debug)]
pub struct PasswordChange<'a> {
    /// The current password.
    pub old: &'a Secret,
    /// The new password.
    pub new: &'a Secret,
    /// Address of the request, by which wrong passwords are counted.
    pub address: &'a str,
    /// Hash of the sign-in that remains; all others end.
    pub kept: &'a str,
}

impl From<Error> for SignInRefusal {
    fn from(error: Error) -> Self {
        match error.kind {
            // No limit of this account or address: the server is busy.
            ErrorKind::RateLimited => Self::TooMany(Refusals::Repeated),
            _ => Self::Failed(error),
        }
    }
}

impl Accounts {
    /// Counts an attempt before it is made, so that concurrent attempts are counted, too.
    fn attempt(&self, email: &str, address: &str, now: Duration) -> Result<Vec<Attempts>, SignInRefusal> {
        let limit = self.config.sign_in_attempts;
        // Anyone may send any text as an address, and what is counted stays in memory.
        let email = &email[..email.floor_char_boundary(COUNTED_BYTES_MAX)];
        let counted = [
            (Attempts::Address(address.to_owned()), self.config.sign_in_attempts_per_address),
            (Attempts::Account(email.to_owned(), address.to_owned()), limit),
            (Attempts::Everywhere(email.to_owned()), limit.saturating_mul(EVERYWHERE)),
        ];
        let mut taken = Vec::with_capacity(counted.len());
        for (attempt, limit) in counted {
            if !self.limits.attempts.take(&attempt, Self::rate(limit), now) {
                // A refused attempt must not use up the attempts of other users at this address.
                self.give_back(&taken);
                return Err(SignInRefusal::TooMany(self.refused(&attempt, address, now)));
            }
            taken.push(attempt);
        }
        Ok(taken)
    }

    /// Takes attempts back: only those that fail are counted.
    fn give_back(&self, attempts: &[Attempts]) {
        attempts.iter().for_each(|attempt| self.limits.attempts.give_back(attempt));
    }
}

impl App {
    /// Signs a user in with a password. Without a tenant, selects the one in which the user has the highest role.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub async fn sign_in(
        &self,
        email: &str,
        password: &Secret,
        tenant: Option<&TenantId>,
        address: &str,
    ) -> Result<SignedIn, SignInRefusal> {
        let done = match self.with_password(email, password, address).await {
            Ok(user) => self.signed_in(user, tenant).await,
            Err(refusal) => Err(refusal),
        };
        self.accounts.count_sign_in(&done);
        done
    }

    /// Returns the user with this email address and password.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub(super) async fn with_password(
        &self,
        email: &str,
        password: &Secret,
        address: &str,
    ) -> Result<User, SignInRefusal> {
        let email = email.trim().to_lowercase();
        let attempts = self.accounts.attempt(&email, address, self.clock.running())?;
        let compared = self.known_by(&email, password).await.inspect_err(|_| {
            // Nothing was compared, so it was not a guess: a failure of the server must not lock the user out.
            self.accounts.give_back(&attempts);
        })?;
        let Some(user) = compared else { return Err(SignInRefusal::Mismatch) };
        // The password was right, so it was not a guess, even if the account is disabled.
        self.accounts.give_back(&attempts);
        if user.enabled { Ok(user) } else { Err(SignInRefusal::Disabled) }
    }

    /// Returns the user with this email address, enabled or not, if the password matches.
    async fn known_by(&self, email: &str, password: &Secret) -> Result<Option<User>> {
        let found = weft_core::error::found(self.accounts.stores.users.user_by_email(email).await)?;
        let hash = found.as_ref().map(|user| user.password_hash.as_str());
        // Also for an unknown user, so that it takes as long.
        let fits = self.accounts.limits.passwords.fits(password, hash).await?;
        Ok(found.filter(|_| fits))
    }

    /// Signs in a user who is already authenticated.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub(super) async fn signed_in(
        &self,
        user: User,
        tenant: Option<&TenantId>,
    ) -> Result<SignedIn, SignInRefusal> {
        let memberships = self.accounts.stores.tenants.memberships(&user.id).await?;
        let wanted = |one: &Membership| tenant.is_none_or(|tenant| *tenant == one.tenant);
        let Some(membership) = memberships.into_iter().find(wanted) else {
            return Err(SignInRefusal::NoTenant);
        };
        let now_ms = self.clock.now_ms();
        let token = tokens::random(LOGIN_PREFIX)?;
        let days = i64::try_from(self.accounts.config.session_days).unwrap_or(i64::MAX);
        let login = Login {
            hash: tokens::hash(token.reveal()),
            user: user.id.clone(),
            tenant: membership.tenant.clone(),
            created_ms: now_ms,
            expires_ms: now_ms.saturating_add(days.saturating_mul(DAY_MS)),
            last_used_ms: None,
        };
        let users = &self.accounts.stores.users;
        users.add_login(&login).await?;
        // Changing the password ends all existing sign-ins. This one may have been created just afterwards, with the
        // old password.
        if users.user(&user.id).await?.password_hash != user.password_hash {
            users.remove_logins(&user.id, Logins::One(&login.hash)).await?;
            return Err(SignInRefusal::Mismatch);
        }
        let user = User { signed_in_ms: Some(now_ms), ..user };
        let change = UserChange { signed_in_ms: Some(now_ms), ..UserChange::default() };
        users.change_user(&user.id, &change).await?;
        Ok(SignedIn { user, tenant: membership.tenant, role: membership.role, token })
    }

    /// Registers a user with a tenant of their own that has the same id, and signs them in.
    ///
    /// # Errors
    /// `Denied` unless the settings allow registration; `Conflict` when the address is taken; `Invalid` for an
    /// address, a name or a password that is not valid; `RateLimited`.
    pub async fn register(
        &self,
        email: &str,
        nickname: &str,
        password: &Secret,
        address: &str,
    ) -> Result<SignedIn> {
        if !self.accounts.config.sign_up {
            return Err(Error::new(ErrorKind::Denied, "User registration is disabled!"));
        }
        // Not given back on success: each registration stores a user and a tenant.
        let counted = Attempts::Address(address.to_owned());
        let rate = Accounts::rate(self.accounts.config.sign_in_attempts_per_address);
        if !self.accounts.limits.attempts.take(&counted, rate, self.clock.running()) {
            return Err(Error::new(ErrorKind::RateLimited, "too many registrations"));
        }
        let user = self.new_user(NewUser { email, nickname, password: Some(password) }).await?;
        let id = TenantId::new(user.id.as_str());
        let tenant = Tenant { id: id.clone(), name: user.nickname.clone(), created_ms: user.created_ms };
        let membership = Membership {
            tenant: id,
            user: user.id.clone(),
            role: MemberRole::Owner,
            created_ms: user.created_ms,
        };
        // The tenant first: a crash may leave a tenant without members, but never a user without a tenant.
        self.accounts.stores.tenants.add_tenant(&tenant).await?;
        if let Err(error) = self.accounts.stores.users.add_user(&user, &[membership]).await {
            // Otherwise each attempt with a taken address would leave a tenant behind. After any other error it is
            // unknown whether the user was stored.
            if error.kind == ErrorKind::Conflict {
                self.accounts.stores.tenants.remove_tenant(&tenant.id).await?;
            }
            return Err(error);
        }
        self.signed_in(user, None).await.map_err(|refusal| match refusal {
            SignInRefusal::Failed(error) => error,
            other => Error::internal(format!("a new user cannot sign in: {other:?}")),
        })
    }

    /// Sets the password of a user, and ends their other sign-ins, so that knowledge of the old password is of no
    /// use.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a password that is not valid.
    pub async fn set_password(&self, id: &UserId, password: &Secret, kept: Option<&str>) -> Result<()> {
        // Hashing is expensive, so it is not done for an unknown user.
        self.accounts.stores.users.user(id).await?;
        let password_hash = self.accounts.limits.passwords.hash(password).await?;
        let change = UserChange { password_hash: Some(password_hash), ..UserChange::default() };
        self.accounts.stores.users.change_user(id, &change).await?;
        let which = kept.map_or(Logins::All, Logins::Others);
        self.accounts.stores.users.remove_logins(id, which).await.map(drop)
    }

    /// The same at the request of the user, who must know the old password.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub async fn change_password(
        &self,
        id: &UserId,
        change: PasswordChange<'_>,
    ) -> Result<(), SignInRefusal> {
        self.confirm(id, change.old, change.address).await?;
        Ok(self.set_password(id, change.new, Some(change.kept)).await?)
    }

    /// Checks the password of a user's own account.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub async fn confirm(
        &self,
        id: &UserId,
        password: &Secret,
        address: &str,
    ) -> Result<User, SignInRefusal> {
        let user = self.accounts.stores.users.user(id).await?;
        self.with_password(&user.email, password, address).await
    }

    /// Disables a user: ends all sign-ins, and their API keys are not accepted until the user is enabled again.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for the last owner of a tenant that has other members.
    pub async fn disable_user(&self, id: &UserId) -> Result<User> {
        for membership in &self.accounts.stores.tenants.memberships(id).await? {
            self.check_replaceable(membership).await?;
        }
        let change = UserChange { enabled: Some(false), ..UserChange::default() };
        self.accounts.stores.users.change_user(id, &change).await?;
        self.accounts.stores.users.remove_logins(id, Logins::All).await?;
        self.accounts.stores.users.user(id).await
    }

    /// Enables a user who was disabled.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn enable_user(&self, id: &UserId) -> Result<User> {
        let change = UserChange { enabled: Some(true), ..UserChange::default() };
        self.accounts.stores.users.change_user(id, &change).await?;
        self.accounts.stores.users.user(id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::DEFAULT_TENANT;
    use crate::config::AccountsConfig;
    use crate::{Config, assemble_in_memory};

    #[tokio::test]
    async fn a_sign_in_fails_if_the_password_changes_while_it_is_checked() {
        let app = assemble_in_memory(&Config::default()).await.unwrap();
        let (old, new) = (Secret::new("correct horse battery"), Secret::new("another horse battery"));
        let ann = NewUser { email: "ann@example.com", nickname: "Ann", password: Some(&old) };
        let ann = app.create_user(ann, &TenantId::new(DEFAULT_TENANT), MemberRole::User).await.unwrap();
        let compared = app.with_password("ann@example.com", &old, "10.0.0.1").await.unwrap();
        app.set_password(&ann.id, &new, None).await.unwrap();
        let refused = app.signed_in(compared, None).await.unwrap_err();
        assert!(matches!(refused, SignInRefusal::Mismatch), "{refused:?}");
        assert!(app.accounts.stores.users.logins(&ann.id, None, 0, 9).await.unwrap().is_empty());
        app.sign_in("ann@example.com", &new, None, "10.0.0.1").await.unwrap();
    }

    #[tokio::test]
    async fn the_only_owner_of_others_cannot_be_disabled() {
        let app = assemble_in_memory(&Config::default()).await.unwrap();
        let tenant = TenantId::new(DEFAULT_TENANT);
        let add = async |email: &str, role: MemberRole| {
            let user = NewUser { email, nickname: "", password: None };
            app.create_user(user, &tenant, role).await.unwrap().id
        };
        let ann = add("ann@example.com", MemberRole::Owner).await;
        app.disable_user(&ann).await.unwrap();
        app.enable_user(&ann).await.unwrap();
        let bob = add("bob@example.com", MemberRole::User).await;
        let refused = app.disable_user(&ann).await.unwrap_err();
        assert!(
            refused.kind == ErrorKind::Conflict && refused.full().contains("without an owner"),
            "{refused}"
        );
        app.set_role(&tenant, &bob, MemberRole::Owner).await.unwrap();
        app.disable_user(&ann).await.unwrap();
        assert_eq!(app.disable_user(&bob).await.unwrap_err().kind, ErrorKind::Conflict, "ann is disabled");
        assert_eq!(app.disable_user(&UserId::from("nobody")).await.unwrap_err().kind, ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn only_the_beginning_of_a_long_address_is_remembered() {
        let accounts = AccountsConfig { sign_in_attempts: 1, ..AccountsConfig::default() };
        let app = assemble_in_memory(&Config { accounts, ..Config::default() }).await.unwrap();
        let guess = async |email: &str| {
            let refused = app.sign_in(email, &Secret::new("a password"), None, "10.0.0.1").await;
            refused.unwrap_err()
        };
        let long = "é".repeat(COUNTED_BYTES_MAX);
        let first = guess(&format!("{long}a")).await;
        assert!(matches!(first, SignInRefusal::Mismatch), "{first:?}");
        let second = guess(&format!("{long}b")).await;
        assert!(
            matches!(second, SignInRefusal::TooMany(Refusals::First)),
            "the rest of it is not remembered: {second:?}"
        );
        let other = guess("ann@example.com").await;
        assert!(matches!(other, SignInRefusal::Mismatch), "{other:?}");
    }
}
