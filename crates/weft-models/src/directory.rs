//! Finds models by the `llm_id` of a canvas: `name`, `name@factory` or `name@instance@factory`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use weft_core::seam::ModelDirectory;
use weft_core::seam::chat_model::{ChatModel, ModelInfo, ModelKind, Prices};
use weft_core::{Error, ErrorKind, Result, TenantId};

use crate::cache::{Answers, Cached};
use crate::config::{ModelEntry, ModelsConfig, OneServer, WINDOW};
use crate::deadlines::{Deadlines, Limits};
use crate::extractive::Extractive;
use crate::factories::{Provider, factory, plain_name};
use crate::openai::OpenAi;
use crate::retrying::{RetryPolicy, Retrying};
use crate::script::Script;
use crate::scripted::ScriptedModel;

/// Models of one server that are remembered by name.
const NAMES_MAX: usize = 1000;
/// The name sent when one server stands for everything and nobody named a model.
const UNNAMED: &str = "default";
/// Of a model for another purpose.
const SILENT: &str = "is configured for something else than answering messages";

/// The configured models.
pub struct Directory {
    models: Vec<Known>,
    default: Option<usize>,
    replace_all: Option<usize>,
    one_server: Option<OneServerModels>,
    answers: Arc<Answers>,
}

struct Known {
    entry: ModelEntry,
    info: ModelInfo,
    /// None for those that answer no messages.
    model: Option<Arc<dyn ChatModel>>,
}

/// A model that was found, and its number among the entries.
struct Found {
    model: Arc<dyn ChatModel>,
    place: usize,
    notice: Option<String>,
}

struct OneServerModels {
    server: OneServer,
    client: reqwest::Client,
    by_name: Mutex<HashMap<String, Arc<dyn ChatModel>>>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.models.iter().map(|known| known.entry.name.as_str()).collect();
        f.debug_struct("Directory").field("models", &names).finish_non_exhaustive()
    }
}

/// An `llm_id` taken apart.
#[derive(Debug, PartialEq)]
struct Wanted<'a> {
    name: &'a str,
    factory: Option<&'a str>,
}

/// More than one `@` splits at the last, and the part before it may name an instance, which we have
/// none of; a single `@` splits only before something that is known, since names may hold one.
fn wanted<'a>(llm_id: &'a str, is_known: impl Fn(&str) -> bool) -> Wanted<'a> {
    let Some((name, last)) = llm_id.rsplit_once('@') else {
        return Wanted { name: llm_id, factory: None };
    };
    match name.rsplit_once('@') {
        Some((name, _instance)) => Wanted { name, factory: Some(last) },
        None if is_known(last) => Wanted { name, factory: Some(last) },
        None => Wanted { name: llm_id, factory: None },
    }
}

impl Directory {
    /// Sets up every model. `client` asks those that are asked over HTTP; it comes from weft-net.
    ///
    /// # Errors
    /// `Invalid` for an entry without an address, a script that cannot be read, or a `default` or
    /// `replace_all` that names no entry.
    pub fn open(config: &ModelsConfig, client: &reqwest::Client) -> Result<Self> {
        let set_up = |entry: &ModelEntry| known(entry, client);
        let models = config.entries.iter().map(set_up).collect::<Result<Vec<_>>>()?;
        let place = |role: &str, name: &Option<String>| match name.as_deref().filter(|name| !name.is_empty())
        {
            None => Ok(None),
            Some(name) => find(&models, name).map(Some).map_err(|error| {
                Error::invalid(format!("`models.{role}` is `{name}`, and there is no such model"))
                    .because(error)
            }),
        };
        let answering: Vec<usize> = (0..models.len()).filter(|at| models[*at].model.is_some()).collect();
        let only = answering.first().copied().filter(|_| answering.len() == 1);
        let (default, replace_all) =
            (place("default", &config.default)?.or(only), place("replace_all", &config.replace_all)?);
        let one_server = config.one_server.clone().map(|server| OneServerModels {
            server,
            client: client.clone(),
            by_name: Mutex::new(HashMap::new()),
        });
        let answers = Arc::new(Answers::new(config.cache));
        Ok(Self { models, default, replace_all, one_server, answers })
    }

    /// The model for an `llm_id`, and a sentence when it is not the one that was named.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    pub fn resolve_with_notice(&self, llm_id: &str) -> Result<(Arc<dyn ChatModel>, Option<String>)> {
        self.found(llm_id).map(|found| (found.model, found.notice))
    }

    fn found(&self, llm_id: &str) -> Result<Found> {
        if let Some(server) = &self.one_server {
            return Ok(Found { model: server.model(llm_id)?, place: self.models.len(), notice: None });
        }
        let llm_id = llm_id.trim();
        let (place, notice) =
            match (self.replace_all.map_or_else(|| find(&self.models, llm_id), Ok), self.default) {
                (Ok(place), _) => (place, None),
                (Err(failure), None) => return Err(failure),
                (Err(_), Some(place)) => (place, self.instead(llm_id, place)),
            };
        let model = self.models[place].model.as_ref();
        let model = model.ok_or_else(|| not_configured(llm_id, SILENT, [].into_iter()))?;
        Ok(Found { model: Arc::clone(model), place, notice })
    }

    fn instead(&self, llm_id: &str, place: usize) -> Option<String> {
        let name = &self.models[place].entry.name;
        (!llm_id.is_empty())
            .then(|| format!("the model `{llm_id}` is not configured; `{name}` is used instead"))
    }

    /// What a model costs, by the name of its entry.
    pub fn prices(&self, name: &str) -> Option<Prices> {
        self.models.iter().find(|known| known.entry.name == name)?.entry.prices
    }
}

impl ModelDirectory for Directory {
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        let Found { model, place, .. } = self.found(llm_id)?;
        if self.answers.is_off() {
            return Ok(model);
        }
        Ok(Arc::new(Cached::new(model, place, tenant.clone(), Arc::clone(&self.answers))))
    }

    fn list(&self, _tenant: &TenantId) -> Vec<ModelInfo> {
        self.models.iter().map(|known| known.info.clone()).collect()
    }
}

impl OneServerModels {
    fn model(&self, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        let own = wanted(llm_id.trim(), |_| true).name;
        let name = self.server.model.as_deref().unwrap_or(plain_name(own));
        let name = if name.is_empty() { UNNAMED } else { name };
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = by_name.get(name) {
            return Ok(Arc::clone(model));
        }
        let mut entry = ModelEntry::new(name, Provider::OpenAi);
        entry.base_url = Some(self.server.base_url.clone());
        entry.api_key = self.server.api_key.clone();
        let model = model(&entry, &self.client)?;
        if by_name.len() < NAMES_MAX {
            by_name.insert(name.to_owned(), Arc::clone(&model));
        }
        Ok(model)
    }
}

/// Name and factory, then the name alone if only one model has it; only models that answer messages.
fn find(models: &[Known], llm_id: &str) -> Result<usize> {
    let is_known =
        |last: &str| factory(last).is_some() || models.iter().any(|known| is_of(&known.entry, last));
    let wanted = wanted(llm_id, is_known);
    let (named, silent): (Vec<usize>, Vec<usize>) = (0..models.len())
        .filter(|at| is_named(&models[*at].entry, &wanted))
        .partition(|at| models[*at].model.is_some());
    let fitting = |at: &&usize| wanted.factory.is_some_and(|factory| is_of(&models[**at].entry, factory));
    match (named.iter().find(fitting), named.as_slice()) {
        (Some(at), _) | (None, [at]) => Ok(*at),
        (None, []) => {
            let what = if silent.is_empty() { "is not configured" } else { SILENT };
            Err(not_configured(llm_id, what, models.iter().filter(|known| known.model.is_some())))
        }
        (None, several) => {
            Err(not_configured(llm_id, "is configured more than once", several.iter().map(|at| &models[*at])))
        }
    }
}

fn is_named(entry: &ModelEntry, wanted: &Wanted<'_>) -> bool {
    let name = plain_name(wanted.name);
    !name.is_empty() && (plain_name(&entry.name) == name || entry.provider_name() == name)
}

fn is_of(entry: &ModelEntry, factory: &str) -> bool {
    let is = |own: &str| own.eq_ignore_ascii_case(factory);
    entry.factory.as_deref().map_or_else(|| is(entry.wire().as_str()), is)
}

fn not_configured<'a>(llm_id: &str, what: &str, candidates: impl Iterator<Item = &'a Known>) -> Error {
    let shown = |known: &Known| match &known.entry.factory {
        Some(factory) => format!("`{}@{factory}`", known.entry.name),
        None => format!("`{}`", known.entry.name),
    };
    let candidates: Vec<String> = candidates.map(shown).collect();
    let wanted =
        if llm_id.is_empty() { "a default model".to_owned() } else { format!("the model `{llm_id}`") };
    let help = match candidates.is_empty() {
        true => "add it to `models`, or set OPENAI_API_KEY or start Ollama".to_owned(),
        false => format!("use one of {}, or set `models.default`", candidates.join(", ")),
    };
    Error::new(ErrorKind::NotFound, format!("MODEL_NOT_CONFIGURED: {wanted} {what}")).help(help)
}

fn info(entry: &ModelEntry) -> ModelInfo {
    ModelInfo {
        name: entry.name.clone(),
        provider: entry.wire().as_str().to_owned(),
        model: entry.provider_name().to_owned(),
        window: entry.window,
        tools: entry.tools,
        kind: entry.kind,
        prices: entry.prices,
    }
}

fn known(entry: &ModelEntry, client: &reqwest::Client) -> Result<Known> {
    let answers = matches!(entry.kind, ModelKind::Chat | ModelKind::Vision);
    let model = answers.then(|| model(entry, client)).transpose()?;
    let info = model.as_ref().map_or_else(|| info(entry), |model| model.info().clone());
    Ok(Known { entry: entry.clone(), info, model })
}

fn model(entry: &ModelEntry, client: &reqwest::Client) -> Result<Arc<dyn ChatModel>> {
    let provider = entry.wire();
    let info = info(entry);
    match provider {
        Provider::Extractive => Ok(Arc::new(Extractive::new(&entry.name))),
        Provider::Scripted => scripted(entry),
        Provider::OpenAi => {
            let wire = OpenAi::new(info, entry.address()?, entry.api_key.clone(), client.clone())?;
            Ok(dependable(wire))
        }
        Provider::Anthropic | Provider::Gemini | Provider::Ollama => {
            let wire = crate::native::Native::new(info, provider, entry, client.clone())?;
            Ok(dependable(wire))
        }
    }
}

fn dependable(wire: impl ChatModel + 'static) -> Arc<dyn ChatModel> {
    Arc::new(Retrying::new(Deadlines::new(wire, Limits::default()), RetryPolicy::default()))
}

fn scripted(entry: &ModelEntry) -> Result<Arc<dyn ChatModel>> {
    let Some(path) = &entry.script else {
        let error = Error::invalid(format!("the scripted model `{}` has no script", entry.name));
        return Err(error.help("set `script` to the file with its replies"));
    };
    let failed = || format!("cannot read the script {} of the model `{}`", path.display(), entry.name);
    let source = std::fs::read_to_string(path).map_err(|cause| Error::invalid(failed()).because(cause))?;
    let script = Script::parse(&source).map_err(|cause| Error::invalid(failed()).because(cause))?;
    let model = ScriptedModel::named(&entry.name, entry.provider_name(), script);
    Ok(Arc::new(model.with_info(|info| {
        (info.tools, info.kind, info.prices) = (entry.tools, entry.kind, entry.prices);
        if entry.window != WINDOW {
            info.window = entry.window;
        }
    })))
}
