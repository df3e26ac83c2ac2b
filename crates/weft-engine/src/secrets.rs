//! The secrets that a canvas names: looked up when a run begins or resumes, and held only by its machine.
//! Nothing that is stored contains their values, so each look-up gets the current ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_core::masking::{self, MASK, Masks};
use weft_core::reference::Inputs;
use weft_core::seam::Secrets;
use weft_core::seam::secrets::{NamedSecret, PREFIX, SecretInfo};
use weft_core::{Entry, Error, ErrorKind, Json, Record, Reference, Result, Secret, TenantId, async_trait};
use weft_dsl::Plan;

/// The values of the secrets that a plan names, where they exist. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecretValues(Arc<BTreeMap<Arc<str>, NamedSecret>>);

impl SecretValues {
    /// Looks up the secrets that a plan names; most plans name none, and then nothing is queried.
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

    /// Returns the value of a global, if it is an existing secret.
    pub(crate) fn global(&self, name: &str) -> Option<&str> {
        Some(self.0.get(name.strip_prefix(PREFIX)?)?.value.reveal())
    }

    /// Returns the values without those of secrets that did not exist when this journal was written, according to
    /// the nodes that failed for lack of them.
    pub(crate) fn without_missing(self, entries: &[Entry]) -> Self {
        let was_missing = |name: &str| {
            let message = missing(name).message;
            entries.iter().any(|entry| match &entry.record {
                Record::NodeFinished { error: Some(error), .. } => error.contains(&message),
                _ => false,
            })
        };
        if !self.0.keys().any(|name| was_missing(name)) {
            return self;
        }
        let there = self.0.iter().filter(|(name, _)| !was_missing(name));
        Self(Arc::new(there.map(|(name, value)| (Arc::clone(name), value.clone())).collect()))
    }

    /// Puts the values back into JSON that was stored with marks in their place.
    pub(crate) fn open(&self, stored: &mut Json) {
        masking::open(stored, |name| self.global(name).map(str::to_owned));
    }
}

/// Replaces the secrets that the plan names by marks in what a session stores, and removes anything else that
/// looks like a mark.
pub(crate) fn seal(state: &mut Json, plan: &Plan, masks: &Masks) {
    if plan.secret_names().next().is_some() {
        masks.seal_named(state);
    } else {
        masking::strip_marks(state);
    }
}

/// Checks that every secret an activation reads exists, except those it can do without.
///
/// # Errors
/// `Unauthenticated`, as when a key is missing, with the name of the first missing secret.
pub(crate) fn must_be_there(inputs: &Inputs, dispensable: &[Reference]) -> Result<()> {
    let absent = inputs.iter().find_map(|(reference, value)| {
        let name = reference.secret().filter(|_| !dispensable.contains(reference))?;
        value.as_json().is_none_or(Json::is_null).then_some(name)
    });
    absent.map_or(Ok(()), |name| Err(missing(name)))
}

/// Returns the error of a node that reads a secret which does not exist.
fn missing(name: &str) -> Error {
    let message = format!("there is no secret `{name}`, which the canvas reads as `{{{PREFIX}{name}}}`");
    Error::new(ErrorKind::Unauthenticated, message)
        .help(format!("set it with `weft secret set {name}`, or with PUT /api/v1/secrets/{name}"))
}

/// Secrets that need not exist any more: replayed work sends nothing anywhere.
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
        // A vault that can no longer be opened must not prevent a replay.
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
