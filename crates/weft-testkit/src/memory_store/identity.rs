//! Identities of users at OpenID providers, and sign-ins in progress there.

use std::collections::BTreeMap;

use weft_core::id::UserId;
use weft_core::seam::IdentityStore;
use weft_core::seam::identity_store::{
    AuthorizationRequest, IDENTITIES_MAX, Identity, last_identity, too_many_identities,
};
use weft_core::{Error, ErrorKind, Result, async_trait};

use super::{MemoryStore, StoreTables, conflict};

#[derive(Default)]
pub(super) struct IdentityTables {
    identities: BTreeMap<String, Identity>,
    requests: BTreeMap<String, AuthorizationRequest>,
}

fn missing() -> Error {
    Error::not_found("there is no such identity")
}

impl StoreTables {
    pub(super) fn forget_identities(&mut self, user: &UserId) {
        self.identities.identities.retain(|_, identity| identity.user != *user);
        self.identities.requests.retain(|_, request| request.user.as_ref() != Some(user));
    }
}

#[async_trait]
impl IdentityStore for MemoryStore {
    async fn add_identity(&self, identity: &Identity) -> Result<()> {
        let mut tables = self.tables();
        if !tables.accounts.has_user(&identity.user) {
            return Err(Error::not_found("there is no such user"));
        }
        let others = tables.identities.identities.values();
        let others = others.filter(|one| one.user == identity.user && one.hash != identity.hash).count();
        if others as u64 >= IDENTITIES_MAX {
            return Err(too_many_identities());
        }
        let known = tables.identities.identities.entry(identity.hash.clone());
        let known = known.or_insert_with(|| identity.clone());
        if known.user != identity.user {
            return Err(conflict("this identity is another user's".to_owned()));
        }
        Ok(())
    }

    async fn identity(&self, hash: &str) -> Result<Identity> {
        self.tables().identities.identities.get(hash).cloned().ok_or_else(missing)
    }

    async fn identities(&self, user: &UserId, count_max: u64) -> Result<Vec<Identity>> {
        let tables = self.tables();
        let theirs = tables.identities.identities.values().filter(|identity| identity.user == *user);
        let mut found: Vec<Identity> = theirs.cloned().collect();
        found.sort_by(|a, b| a.created_ms.cmp(&b.created_ms).then_with(|| a.hash.cmp(&b.hash)));
        found.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        Ok(found)
    }

    async fn identity_used(&self, hash: &str, email: &str, at_ms: i64) -> Result<()> {
        if let Some(identity) = self.tables().identities.identities.get_mut(hash) {
            identity.used_ms = Some(at_ms);
            email.clone_into(&mut identity.email);
        }
        Ok(())
    }

    async fn remove_identity(&self, user: &UserId, hash: &str) -> Result<()> {
        let mut tables = self.tables();
        let has_password = tables.accounts.has_password(user);
        let identities = &mut tables.identities.identities;
        if identities.get(hash).is_none_or(|identity| identity.user != *user) {
            return Err(missing());
        }
        if !has_password && identities.values().filter(|one| one.user == *user).count() == 1 {
            return Err(last_identity());
        }
        identities.remove(hash);
        Ok(())
    }

    async fn add_authorization_request(
        &self,
        request: &AuthorizationRequest,
        now_ms: i64,
        count_max: u64,
    ) -> Result<()> {
        let requests = &mut self.tables().identities.requests;
        requests.retain(|_, one| one.expires_ms > now_ms);
        if requests.len() as u64 >= count_max {
            return Err(Error::new(ErrorKind::RateLimited, "too many sign-ins are under way"));
        }
        requests.insert(request.hash.clone(), request.clone());
        Ok(())
    }

    async fn take_authorization_request(&self, hash: &str) -> Result<AuthorizationRequest> {
        let taken = self.tables().identities.requests.remove(hash);
        taken.ok_or_else(|| Error::not_found("this sign-in does not exist or has ended"))
    }
}
