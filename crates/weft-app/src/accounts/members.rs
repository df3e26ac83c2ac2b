//! Members of a tenant, and invitations.

use weft_core::access::MemberRole;
use weft_core::error::found;
use weft_core::id::UserId;
use weft_core::seam::tenant_store::{Invitation, Joining};
use weft_core::seam::user_store::User;
use weft_core::{Error, ErrorKind, Result, Secret, TenantId};

use super::{LISTED_MAX, NewUser, SignInRefusal, SignedIn, address};
use crate::app::App;
use crate::tokens::{self, INVITATION_PREFIX};

const DAY_MS: i64 = 86_400_000;

/// A new invitation. Its secret cannot be read again later.
#[derive(Debug)]
pub struct Invited {
    /// The part that is stored.
    pub invitation: Invitation,
    /// The secret with which the invited person accepts it.
    pub secret: Secret,
}

fn expired() -> Error {
    Error::not_found("there is no such invitation, or it has expired")
        .help("ask an owner of the tenant for a new one")
}

impl App {
    /// Invites a person into a tenant. The result does not reveal whether they already have an account.
    ///
    /// # Errors
    /// `Invalid` for an address that is not valid; `NotFound` for an unknown tenant; `QuotaExceeded` when too many
    /// are open.
    pub async fn invite(
        &self,
        tenant: &TenantId,
        email: &str,
        role: MemberRole,
        invited_by: &str,
    ) -> Result<Invited> {
        let email = address::check(email)?;
        self.ensure_tenant(tenant).await?;
        let secret = tokens::random(INVITATION_PREFIX)?;
        let now_ms = self.clock.now_ms();
        let days = i64::try_from(self.accounts.config.invitation_days).unwrap_or(i64::MAX);
        let invitation = Invitation {
            hash: tokens::hash(secret.reveal()),
            tenant: tenant.clone(),
            email,
            role,
            invited_by: invited_by.to_owned(),
            created_ms: now_ms,
            expires_ms: now_ms.saturating_add(days.saturating_mul(DAY_MS)),
        };
        self.accounts.stores.tenants.add_invitation(&invitation).await?;
        Ok(Invited { invitation, secret })
    }

    /// Accepts the invitation with this secret and signs in. A person without an account gets one with this password;
    /// a person with an account must know its password.
    ///
    /// # Errors
    /// The reason for the refusal: `NotFound` in [`SignInRefusal::Failed`] for an invitation that does not exist or
    /// has expired.
    pub async fn accept_with_secret(
        &self,
        secret: &Secret,
        nickname: &str,
        password: &Secret,
        address: &str,
    ) -> Result<SignedIn, SignInRefusal> {
        let now_ms = self.clock.now_ms();
        let tenants = &self.accounts.stores.tenants;
        let invitation = tenants
            .invitation(&tokens::hash(secret.reveal()))
            .await
            .map_err(|error| if error.kind == ErrorKind::NotFound { expired() } else { error })?;
        if invitation.expires_ms <= now_ms {
            return Err(expired().into());
        }
        let known = match self.accounts.stores.users.user_by_email(&invitation.email).await {
            // Joining an existing account requires its password, because the link may have reached another person.
            Ok(_) => Some(self.with_password(&invitation.email, password, address).await?),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let user = match known {
            Some(user) => {
                tenants.accept_invitation(&invitation, Joining::Known(&user.id), now_ms).await?;
                user
            }
            None => {
                let user = NewUser { email: &invitation.email, nickname, password: Some(password) };
                let user = self.new_user(user).await?;
                // The user and the membership are stored in one step, so that an invitation that was just used
                // concurrently creates no account.
                tenants.accept_invitation(&invitation, Joining::New(&user), now_ms).await?;
                user
            }
        };
        self.signed_in(user, Some(&invitation.tenant)).await
    }

    /// Accepts the invitation of a signed-in user to a tenant, without its secret.
    ///
    /// # Errors
    /// `NotFound` when the user is not invited; `Denied` for one who has registered by themselves, because nobody has
    /// ever confirmed that the invited address is theirs.
    pub async fn accept_as(&self, user: &User, tenant: &TenantId) -> Result<MemberRole> {
        let now_ms = self.clock.now_ms();
        let tenants = &self.accounts.stores.tenants;
        let theirs = tenants.invitations_for(&user.email).await?;
        let invitation = theirs
            .into_iter()
            .find(|one| one.tenant == *tenant && one.expires_ms > now_ms)
            .ok_or_else(expired)?;
        if self.has_registered(&user.id).await? {
            let message = "your e-mail address was never confirmed, because you have registered by yourself";
            return Err(Error::new(ErrorKind::Denied, message)
                .help("accept with the secret of the invitation: `POST /api/v1/auth/invitations/accept`"));
        }
        tenants.accept_invitation(&invitation, Joining::Known(&user.id), now_ms).await?;
        Ok(tenants.membership(tenant, &user.id).await?.role)
    }

    /// Returns whether a user has registered by themselves, possibly with another person's address. A registration
    /// creates a tenant with the id of the user, whose row stays as long as the user does.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) async fn has_registered(&self, user: &UserId) -> Result<bool> {
        let own = TenantId::new(user.as_str());
        Ok(found(self.accounts.stores.tenants.tenant(&own).await)?.is_some())
    }

    /// Returns the open invitations of a user.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn invitations_of(&self, user: &User) -> Result<Vec<Invitation>> {
        let now_ms = self.clock.now_ms();
        let theirs = self.accounts.stores.tenants.invitations_for(&user.email).await?;
        Ok(theirs.into_iter().filter(|one| one.expires_ms > now_ms).collect())
    }

    /// Changes the role of a member.
    ///
    /// # Errors
    /// `NotFound` for a user who is not a member; `Conflict` when the tenant would be left without an owner.
    pub async fn set_role(&self, tenant: &TenantId, user: &UserId, role: MemberRole) -> Result<()> {
        self.accounts.stores.tenants.set_role(tenant, user, role).await
    }

    /// Revokes an invitation of a tenant, given by its id or its address.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn take_back_invitation(&self, tenant: &TenantId, name: &str) -> Result<Invitation> {
        let tenants = &self.accounts.stores.tenants;
        let all = tenants.invitations(tenant, 0, LISTED_MAX).await?;
        // Addresses are stored in lower case.
        let named = |one: &Invitation| one.id() == name || one.email == name.to_lowercase();
        let named = all.into_iter().find(named);
        let named = named.ok_or_else(|| Error::not_found("there is no such invitation"))?;
        tenants.remove_invitation(tenant, &named.hash).await?;
        Ok(named)
    }

    /// Switches a sign-in to another tenant of its user.
    ///
    /// # Errors
    /// `NotFound` when the user is not a member of it.
    pub async fn switch_tenant(&self, user: &UserId, login: &str, tenant: &TenantId) -> Result<MemberRole> {
        let membership = self.accounts.stores.tenants.membership(tenant, user).await?;
        self.accounts.stores.users.move_login(login, tenant).await?;
        Ok(membership.role)
    }
}
