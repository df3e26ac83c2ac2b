//! Maps a person known to a provider to a user. Issuer and subject identify the person; a confirmed address is used
//! once, when there is no identity yet.

use sha2::{Digest as _, Sha256};
use weft_core::access::MemberRole;
use weft_core::id::UserId;
use weft_core::seam::identity_store::{IDENTITIES_MAX, Identity};
use weft_core::seam::tenant_store::{Invitation, Joining, Membership};
use weft_core::seam::user_store::User;
use weft_core::{Error, ErrorKind, Result, TenantId, hex};

use super::claims::{self, Person};
use super::jws::Claims;
use super::provider::Provider;
use crate::accounts::{NewUser, SignInRefusal, SignedIn};
use crate::app::{App, DEFAULT_TENANT};

/// Returns the key of an identity. An issuer contains no line break, so different pairs never have the same hash
/// input.
fn hash(issuer: &str, subject: &str) -> String {
    hex(&Sha256::digest(format!("{issuer}\n{subject}").as_bytes()))
}

fn denied(message: impl Into<String>, help: &str) -> Error {
    Error::new(ErrorKind::Denied, message).help(help)
}

/// Returns the role for a person's groups at the provider: the highest that one of them grants.
fn role(provider: &Provider, claims: &Claims) -> MemberRole {
    let config = &provider.config;
    let groups = claims::groups(claims, &config.role_claim);
    let given = groups.iter().filter_map(|group| config.roles.get(*group)).copied();
    given.max().unwrap_or(config.role)
}

impl App {
    /// Signs in a person known to a provider.
    pub(super) async fn sign_in_person(
        &self,
        provider: &Provider,
        person: &Person,
        claims: &Claims,
    ) -> Result<SignedIn, SignInRefusal> {
        let mut found = self.user_of(provider, person, claims).await;
        // Two concurrent first sign-ins of a person conflict; the user then exists in the second attempt.
        if matches!(&found, Err(SignInRefusal::Failed(error)) if error.kind == ErrorKind::Conflict) {
            found = self.user_of(provider, person, claims).await;
        }
        let user = found?;
        // Checked before the groups: a disabled account keeps its role.
        if !user.enabled {
            return Err(SignInRefusal::Disabled);
        }
        // Before the sign-in, which reads the role.
        self.follow_groups(provider, claims, &user.id).await?;
        let hash = hash(&provider.config.issuer, &person.subject);
        let email = person.email.as_deref().unwrap_or_default();
        self.accounts.stores.identities.identity_used(&hash, email, self.clock.now_ms()).await?;
        self.signed_in(user, None).await
    }

    async fn user_of(
        &self,
        provider: &Provider,
        person: &Person,
        claims: &Claims,
    ) -> Result<User, SignInRefusal> {
        let stores = &self.accounts.stores;
        // The subject stands for one person for ever, while an address may pass to another (OpenID Connect Core, 5.7).
        match stores.identities.identity(&hash(&provider.config.issuer, &person.subject)).await {
            Ok(identity) => return Ok(stores.users.user(&identity.user).await?),
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let Some(email) = person.verified_email() else {
            let message =
                "no account here belongs to this sign-in, and the provider confirms no e-mail address";
            let help =
                "sign in with a password and add the provider to your account, or confirm your address there";
            return Err(denied(message, help).into());
        };
        let user = match stores.users.user_by_email(email).await {
            Ok(user) => self.check_linkable(provider, user).await?,
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.join(provider, person, email, claims).await?
            }
            Err(error) => return Err(error.into()),
        };
        self.add_identity(provider, person, &user.id).await?;
        Ok(user)
    }

    /// Checks whether a user with the same address may be taken for the same person.
    async fn check_linkable(&self, provider: &Provider, user: User) -> Result<User, SignInRefusal> {
        if !user.enabled {
            return Err(SignInRefusal::Disabled);
        }
        // The address of a user who has registered themselves was never verified: an attacker may have registered
        // with another person's address to wait for them.
        if provider.config.link_by_email && !self.has_registered(&user.id).await? {
            return Ok(user);
        }
        let message = "an account with your e-mail address exists, but it does not belong to this sign-in";
        Err(denied(message, "sign in with its password and add the provider to it").into())
    }

    /// Creates a user for a person who was invited or may get an account.
    async fn join(
        &self,
        provider: &Provider,
        person: &Person,
        email: &str,
        claims: &Claims,
    ) -> Result<User, SignInRefusal> {
        let now_ms = self.clock.now_ms();
        let stores = &self.accounts.stores;
        let invitations = stores.tenants.invitations_for(email).await?;
        let mut invitations = invitations.into_iter().filter(|one: &Invitation| one.expires_ms > now_ms);
        let may_sign_up = provider.config.sign_up && provider.config.allows(email);
        let first = invitations.next();
        // An invited person needs no permission to sign up, and gets the role of the invitation.
        if first.is_none() && !may_sign_up {
            let message = "you have no account here";
            return Err(denied(
                message,
                "ask an owner of the tenant for an invitation to your e-mail address",
            )
            .into());
        }
        let new = NewUser { email, nickname: &person.name, password: None };
        let user = match self.new_user(new).await {
            Ok(user) => user,
            // A name that is not a single line is no reason to fail.
            Err(_) => self.new_user(NewUser { nickname: "", ..new }).await?,
        };
        if let Some(first) = &first {
            stores.tenants.accept_invitation(first, Joining::New(&user), now_ms).await?;
            // All of them were sent to the address that the provider has verified.
            for one in invitations {
                stores.tenants.accept_invitation(&one, Joining::Known(&user.id), now_ms).await?;
            }
            return Ok(user);
        }
        let tenant = TenantId::from(provider.config.tenant.as_str());
        self.ensure_tenant(&tenant).await?;
        let role = role(provider, claims);
        let membership = Membership { tenant, user: user.id.clone(), role, created_ms: now_ms };
        stores.users.add_user(&user, &[membership]).await?;
        Ok(user)
    }

    async fn add_identity(&self, provider: &Provider, person: &Person, user: &UserId) -> Result<Identity> {
        let stores = &self.accounts.stores;
        let identity = Identity {
            hash: hash(&provider.config.issuer, &person.subject),
            user: user.clone(),
            provider: provider.name.clone(),
            issuer: provider.config.issuer.clone(),
            subject: person.subject.clone(),
            email: person.email.clone().unwrap_or_default(),
            created_ms: self.clock.now_ms(),
            used_ms: None,
        };
        stores.identities.add_identity(&identity).await?;
        Ok(identity)
    }

    /// Adds an identity to the account of a user who is signed in.
    pub(super) async fn link(
        &self,
        provider: &Provider,
        person: &Person,
        user: &UserId,
    ) -> Result<Identity, SignInRefusal> {
        if !self.accounts.stores.users.user(user).await?.enabled {
            return Err(SignInRefusal::Disabled);
        }
        Ok(self.add_identity(provider, person, user).await?)
    }

    /// Gives a member of the provider's tenant the role of their groups, if the settings say so.
    async fn follow_groups(&self, provider: &Provider, claims: &Claims, user: &UserId) -> Result<()> {
        if provider.config.role_claim.is_empty() {
            return Ok(());
        }
        let tenants = &self.accounts.stores.tenants;
        let tenant = TenantId::from(provider.config.tenant.as_str());
        let membership = match tenants.membership(&tenant, user).await {
            Ok(membership) => membership,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let role = role(provider, claims);
        if membership.role == role {
            return Ok(());
        }
        match tenants.set_role(&tenant, user, role).await {
            // A tenant keeps its last owner whatever the groups say, and the sign-in does not fail for that.
            Err(error) if error.kind == ErrorKind::Conflict => {
                tracing::warn!(provider = provider.name, "the last owner of a tenant keeps the role");
                Ok(())
            }
            // The member was removed meanwhile.
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Returns the tenant whose audit log records a user.
    pub(super) async fn first_tenant(&self, user: &UserId) -> Result<TenantId> {
        let theirs = self.accounts.stores.tenants.memberships(user).await?;
        Ok(theirs.into_iter().next().map_or_else(|| TenantId::new(DEFAULT_TENANT), |one| one.tenant))
    }

    /// Returns the identities of a user at providers.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn identities(&self, user: &UserId) -> Result<Vec<Identity>> {
        self.accounts.stores.identities.identities(user, IDENTITIES_MAX).await
    }

    /// Removes an identity of a user, by the id that lists show.
    ///
    /// # Errors
    /// `NotFound`; `Denied` for the last one of a user without a password.
    pub async fn unlink(&self, user: &UserId, id: &str) -> Result<Identity> {
        let all = self.identities(user).await?;
        let found = all.into_iter().find(|one| one.id() == id);
        let found = found.ok_or_else(|| Error::not_found("there is no such identity"))?;
        self.accounts.stores.identities.remove_identity(user, &found.hash).await?;
        Ok(found)
    }
}
