//! Users, tenants, memberships, sign-ins and invitations.

use std::collections::BTreeMap;

use weft_core::access::MemberRole;
use weft_core::id::{TenantId, UserId};
use weft_core::seam::tenant_store::{
    INVITATIONS_MAX, Invitation, Joining, MemberCounts, Membership, Tenant, too_many_invitations,
};
use weft_core::seam::token_store::hash_id;
use weft_core::seam::user_store::{LOGINS_MAX, Login, Logins, User, UserChange};
use weft_core::seam::{TenantStore, UserStore};
use weft_core::{Error, Result, async_trait};

use super::{MemoryStore, StoreTables, conflict};

#[derive(Default)]
pub(super) struct AccountTables {
    tenants: BTreeMap<TenantId, Tenant>,
    users: BTreeMap<UserId, User>,
    members: BTreeMap<(TenantId, UserId), Membership>,
    logins: BTreeMap<String, Login>,
    invitations: BTreeMap<String, Invitation>,
}

fn no_tenant() -> Error {
    Error::not_found("there is no such tenant")
}

fn no_user() -> Error {
    Error::not_found("there is no such user")
}

fn no_invitation() -> Error {
    Error::not_found("there is no such invitation")
}

fn folded(user: &User) -> Result<User> {
    let email = user.email.trim().to_lowercase();
    if email.is_empty() {
        return Err(Error::invalid("the e-mail address is empty"));
    }
    Ok(User { email, ..user.clone() })
}

impl AccountTables {
    pub(super) fn has_user(&self, id: &UserId) -> bool {
        self.users.contains_key(id)
    }

    pub(super) fn has_password(&self, id: &UserId) -> bool {
        self.users.get(id).is_some_and(|user| !user.password_hash.is_empty())
    }

    fn check_free(&self, user: &User) -> Result<()> {
        let taken = self.users.values().any(|other| other.id != user.id && other.email == user.email);
        if taken {
            return Err(conflict("another user has this e-mail address".to_owned()));
        }
        Ok(())
    }

    /// Whether a user is no owner of a tenant, or it has another owner, or no other members at all.
    fn can_do_without(&self, tenant: &TenantId, user: &UserId) -> bool {
        let own = self.members.get(&(tenant.clone(), user.clone()));
        if own.is_none_or(|one| one.role != MemberRole::Owner) {
            return true;
        }
        let mut others = self.members.values().filter(|one| one.tenant == *tenant && one.user != *user);
        others.clone().next().is_none() || others.any(|one| one.role == MemberRole::Owner)
    }

    fn has_other_owner(&self, tenant: &TenantId, user: &UserId) -> bool {
        self.members
            .values()
            .any(|one| one.tenant == *tenant && one.user != *user && one.role == MemberRole::Owner)
    }
}

fn last_owner() -> Error {
    conflict("the tenant would be left without an owner".to_owned())
}

impl StoreTables {
    fn forget(&mut self, tenant: Option<&TenantId>, user: &UserId) {
        let there = |of: &TenantId| tenant.is_none_or(|tenant| tenant == of);
        self.accounts.logins.retain(|_, login| login.user != *user || !there(&login.tenant));
        self.tokens.retain(|_, token| token.user.as_ref() != Some(user) || !there(&token.tenant));
    }
}

#[async_trait]
impl UserStore for MemoryStore {
    async fn add_user(&self, user: &User, memberships: &[Membership]) -> Result<()> {
        let accounts = &mut self.tables().accounts;
        let user = folded(user)?;
        accounts.check_free(&user)?;
        if accounts.users.contains_key(&user.id) {
            return Err(conflict("this user is stored already".to_owned()));
        }
        for one in memberships {
            accounts.members.insert((one.tenant.clone(), one.user.clone()), one.clone());
        }
        accounts.users.insert(user.id.clone(), user);
        Ok(())
    }

    async fn user(&self, id: &UserId) -> Result<User> {
        self.tables().accounts.users.get(id).cloned().ok_or_else(no_user)
    }

    async fn user_by_email(&self, email: &str) -> Result<User> {
        let email = email.trim().to_lowercase();
        let tables = self.tables();
        tables.accounts.users.values().find(|user| user.email == email).cloned().ok_or_else(no_user)
    }

    async fn change_user(&self, id: &UserId, change: &UserChange) -> Result<()> {
        let accounts = &mut self.tables().accounts;
        let mut user = accounts.users.get(id).ok_or_else(no_user)?.clone();
        let UserChange { email, nickname, password_hash, enabled, signed_in_ms } = change.clone();
        user.email = email.unwrap_or(user.email);
        user.nickname = nickname.unwrap_or(user.nickname);
        user.password_hash = password_hash.unwrap_or(user.password_hash);
        user.enabled = enabled.unwrap_or(user.enabled);
        user.signed_in_ms = signed_in_ms.or(user.signed_in_ms);
        let user = folded(&user)?;
        accounts.check_free(&user)?;
        accounts.users.insert(id.clone(), user);
        Ok(())
    }

    async fn users(&self, after: &str, count_max: u64) -> Result<Vec<User>> {
        let after = after.to_lowercase();
        let tables = self.tables();
        let mut found: Vec<User> =
            tables.accounts.users.values().filter(|user| user.email > after).cloned().collect();
        found.sort_by(|a, b| a.email.cmp(&b.email));
        found.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        Ok(found)
    }

    async fn remove_user(&self, id: &UserId) -> Result<()> {
        let mut tables = self.tables();
        let theirs: Vec<TenantId> = tables
            .accounts
            .members
            .values()
            .filter(|one| one.user == *id)
            .map(|one| one.tenant.clone())
            .collect();
        if !theirs.iter().all(|tenant| tables.accounts.can_do_without(tenant, id)) {
            return Err(last_owner());
        }
        tables.accounts.users.remove(id).ok_or_else(no_user)?;
        tables.accounts.members.retain(|_, one| one.user != *id);
        tables.forget(None, id);
        tables.forget_identities(id);
        Ok(())
    }

    async fn add_login(&self, login: &Login) -> Result<()> {
        self.tables().accounts.logins.insert(login.hash.clone(), login.clone());
        for old in self.logins(&login.user, None, LOGINS_MAX, u64::MAX).await? {
            self.tables().accounts.logins.remove(&old.hash);
        }
        Ok(())
    }

    async fn login(&self, hash: &str) -> Result<(Login, Option<MemberRole>)> {
        let tables = self.tables();
        let accounts = &tables.accounts;
        let unknown = || Error::not_found("there is no such sign-in");
        let login = accounts.logins.get(hash).cloned().ok_or_else(unknown)?;
        if !accounts.users.get(&login.user).is_some_and(|user| user.enabled) {
            return Err(unknown());
        }
        let role = accounts.members.get(&(login.tenant.clone(), login.user.clone())).map(|one| one.role);
        Ok((login, role))
    }

    async fn logins(
        &self,
        user: &UserId,
        after: Option<(i64, &str)>,
        offset: u64,
        count_max: u64,
    ) -> Result<Vec<Login>> {
        let tables = self.tables();
        let mut found: Vec<Login> =
            tables.accounts.logins.values().filter(|login| login.user == *user).cloned().collect();
        found.sort_by(|a, b| b.created_ms.cmp(&a.created_ms).then_with(|| a.hash.cmp(&b.hash)));
        if let Some((created_ms, hash)) = after {
            found.retain(|one| (-one.created_ms, one.hash.as_str()) > (-created_ms, hash));
        }
        Ok(part(found, offset, count_max))
    }

    async fn login_used(&self, hash: &str, at_ms: i64) -> Result<()> {
        if let Some(login) = self.tables().accounts.logins.get_mut(hash) {
            login.last_used_ms = login.last_used_ms.max(Some(at_ms));
        }
        Ok(())
    }

    async fn move_login(&self, hash: &str, tenant: &TenantId) -> Result<()> {
        if let Some(login) = self.tables().accounts.logins.get_mut(hash) {
            login.tenant = tenant.clone();
        }
        Ok(())
    }

    async fn remove_logins(&self, user: &UserId, which: Logins<'_>) -> Result<u64> {
        let logins = &mut self.tables().accounts.logins;
        let before = logins.len();
        logins.retain(|hash, login| {
            let meant = match which {
                Logins::All => true,
                Logins::One(one) => hash == one,
                Logins::Named(id) => hash_id(hash) == id,
                Logins::Others(kept) => hash != kept,
            };
            login.user != *user || !meant
        });
        Ok((before - logins.len()) as u64)
    }

    async fn remove_expired_logins(&self, before_ms: i64) -> Result<u64> {
        let logins = &mut self.tables().accounts.logins;
        let before = logins.len();
        logins.retain(|_, login| login.expires_ms >= before_ms);
        Ok((before - logins.len()) as u64)
    }
}

fn part<T>(all: Vec<T>, offset: u64, count_max: u64) -> Vec<T> {
    let of = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    all.into_iter().skip(of(offset)).take(of(count_max)).collect()
}

#[async_trait]
impl TenantStore for MemoryStore {
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()> {
        if tenant.id.as_str().is_empty() {
            return Err(Error::invalid("the tenant id is empty"));
        }
        self.tables().accounts.tenants.entry(tenant.id.clone()).or_insert_with(|| tenant.clone());
        Ok(())
    }

    async fn tenant(&self, id: &TenantId) -> Result<Tenant> {
        self.tables().accounts.tenants.get(id).cloned().ok_or_else(no_tenant)
    }

    async fn tenants(&self, after: Option<&TenantId>, count_max: u64) -> Result<Vec<Tenant>> {
        let tables = self.tables();
        let found =
            tables.accounts.tenants.values().filter(|tenant| after.is_none_or(|after| tenant.id > *after));
        Ok(found.take(usize::try_from(count_max).unwrap_or(usize::MAX)).cloned().collect())
    }

    async fn rename_tenant(&self, id: &TenantId, name: &str) -> Result<()> {
        let mut tables = self.tables();
        name.clone_into(&mut tables.accounts.tenants.get_mut(id).ok_or_else(no_tenant)?.name);
        Ok(())
    }

    async fn close_tenant(&self, id: &TenantId) -> Result<()> {
        let mut tables = self.tables();
        if !tables.accounts.tenants.contains_key(id) {
            return Err(no_tenant());
        }
        tables.tokens.retain(|_, token| token.tenant != *id);
        tables.shares.retain(|_, share| share.tenant != *id);
        tables.schedules.retain(|(tenant, _), _| tenant != id);
        tables.work.retain(|(tenant, _), _| tenant != id);
        let accounts = &mut tables.accounts;
        accounts.invitations.retain(|_, one| one.tenant != *id);
        accounts.members.retain(|(tenant, _), one| tenant != id || one.role == MemberRole::Owner);
        let members = &accounts.members;
        accounts.logins.retain(|_, login| {
            login.tenant != *id || members.contains_key(&(login.tenant.clone(), login.user.clone()))
        });
        Ok(())
    }

    async fn remove_tenant(&self, id: &TenantId) -> Result<()> {
        let mut tables = self.tables();
        if !tables.accounts.tenants.contains_key(id) {
            return Err(no_tenant());
        }
        tables.forget_tenant(id)?;
        let accounts = &mut tables.accounts;
        accounts.tenants.remove(id);
        accounts.members.retain(|(tenant, _), _| tenant != id);
        accounts.logins.retain(|_, login| login.tenant != *id);
        accounts.invitations.retain(|_, one| one.tenant != *id);
        Ok(())
    }

    async fn membership(&self, tenant: &TenantId, user: &UserId) -> Result<Membership> {
        let found = self.tables().accounts.members.get(&(tenant.clone(), user.clone())).cloned();
        found.ok_or_else(|| Error::not_found("there is no such member of the tenant"))
    }

    async fn memberships(&self, user: &UserId) -> Result<Vec<Membership>> {
        let tables = self.tables();
        let mut found: Vec<Membership> =
            tables.accounts.members.values().filter(|one| one.user == *user).cloned().collect();
        found.sort_by(|a, b| b.role.cmp(&a.role).then(a.created_ms.cmp(&b.created_ms)));
        Ok(found)
    }

    async fn members(
        &self,
        tenant: &TenantId,
        offset: u64,
        count_max: u64,
    ) -> Result<Vec<(Membership, User)>> {
        let tables = self.tables();
        let accounts = &tables.accounts;
        let mut found: Vec<(Membership, User)> = accounts
            .members
            .values()
            .filter(|one| one.tenant == *tenant)
            .filter_map(|one| Some((one.clone(), accounts.users.get(&one.user)?.clone())))
            .collect();
        found.sort_by(|(a, _), (b, _)| a.created_ms.cmp(&b.created_ms).then_with(|| a.user.cmp(&b.user)));
        Ok(part(found, offset, count_max))
    }

    async fn member_counts(&self, tenant: &TenantId) -> Result<MemberCounts> {
        let accounts = &self.tables().accounts;
        let members = accounts.members.values().filter(|one| one.tenant == *tenant).count() as u64;
        let invitations = accounts.invitations.values().filter(|one| one.tenant == *tenant).count() as u64;
        Ok(MemberCounts { members, invitations })
    }

    async fn set_role(&self, tenant: &TenantId, user: &UserId, role: MemberRole) -> Result<()> {
        let accounts = &mut self.tables().accounts;
        let at = (tenant.clone(), user.clone());
        let was = accounts.members.get(&at).map(|one| one.role);
        if was == Some(MemberRole::Owner)
            && role != MemberRole::Owner
            && !accounts.has_other_owner(tenant, user)
        {
            return Err(last_owner());
        }
        let member = accounts.members.get_mut(&at);
        member.ok_or_else(|| Error::not_found("there is no such member of the tenant"))?.role = role;
        Ok(())
    }

    async fn remove_member(&self, tenant: &TenantId, user: &UserId) -> Result<()> {
        let mut tables = self.tables();
        let at = (tenant.clone(), user.clone());
        // A user who is not a member learns nothing about the tenant.
        if !tables.accounts.members.contains_key(&at) {
            return Err(Error::not_found("there is no such member of the tenant"));
        }
        if !tables.accounts.can_do_without(tenant, user) {
            return Err(last_owner());
        }
        tables.accounts.members.remove(&at);
        tables.forget(Some(tenant), user);
        Ok(())
    }

    async fn add_invitation(&self, invitation: &Invitation) -> Result<()> {
        let accounts = &mut self.tables().accounts;
        if !accounts.tenants.contains_key(&invitation.tenant) {
            return Err(no_tenant());
        }
        let email = invitation.email.to_lowercase();
        let is_open = |one: &Invitation| one.email != email && one.expires_ms > invitation.created_ms;
        accounts.invitations.retain(|_, one| one.tenant != invitation.tenant || is_open(one));
        let of_tenant = accounts.invitations.values().filter(|one| one.tenant == invitation.tenant);
        if of_tenant.count() as u64 >= INVITATIONS_MAX {
            return Err(too_many_invitations());
        }
        let stored = Invitation { email, ..invitation.clone() };
        accounts.invitations.insert(stored.hash.clone(), stored);
        Ok(())
    }

    async fn invitation(&self, hash: &str) -> Result<Invitation> {
        self.tables().accounts.invitations.get(hash).cloned().ok_or_else(no_invitation)
    }

    async fn invitations(&self, tenant: &TenantId, offset: u64, count_max: u64) -> Result<Vec<Invitation>> {
        let tables = self.tables();
        let mut found: Vec<Invitation> =
            tables.accounts.invitations.values().filter(|one| one.tenant == *tenant).cloned().collect();
        found.sort_by(|a, b| a.created_ms.cmp(&b.created_ms).then_with(|| a.hash.cmp(&b.hash)));
        Ok(part(found, offset, count_max))
    }

    async fn invitations_for(&self, email: &str) -> Result<Vec<Invitation>> {
        let email = email.trim().to_lowercase();
        let tables = self.tables();
        let mut found: Vec<Invitation> =
            tables.accounts.invitations.values().filter(|one| one.email == email).cloned().collect();
        found.sort_by(|a, b| a.created_ms.cmp(&b.created_ms).then_with(|| a.hash.cmp(&b.hash)));
        Ok(found)
    }

    async fn accept_invitation(
        &self,
        invitation: &Invitation,
        joining: Joining<'_>,
        at_ms: i64,
    ) -> Result<()> {
        let accounts = &mut self.tables().accounts;
        if !accounts.invitations.contains_key(&invitation.hash) {
            return Err(no_invitation());
        }
        let user = match joining {
            Joining::New(user) => {
                let user = folded(user)?;
                accounts.check_free(&user)?;
                let id = user.id.clone();
                accounts.users.insert(id.clone(), user);
                id
            }
            Joining::Known(id) if accounts.users.contains_key(id) => id.clone(),
            Joining::Known(_) => return Err(no_user()),
        };
        accounts.invitations.remove(&invitation.hash);
        let tenant = invitation.tenant.clone();
        let before = accounts.members.get(&(tenant.clone(), user.clone())).cloned();
        let role = before.as_ref().map_or(invitation.role, |one| one.role.max(invitation.role));
        let created_ms = before.map_or(at_ms, |one| one.created_ms);
        let member = Membership { tenant: tenant.clone(), user: user.clone(), role, created_ms };
        accounts.members.insert((tenant, user), member);
        Ok(())
    }

    async fn remove_invitation(&self, tenant: &TenantId, hash: &str) -> Result<()> {
        let invitations = &mut self.tables().accounts.invitations;
        if invitations.get(hash).is_none_or(|one| one.tenant != *tenant) {
            return Err(no_invitation());
        }
        invitations.remove(hash);
        Ok(())
    }
}
