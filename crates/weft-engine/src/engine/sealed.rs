//! Reads journals back from the store: with the values of secrets to resume a run, and masked for people.

use weft_core::masking::{self, Masks};
use weft_core::seam::secrets::PREFIX;
use weft_core::{Entry, Error, ErrorKind, Record, Result, RunKey, SessionKey, TenantId};
use weft_dsl::Plan;

use super::{Engine, Stores};
use crate::secrets::SecretValues;
use crate::session::SessionState;
use crate::values;

/// Number of entries read from the store at a time.
// A journal may have 256 MiB; read in one piece, it would be held twice.
const PAGE: u64 = 512;

/// How the secrets in a journal are read.
#[derive(Clone, Copy)]
pub(super) enum SecretHandling<'a> {
    /// With their values, to resume a run. Only the tenant's secrets that the plan names are opened: anything
    /// else that looks like a secret's mark is ordinary text. Their values are looked up once, so that
    /// whatever is opened here stays masked from here on, even if a secret is changed meanwhile.
    Opened(&'a SecretValues),
    /// Masked, as anyone may see them.
    Masked,
}

/// The values behind the marks.
struct Values {
    globals: serde_json::Map<String, weft_core::Json>,
    secrets: SecretValues,
}

impl Values {
    fn get(&self, name: &str) -> Option<String> {
        if name.starts_with(PREFIX) {
            self.secrets.global(name).map(str::to_owned)
        } else {
            values::secret(&self.globals, name)
        }
    }
}

impl Engine {
    /// Returns the masks with which a run of a new session would begin, for texts that are stored before there is a run.
    ///
    /// # Errors
    /// When the secrets cannot be read.
    pub async fn masks_at_first(&self, plan: &Plan, tenant: &TenantId) -> Result<Masks> {
        Ok(values::masks_at_first(plan, &self.secrets_of(plan, tenant).await?))
    }

    /// Returns the first record of a run with the secrets that were in it, to compare it with a question: for nobody to
    /// read, and never to be stored. A secret that was removed since stays masked. `None` if there is no record yet, or
    /// one of another format.
    ///
    /// # Errors
    /// When the journal, the session or the secrets cannot be read.
    pub async fn begun(&self, key: &RunKey, plan: &Plan) -> Result<Option<Record>> {
        let stores = self.stores()?;
        let Some(stored) = stores.runs.entries(key, 0, 1).await?.into_iter().next() else { return Ok(None) };
        let secrets = self.secrets_of(plan, &key.tenant).await?;
        let masked = serde_json::from_str(&masking::shown(&stored.record)).ok();
        let values = self.values_of(&stores, key, &secrets, masked).await?;
        Ok(serde_json::from_str(&masking::opened(&stored.record, |name| values.get(name))).ok())
    }

    /// Returns the values that marks in a journal stand for: those of its session's variables and of the
    /// secrets that its plan names. The session is named by `begun`, the first record of the journal, if that
    /// can be read without the values.
    async fn values_of(
        &self,
        stores: &Stores,
        key: &RunKey,
        secrets: &SecretValues,
        begun: Option<Record>,
    ) -> Result<Values> {
        let mut found = Values { globals: serde_json::Map::new(), secrets: secrets.clone() };
        let Some(Record::RunStarted { session, .. }) = begun else { return Ok(found) };
        match stores.sessions.load(&SessionKey::new(&key.tenant, session)).await {
            Ok(mut session) => {
                found.secrets.open(&mut session.state);
                found.globals = SessionState::from_json(&session.state)?.globals;
                Ok(found)
            }
            Err(error) if error.kind == ErrorKind::NotFound => Ok(found),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn whole_journal(
        &self,
        stores: &Stores,
        key: &RunKey,
        secrets: &SecretValues,
    ) -> Result<Vec<Entry>> {
        self.read_journal(stores, key, SecretHandling::Opened(secrets)).await
    }

    pub(super) async fn read_journal(
        &self,
        stores: &Stores,
        key: &RunKey,
        how: SecretHandling<'_>,
    ) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut values = None;
        loop {
            let after = entries.last().map_or(0, |entry| entry.seq);
            let page = stores.runs.entries(key, after, PAGE).await?;
            if page.is_empty() {
                return Ok(entries);
            }
            for stored in page {
                // Looked up at the first mark: most journals have none, and their sessions need not be read.
                if let (SecretHandling::Opened(secrets), None) = (how, &values)
                    && masking::is_sealed(&stored.record)
                {
                    let begun = entries.first().map(|entry| entry.record.clone());
                    let begun = begun.or_else(|| serde_json::from_str(&masking::shown(&stored.record)).ok());
                    values = Some(self.values_of(stores, key, secrets, begun).await?);
                }
                let value = |name: &str| values.as_ref()?.get(name);
                let record =
                    serde_json::from_str(&masking::opened(&stored.record, value)).map_err(|cause| {
                        let message = format!("cannot read entry {} of run {}", stored.seq, key.id);
                        Error::internal(message).because(cause)
                    })?;
                entries.push(Entry { seq: stored.seq, event: stored.event, at_ms: stored.at_ms, record });
            }
        }
    }
}
