//! Finds models by the `llm_id` of a canvas: `name`, `name@factory` or `name@instance@factory`.

mod entry;
mod task;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use weft_core::seam::chat_model::{ChatModel, ModelInfo, ModelKind, Prices};
use weft_core::seam::{Embedder, ModelDirectory, PictureReader, Reranker, SpeechModel, TranscriptionModel};
use weft_core::{Error, ErrorKind, Result, TenantId};

use self::entry::{KnownModel, known, model};
use self::task::{Model, ModelTask};
use crate::cache::{AnswerCache, Cached};
use crate::config::{ModelEntry, ModelsConfig, OneServer};
use crate::factories::{factory, plain_name};
use crate::fallback::FallbackModel;
use crate::pictures::VisionPictureReader;

/// Maximum number of cached models of one server, by name.
// Canvases name them, and anyone may create canvases.
const NAMES_MAX: usize = 1000;
/// Longer names are not cached.
// A canvas may contain a name of megabytes, and a thousand of those would fill the memory; no server has such a
// model.
const MODEL_NAME_BYTES_MAX: usize = 256;
/// The name sent when one server replaces everything and no model was named.
const UNNAMED: &str = "default";
/// The configured models.
pub struct Directory {
    models: Vec<KnownModel>,
    default: Option<usize>,
    replace_all: Option<usize>,
    /// The models for an empty id, for tasks other than chat.
    defaults: [Option<usize>; 4],
    /// Whether the default is used only for an empty `llm_id`.
    strict: bool,
    one_server: Option<OneServerModels>,
    /// A transcription model that replaces the default entry for that task.
    transcription: Option<Arc<dyn TranscriptionModel>>,
    answers: Arc<AnswerCache>,
}

/// A resolved model, and its number among the entries.
struct FoundModel {
    model: Arc<dyn ChatModel>,
    place: usize,
    notice: Option<String>,
}

struct OneServerModels {
    server: OneServer,
    client: reqwest::Client,
    by_name: Mutex<HashMap<String, Arc<dyn ChatModel>>>,
    /// The models for searching, if it has any.
    embeds: Option<KnownModel>,
    reranks: Option<KnownModel>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.models.iter().map(|known| known.entry.name.as_str()).collect();
        f.debug_struct("Directory").field("models", &names).finish_non_exhaustive()
    }
}

/// A parsed `llm_id`.
#[derive(Debug, PartialEq)]
struct LlmId<'a> {
    name: &'a str,
    factory: Option<&'a str>,
}

/// Parses an `llm_id`. With more than one `@`, the last one separates the factory, and the part before it may name an
/// instance, which is ignored. A single `@` is a separator only before a known factory, because names may contain
/// one.
fn wanted<'a>(llm_id: &'a str, is_known: impl Fn(&str) -> bool) -> LlmId<'a> {
    let Some((name, last)) = llm_id.rsplit_once('@') else {
        return LlmId { name: llm_id, factory: None };
    };
    match name.rsplit_once('@') {
        Some((name, _instance)) => LlmId { name, factory: Some(last) },
        None if is_known(last) => LlmId { name, factory: Some(last) },
        None => LlmId { name: llm_id, factory: None },
    }
}

impl Directory {
    /// Sets up all models. `client` is used for those that are reached over HTTP; it comes from weft-net.
    ///
    /// # Errors
    /// `Invalid` for an entry without an address, a script that cannot be read, or a `default`, `fallback`
    /// or `replace_all` that names no entry.
    pub fn open(config: &ModelsConfig, client: &reqwest::Client) -> Result<Self> {
        let set_up = |entry: &ModelEntry| known(entry, client);
        let models = config.entries.iter().map(set_up).collect::<Result<Vec<_>>>()?;
        let models = with_fallbacks(models)?;
        let place = |task: ModelTask, setting: &str, name: &Option<String>| {
            let of_task: Vec<usize> =
                (0..models.len()).filter(|at| models[*at].model.task() == task).collect();
            match name.as_deref().filter(|name| !name.is_empty()) {
                // With several, there is no default: the choice must not depend on the order in a file.
                None => Ok(of_task.first().copied().filter(|_| of_task.len() == 1)),
                Some(name) => set(&models, &format!("`{setting}`"), name, task).map(Some),
            }
        };
        let default = place(ModelTask::Answer, "models.default", &config.default)?;
        let defaults = [
            place(ModelTask::Embed, "models.default_embedding", &config.default_embedding)?,
            place(ModelTask::Rerank, "models.default_rerank", &config.default_rerank)?,
            place(ModelTask::ReadAloud, "models.default_tts", &config.default_tts)?,
            place(ModelTask::Transcribe, "models.default_speech", &config.default_speech)?,
        ];
        let replace_all = match config.replace_all.as_deref().filter(|name| !name.is_empty()) {
            None => None,
            named => place(ModelTask::Answer, "models.replace_all", &named.map(str::to_owned))?,
        };
        let one_server = config.one_server.clone();
        let one_server = one_server.map(|server| OneServerModels::open(server, client)).transpose()?;
        let answers = Arc::new(AnswerCache::new(config.cache));
        let strict = config.strict;
        let transcription = None;
        Ok(Self { models, default, replace_all, defaults, strict, one_server, transcription, answers })
    }

    /// Adds a transcription model that is not an entry: it is used for an empty id and for its own name.
    #[must_use]
    pub fn with_transcription(self, model: Arc<dyn TranscriptionModel>) -> Self {
        Self { transcription: Some(model), ..self }
    }

    /// The model for an `llm_id`, with a notice if it is not the one that was named.
    ///
    /// # Errors
    /// As for [`ModelDirectory::resolve`].
    pub fn resolve_with_notice(&self, llm_id: &str) -> Result<(Arc<dyn ChatModel>, Option<String>)> {
        self.found(llm_id).map(|found| (found.model, found.notice))
    }

    fn found(&self, llm_id: &str) -> Result<FoundModel> {
        if let Some(server) = &self.one_server {
            // The cache distinguishes models by their positions, and this is not the position of a configured one.
            return Ok(FoundModel { model: server.model(llm_id)?, place: self.models.len(), notice: None });
        }
        let llm_id = llm_id.trim();
        let (place, notice) = match (
            self.replace_all.map_or_else(|| find(&self.models, llm_id, ModelTask::Answer), Ok),
            self.default,
        ) {
            (Ok(place), _) => (place, None),
            (Err(failure), None) => return Err(failure),
            // An empty id asks for the default itself, so it is not a substitute.
            (Err(failure), Some(_)) if self.strict && !llm_id.is_empty() => {
                let otherwise = "to have the default answer";
                return Err(Error { help: failure.help.map(|help| strictly(&help, otherwise)), ..failure });
            }
            (Err(_), Some(place)) => (place, self.instead(llm_id, place)),
        };
        match &self.models[place].model {
            Model::Answers(model) => Ok(FoundModel { model: Arc::clone(model), place, notice }),
            // Only models that answer are found for this task.
            _ => Err(not_configured(ModelTask::Answer, llm_id, "is not configured", [].into_iter())),
        }
    }

    /// A model for a task other than chat. There is no substitute for a missing one: vectors of two models are
    /// unrelated.
    fn other(&self, task: ModelTask, id: &str) -> Result<&Model> {
        let of_server = self.one_server.as_ref().and_then(|server| match task {
            ModelTask::Embed => server.embeds.as_ref(),
            ModelTask::Rerank => server.reranks.as_ref(),
            ModelTask::Answer | ModelTask::ReadAloud | ModelTask::Transcribe | ModelTask::ReadPictures => {
                None
            }
        });
        if let Some(known) = of_server {
            return Ok(&known.model);
        }
        let id = id.trim();
        let default = match task {
            ModelTask::Answer | ModelTask::ReadPictures => None,
            ModelTask::Embed => self.defaults[0],
            ModelTask::Rerank => self.defaults[1],
            ModelTask::ReadAloud => self.defaults[2],
            ModelTask::Transcribe => self.defaults[3],
        };
        let place = match default.filter(|_| id.is_empty()) {
            Some(place) => place,
            None => find(&self.models, id, task)?,
        };
        Ok(&self.models[place].model)
    }

    fn instead(&self, llm_id: &str, place: usize) -> Option<String> {
        let name = &self.models[place].entry.name;
        (!llm_id.is_empty())
            .then(|| format!("the model `{llm_id}` is not configured; `{name}` is used instead"))
    }

    /// A reader of pictures, by the name of an entry: a service of the kind `ocr`, or a vision model.
    ///
    /// # Errors
    /// `Invalid` when no entry has this name, or the entry cannot read pictures.
    pub fn picture_reader(&self, name: &str) -> Result<Arc<dyn PictureReader>> {
        if let Ok(place) = look_for(&self.models, name, ModelTask::ReadPictures)
            && let Model::ReadsPictures(reader) = &self.models[place].model
        {
            return Ok(Arc::clone(reader));
        }
        let model = match (look_for(&self.models, name, ModelTask::Answer), &self.one_server) {
            (Ok(place), _) => match &self.models[place].model {
                Model::Answers(model) => Some(Arc::clone(model)),
                _ => None,
            },
            (Err(_), Some(server)) => Some(server.model(name)?),
            (Err(_), None) => None,
        };
        match model.filter(|model| model.info().writes()) {
            Some(model) => Ok(Arc::new(VisionPictureReader::new(model))),
            None => Err(Error::invalid("`documents.ocr` does not name a reader of pictures")
                .help(ModelTask::ReadPictures.remedy().0)),
        }
    }

    /// The prices of a model, by the name of its entry.
    pub fn prices(&self, name: &str) -> Option<Prices> {
        self.models.iter().find(|known| known.entry.name == name)?.entry.prices
    }
}

impl ModelDirectory for Directory {
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        let FoundModel { model, place, .. } = self.found(llm_id)?;
        if self.answers.is_off() {
            return Ok(model);
        }
        Ok(Arc::new(Cached::new(model, place, tenant.clone(), Arc::clone(&self.answers))))
    }

    fn substitution(&self, _tenant: &TenantId, llm_id: &str) -> Option<String> {
        self.found(llm_id).ok()?.notice
    }

    fn embedder(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn Embedder>> {
        match self.other(ModelTask::Embed, id)? {
            Model::Embeds(embedder) => Ok(Arc::clone(embedder)),
            _ => Err(not_configured(ModelTask::Embed, id, "is not configured", [].into_iter())),
        }
    }

    fn reranker(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn Reranker>> {
        match self.other(ModelTask::Rerank, id)? {
            Model::Reranks(reranker) => Ok(Arc::clone(reranker)),
            _ => Err(not_configured(ModelTask::Rerank, id, "is not configured", [].into_iter())),
        }
    }

    /// A ranking by another model, or by none, is worse but not wrong: as with answers of the default model, it is
    /// used with a notice, unless the settings say otherwise.
    fn reranker_notice(&self, tenant: &TenantId, id: &str) -> Result<Option<String>> {
        match self.reranker(tenant, id) {
            Ok(_) => Ok(None),
            Err(error) if error.kind != ErrorKind::NotFound => Err(error),
            Err(error) if self.strict => Err(Error {
                help: error.help.map(|help| strictly(&help, "to have passages ranked without it")),
                ..error
            }),
            Err(_) => {
                Ok(Some(format!("the reranker `{id}` is not configured; passages are ranked without it")))
            }
        }
    }

    fn speech(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn SpeechModel>> {
        match self.other(ModelTask::ReadAloud, id)? {
            Model::ReadsAloud(model) => Ok(Arc::clone(model)),
            _ => Err(not_configured(ModelTask::ReadAloud, id, "is not configured", [].into_iter())),
        }
    }

    fn transcription(&self, _tenant: &TenantId, id: &str) -> Result<Arc<dyn TranscriptionModel>> {
        let is_meant = |model: &&Arc<dyn TranscriptionModel>| id.trim().is_empty() || id == model.name();
        if let Some(model) = self.transcription.as_ref().filter(is_meant) {
            return Ok(Arc::clone(model));
        }
        match self.other(ModelTask::Transcribe, id)? {
            Model::Transcribes(model) => Ok(Arc::clone(model)),
            _ => Err(not_configured(ModelTask::Transcribe, id, "is not configured", [].into_iter())),
        }
    }

    fn list(&self, _tenant: &TenantId) -> Vec<ModelInfo> {
        let of_server = |server: &'_ OneServerModels| {
            [&server.embeds, &server.reranks].into_iter().flatten().map(|known| known.info.clone()).collect()
        };
        let of_server: Vec<ModelInfo> = self.one_server.as_ref().map(of_server).unwrap_or_default();
        self.models.iter().map(|known| known.info.clone()).chain(of_server).collect()
    }

    fn makers(&self, _tenant: &TenantId) -> Vec<String> {
        let of_server = self.one_server.iter().flat_map(|server| [&server.embeds, &server.reranks]).flatten();
        self.models.iter().chain(of_server).map(|known| known.entry.maker().to_owned()).collect()
    }
}

impl OneServerModels {
    fn open(server: OneServer, client: &reqwest::Client) -> Result<Self> {
        let search = |name: &Option<String>, kind: ModelKind| match name {
            None => Ok(None),
            Some(name) => known(&ModelEntry { kind, ..server.entry(name) }, client).map(Some),
        };
        let embeds = search(&server.embedding, ModelKind::Embedding)?;
        let reranks = search(&server.rerank, ModelKind::Rerank)?;
        Ok(Self { server, client: client.clone(), by_name: Mutex::default(), embeds, reranks })
    }

    fn model(&self, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        let own = wanted(llm_id.trim(), |_| true).name;
        let name = self.server.model.as_deref().unwrap_or(plain_name(own));
        let name = if name.is_empty() { UNNAMED } else { name };
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = by_name.get(name) {
            return Ok(Arc::clone(model));
        }
        let model = model(&self.server.entry(name), &self.client)?;
        // Names come from canvases: beyond this limit, a model is set up again each time, so that the map does not
        // grow.
        if by_name.len() < NAMES_MAX && name.len() <= MODEL_NAME_BYTES_MAX {
            by_name.insert(name.to_owned(), Arc::clone(&model));
        }
        Ok(model)
    }
}

/// The model with this name.
fn find(models: &[KnownModel], llm_id: &str, task: ModelTask) -> Result<usize> {
    look_for(models, llm_id, task)
        .map_err(|NotFound { what, candidates }| not_configured(task, llm_id, &what, candidates.into_iter()))
}

/// Same as [`find`], for a name in a setting. The name is not repeated in the error: it may be a key in the wrong
/// place.
fn set(models: &[KnownModel], setting: &str, name: &str, task: ModelTask) -> Result<usize> {
    look_for(models, name, task).map_err(|NotFound { what, candidates }| {
        let names: Vec<String> = candidates.into_iter().map(shown).collect();
        let help = if names.is_empty() {
            task.remedy().0.to_owned()
        } else {
            format!("use one of {}", names.join(", "))
        };
        Error::invalid(format!("{setting} names a model that {what}")).help(help)
    })
}

/// Why there is no such model, and the available ones.
struct NotFound<'a> {
    what: String,
    candidates: Vec<&'a KnownModel>,
}

/// Searches by name and factory, then by name alone if only one model has it; only models for this task.
fn look_for<'a>(
    models: &'a [KnownModel],
    llm_id: &str,
    task: ModelTask,
) -> std::result::Result<usize, NotFound<'a>> {
    let is_known =
        |last: &str| factory(last).is_some() || models.iter().any(|known| is_of(&known.entry, last));
    let wanted = wanted(llm_id, is_known);
    let (named, others): (Vec<usize>, Vec<usize>) = (0..models.len())
        .filter(|at| is_named(&models[*at].entry, &wanted))
        .partition(|at| models[*at].model.task() == task);
    let fitting = |at: &&usize| wanted.factory.is_some_and(|factory| is_of(&models[**at].entry, factory));
    match (named.iter().find(fitting), named.as_slice()) {
        (Some(at), _) | (None, [at]) => Ok(*at),
        (None, []) => {
            let other = |at: &usize| models[*at].model.task().words();
            let what = match others.first() {
                Some(at) => format!("is configured for {}, not for {}", other(at), task.words()),
                None => "is not configured".to_owned(),
            };
            let candidates = models.iter().filter(|known| known.model.task() == task).collect();
            Err(NotFound { what, candidates })
        }
        (None, several) => {
            let candidates = several.iter().map(|at| &models[*at]).collect();
            Err(NotFound { what: "is configured more than once".to_owned(), candidates })
        }
    }
}

fn is_named(entry: &ModelEntry, wanted: &LlmId<'_>) -> bool {
    let name = plain_name(wanted.name);
    !name.is_empty() && (plain_name(&entry.name) == name || entry.provider_name() == name)
}

fn is_of(entry: &ModelEntry, factory: &str) -> bool {
    let is = |own: &str| own.eq_ignore_ascii_case(factory);
    entry.factory.as_deref().map_or_else(|| is(entry.wire().as_str()), is)
}

fn shown(known: &KnownModel) -> String {
    match &known.entry.factory {
        Some(factory) => format!("`{}@{factory}`", known.entry.name),
        None => format!("`{}`", known.entry.name),
    }
}

fn not_configured<'a>(
    task: ModelTask,
    llm_id: &str,
    what: &str,
    candidates: impl Iterator<Item = &'a KnownModel>,
) -> Error {
    let candidates: Vec<String> = candidates.map(shown).collect();
    let wanted = match (llm_id.is_empty(), task) {
        (true, ModelTask::Answer) => "a default model".to_owned(),
        (true, _) => format!("a default model for {}", task.words()),
        (false, _) => format!("the model `{llm_id}`"),
    };
    let (add, setting) = task.remedy();
    let help = if candidates.is_empty() {
        add.to_owned()
    } else {
        format!("use one of {}, or set `{setting}`", candidates.join(", "))
    };
    Error::new(ErrorKind::NotFound, format!("MODEL_NOT_CONFIGURED: {wanted} {what}")).help(help)
}

/// The remedy when the default may not be used.
fn strictly(help: &str, otherwise: &str) -> String {
    let help = help.split(", or set `").next().unwrap_or(help);
    format!("{help}, or set `models.strict` to false {otherwise}")
}

/// The models, combined with their fallbacks.
fn with_fallbacks(mut models: Vec<KnownModel>) -> Result<Vec<KnownModel>> {
    let wrapped = (0..models.len()).map(|at| fallback(&models, at)).collect::<Result<Vec<_>>>()?;
    for (known, wrapped) in models.iter_mut().zip(wrapped) {
        if let Some(model) = wrapped {
            known.model = Model::Answers(model);
        }
    }
    Ok(models)
}

fn fallback(models: &[KnownModel], at: usize) -> Result<Option<Arc<dyn ChatModel>>> {
    let KnownModel { entry, model, .. } = &models[at];
    if entry.fallback.is_empty() {
        return Ok(None);
    }
    let setting = format!("`fallback` of the model `{}`", entry.name);
    let wrong = |what: String| Error::invalid(format!("{setting} {what}"));
    let Model::Answers(model) = model else {
        let help = "remove it: vectors and scores of different models are not comparable";
        return Err(wrong("is set, but the model is not a chat model".to_owned()).help(help));
    };
    let mut places = Vec::new();
    for name in &entry.fallback {
        let place = set(models, &setting, name, ModelTask::Answer)?;
        if place == at || places.contains(&place) {
            let what = if place == at { "names the model itself" } else { "names one model twice" };
            return Err(wrong(format!("{what}, as `{name}`")).help("remove it"));
        }
        places.push(place);
    }
    // Without their own fallbacks, so that no request goes in a circle.
    let others = places.into_iter().filter_map(|place| match &models[place].model {
        Model::Answers(other) => Some(Arc::clone(other)),
        _ => None,
    });
    Ok(Some(Arc::new(FallbackModel::new(Arc::clone(model), others.collect()))))
}
