//! The secrets that a canvas names: looked up when a run begins or goes on, held by its machine alone. Nothing
//! that is stored has their values, so each look is at what they are then.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use weft_core::masking::{self, MASK, Masks};
use weft_core::reference::Inputs;
use weft_core::seam::Secrets;
use weft_core::seam::secrets::{NamedSecret, PREFIX, SecretInfo};
use weft_core::{Error, ErrorKind, Json, Reference, Result, Secret, TenantId};
use weft_dsl::Plan;

/// The values of the secrets that a plan names, as far as there are such. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecretValues(Arc<BTreeMap<Arc<str>, NamedSecret>>);

impl SecretValues {
    /// Looks up what a plan names; most name nothing, and ask nobody.
    ///
    /// # Errors
    /// As [`Secrets::values`].
    pub(crate) async fn of(plan: &Plan, secrets: &dyn Secrets, tenant: &TenantId) -> Result<Self> {
        let names: Vec<Arc<str>> = plan.secret_names().map(Arc::from).collect();
        if names.is_empty() {
            return Ok(Self::default());
        }
        let values = secrets.values(tenant, &names).await?.into_iter();
        Ok(Self(Arc::new(values.map(|named| (Arc::clone(&named.name), named)).collect())))
    }

    /// The value of a global, when that is a secret that there is.
    pub(crate) fn global(&self, name: &str) -> Option<&str> {
        Some(self.0.get(name.strip_prefix(PREFIX)?)?.value.reveal())
    }

    /// Puts the values back into something that was stored with marks in their place.
    pub(crate) fn open(&self, stored: &mut Json) {
        masking::open(stored, |name| self.global(name).map(str::to_owned));
    }
}

/// What a session keeps, with marks in the place of the secrets that its plan names and of nothing else.
pub(crate) fn seal(state: &mut Json, plan: &Plan, masks: &Masks) {
    if plan.secret_names().next().is_some() {
        masks.seal_named(state);
    } else {
        masking::strip_marks(state);
    }
}

/// Whether every secret that an activation reads is there, but for those that it can go on without.
///
/// # Errors
/// `Unauthenticated`, as when a key is missing, with the name of the first that is not.
pub(crate) fn must_be_there(inputs: &Inputs, dispensable: &[Reference]) -> Result<()> {
    let missing = inputs.iter().find_map(|(reference, value)| {
        let name = reference.secret().filter(|_| !dispensable.contains(reference))?;
        value.as_json().is_none_or(Json::is_null).then_some(name)
    });
    let Some(name) = missing else { return Ok(()) };
    let message = format!("there is no secret `{name}`, which the canvas reads as `{{{PREFIX}{name}}}`");
    Err(Error::new(ErrorKind::Unauthenticated, message)
        .help(format!("put it with `weft secret set {name}`, or with PUT /api/v1/secrets/{name}")))
}

/// Secrets that need not be there any more: work that is done from a recording sends nothing anywhere.
pub(crate) struct StandInSecrets(pub Arc<dyn Secrets>);

#[async_trait]
impl Secrets for StandInSecrets {
    async fn put(&self, tenant: &TenantId, name: &str, value: &Secret) -> Result<SecretInfo> {
        self.0.put(tenant, name, value).await
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<SecretInfo>> {
        self.0.list(tenant).await
    }

    async fn values(&self, tenant: &TenantId, names: &[Arc<str>]) -> Result<Vec<NamedSecret>> {
        // A vault that cannot be opened any more keeps no recording from being done again.
        let mut values = self.0.values(tenant, names).await.unwrap_or_default();
        for name in names {
            if !values.iter().any(|known| known.name == *name) {
                values.push(NamedSecret { name: Arc::clone(name), value: Secret::new(MASK) });
            }
        }
        Ok(values)
    }

    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()> {
        self.0.remove(tenant, name).await
    }
}
