//! Replays a run from its journal.

use std::sync::Arc;

use weft_core::seam::chat_model::{ChatModel, ChatRequest, ChatStream, ModelDirectory, ModelInfo, ModelKind};
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::speech::Audio;
use weft_core::seam::{Seams, SpeechModel};
use weft_core::{Entry, Error, ErrorKind, Record, Result, RunKey, SessionKey, TenantId, async_trait};
use weft_dsl::Plan;

use super::rebuild::BegunRun;
use super::sealed::SecretHandling;
use super::{Engine, EngineLimits, Prepared};
use crate::recover::JournalReader;
use crate::replay::{Difference, Replay, ReplayLimits};
use crate::secrets::StandInSecrets;

/// A run that was replayed.
#[derive(Debug)]
pub struct Replayed {
    /// Its journal.
    pub entries: Vec<Entry>,
    /// Where the replay differs from the journal.
    pub differences: Vec<Difference>,
}

impl Engine {
    /// Replays a run from its journal, with the inputs and outside results it had then and without calling
    /// anything outside. Nothing is stored. `plan` is the canvas version that it ran.
    ///
    /// # Errors
    /// `NotFound` for an unknown run; `Conflict` when its journal does not fit the canvas or lacks what the
    /// run began with; any error of the store.
    pub async fn replay(&self, run: &StoredRun, plan: Arc<Plan>) -> Result<Replayed> {
        let stores = self.stores()?;
        let offline = self.offline();
        let secrets = offline.secrets_of(&plan, &run.key.tenant).await?;
        let entries = offline.whole_journal(&stores, &run.key, &secrets).await?;
        let session = stores.sessions.load(&SessionKey::new(&run.key.tenant, run.session.clone())).await?;
        let begun = BegunRun { run, session: &session, plan: Arc::clone(&plan), entries: &entries };
        let prepared = offline.as_begun(&stores, begun, None, secrets).await?;
        let Prepared { machine, context, .. } = prepared;
        let masks = context.masks.clone();
        // All before the work begins: the replay may find sources in another order, and they have to keep
        // their numbers.
        for entry in &entries {
            if let Record::Sourced { sources } = &entry.record {
                context.citations.note_search();
                context.citations.number(sources.iter().map(|cited| (*cited.chunk).clone()));
            }
        }
        let reading = JournalReader::new(machine, context.input.inputs.clone());
        let EngineLimits { node_time, output_bytes, values_bytes, .. } = self.0.limits;
        let limits = ReplayLimits { node: node_time, output_bytes, values_bytes };
        // Boxed, because it holds the work of all its activations.
        let differences = Box::pin(Replay::new(reading, plan, context, limits).run(&entries)).await?;
        let entries = if masks.is_empty() {
            entries
        } else {
            self.read_journal(&stores, &run.key, SecretHandling::Masked).await?
        };
        let differences = differences.into_iter().map(|difference| difference.masked(&masks)).collect();
        Ok(Replayed { entries, differences })
    }

    /// Returns this engine with stand-ins for models and secrets that no longer exist: replayed work asks
    /// what a model can do, but never calls the model.
    pub(super) fn offline(&self) -> Self {
        let seams = (*self.0.seams).clone();
        let models = Arc::new(StandIns(Arc::clone(&seams.models)));
        let secrets = Arc::new(StandInSecrets(Arc::clone(&seams.secrets)));
        let seams = Seams { models, secrets, ..seams };
        let allowances = self.0.allowances.clone();
        Self::with_allowances(Arc::new(seams), self.0.stores.clone(), self.0.limits, allowances)
    }

    /// Returns the journal of a run with its secrets masked.
    ///
    /// # Errors
    /// `NotFound`; any error of the store.
    pub async fn journal(&self, key: &RunKey) -> Result<Vec<Entry>> {
        let stores = &self.stores()?;
        self.read_journal(stores, key, SecretHandling::Masked).await
    }
}

/// Models that may no longer exist since the run was recorded.
struct StandIns(Arc<dyn ModelDirectory>);

impl ModelDirectory for StandIns {
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        self.0.resolve(tenant, llm_id).or_else(|_| Ok(Arc::new(StandIn::new(llm_id)) as Arc<dyn ChatModel>))
    }

    fn speech(&self, tenant: &TenantId, id: &str) -> Result<Arc<dyn SpeechModel>> {
        self.0.speech(tenant, id).or_else(|_| Ok(Arc::new(StandIn::new(id)) as Arc<dyn SpeechModel>))
    }

    fn list(&self, tenant: &TenantId) -> Vec<ModelInfo> {
        self.0.list(tenant)
    }
}

/// A model that does not exist.
pub(super) struct StandIn(pub ModelInfo);

impl StandIn {
    /// Large enough for whatever was said.
    const WINDOW: usize = 1 << 20;

    pub(super) fn new(llm_id: &str) -> Self {
        Self(ModelInfo {
            name: llm_id.to_owned(),
            provider: "recorded".to_owned(),
            model: llm_id.to_owned(),
            window: Self::WINDOW,
            tools: true,
            deferred_tools_max: 0,
            kind: ModelKind::Chat,
            prices: None,
        })
    }

    fn not_there(&self) -> Error {
        let message = format!("the model `{}` is not available", self.0.name);
        Error::new(ErrorKind::Unavailable, message)
    }
}

#[async_trait]
impl ChatModel for StandIn {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    async fn chat(&self, _: ChatRequest) -> Result<ChatStream> {
        Err(self.not_there())
    }
}

#[async_trait]
impl SpeechModel for StandIn {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn speak(&self, _: &str) -> Result<Audio> {
        Err(self.not_there())
    }
}
