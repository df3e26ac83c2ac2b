//! Replays a run from its journal.

use std::collections::HashSet;
use std::sync::Arc;

use weft_core::journal::RunSettings;
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
use crate::secrets::{SecretValues, StandInSecrets};

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
        let stand_ins = StandInSecrets(Arc::clone(&self.0.seams.secrets));
        let secrets = SecretValues::of(&plan, &stand_ins, &run.key.tenant).await?;
        let entries = self.whole_journal(&stores, &run.key, &secrets).await?;
        let secrets = secrets.without_missing(&entries);
        let offline = self.offline(&plan, &entries);
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

    /// Returns this engine with the models and the budgets that a run had, as far as its journal describes them,
    /// and with stand-ins for secrets that no longer exist: replayed work asks what a model can do, but never
    /// calls the model.
    fn offline(&self, plan: &Plan, entries: &[Entry]) -> Self {
        let settings = match entries.first().map(|entry| &entry.record) {
            Some(Record::RunStarted { settings, .. }) => settings.clone(),
            _ => None,
        };
        let (mut limits, mut allowances) = (self.0.limits, self.0.allowances.clone());
        if let Some(RunSettings { budget, session_budget, .. }) = settings.as_deref() {
            limits.budget = *budget;
            // A run that adds a document to a dataset has this instead of the one in its budget.
            limits.pipeline_model_calls = budget.model_calls.unwrap_or(u64::MAX);
            allowances.session = *session_budget;
        }
        let seams = (*self.0.seams).clone();
        let directory = Arc::clone(&seams.models);
        let models = Arc::new(StandIns { directory, settings, without_tools: without_tools(plan, entries) });
        let secrets = Arc::new(StandInSecrets(Arc::clone(&seams.secrets)));
        let seams = Seams { models, secrets, ..seams };
        Self::with_allowances(Arc::new(seams), self.0.stores.clone(), limits, allowances)
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

/// The warning of an agent whose model cannot call tools, as it is in journals that do not describe their models.
const WITHOUT_TOOLS: &str = "doesn't support tool calls: the planner is used";

/// Returns the models that could not call tools according to the warnings in a journal.
fn without_tools(plan: &Plan, entries: &[Entry]) -> HashSet<String> {
    let warned = entries.iter().filter_map(|entry| match &entry.record {
        Record::Warned { node, message } if message.ends_with(WITHOUT_TOOLS) => Some(node),
        _ => None,
    });
    let warned: HashSet<_> = warned.collect();
    let nodes = plan.nodes.iter().filter(|node| warned.contains(&node.id));
    nodes.flat_map(|node| node.shape.models.iter().map(|(_, llm_id)| llm_id.clone())).collect()
}

/// The models of a run, which may no longer exist, or have changed, since it was recorded.
struct StandIns {
    directory: Arc<dyn ModelDirectory>,
    /// Describes them, unless the journal is older.
    settings: Option<Arc<RunSettings>>,
    /// Those that could not call tools, for journals that do not describe them.
    without_tools: HashSet<String>,
}

impl ModelDirectory for StandIns {
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        if let Some(info) = self.settings.as_ref().and_then(|settings| settings.models.get(llm_id)) {
            return Ok(Arc::new(StandIn(info.clone())));
        }
        let configured = self.directory.resolve(tenant, llm_id);
        if !self.without_tools.contains(llm_id) {
            return configured.or_else(|_| Ok(Arc::new(StandIn::new(llm_id)) as Arc<dyn ChatModel>));
        }
        let info = configured.map_or_else(|_| StandIn::new(llm_id).0, |model| model.info().clone());
        Ok(Arc::new(StandIn(ModelInfo { tools: false, ..info })))
    }

    fn speech(&self, tenant: &TenantId, id: &str) -> Result<Arc<dyn SpeechModel>> {
        self.directory.speech(tenant, id).or_else(|_| Ok(Arc::new(StandIn::new(id)) as Arc<dyn SpeechModel>))
    }

    fn list(&self, tenant: &TenantId) -> Vec<ModelInfo> {
        self.directory.list(tenant)
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
