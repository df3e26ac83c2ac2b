//! Finds models by the `llm_id` of a canvas: `name`, `name@factory` or `name@instance@factory`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use weft_core::seam::ModelDirectory;
use weft_core::seam::chat_model::{ChatModel, ModelInfo};
use weft_core::{Error, ErrorKind, Result, TenantId};

use crate::config::{ModelEntry, ModelsConfig, OneServer, Prices};
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

/// The configured models.
pub struct Directory {
    models: Vec<Known>,
    default: Option<usize>,
    replace_all: Option<usize>,
    one_server: Option<OneServerModels>,
}

struct Known {
    entry: ModelEntry,
    model: Arc<dyn ChatModel>,
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
        let set_up = |entry: &ModelEntry| Ok(Known { entry: entry.clone(), model: model(entry, client)? });
        let models = config.entries.iter().map(set_up).collect::<Result<Vec<_>>>()?;
        let place = |role: &str, name: &Option<String>| match name.as_deref().filter(|name| !name.is_empty())
        {
            None => Ok(None),
            Some(name) => find(&models, name).map(Some).map_err(|error| {
                Error::invalid(format!("`models.{role}` is `{name}`, and there is no such model"))
                    .because(error)
            }),
        };
        let only = (models.len() == 1).then_some(0);
        let (default, replace_all) =
            (place("default", &config.default)?.or(only), place("replace_all", &config.replace_all)?);
        let one_server = config.one_server.clone().map(|server| OneServerModels {
            server,
            client: client.clone(),
            by_name: Mutex::new(HashMap::new()),
        });
        Ok(Self { models, default, replace_all, one_server })
    }

    /// The model for an `llm_id`, and a sentence when it is not the one that was named.
    ///
    /// # Errors
    /// As [`ModelDirectory::resolve`].
    pub fn resolve_with_notice(&self, llm_id: &str) -> Result<(Arc<dyn ChatModel>, Option<String>)> {
        if let Some(server) = &self.one_server {
            return Ok((server.model(llm_id)?, None));
        }
        if let Some(at) = self.replace_all {
            return Ok((Arc::clone(&self.models[at].model), None));
        }
        let llm_id = llm_id.trim();
        let failure = match find(&self.models, llm_id) {
            Ok(at) => return Ok((Arc::clone(&self.models[at].model), None)),
            Err(failure) => failure,
        };
        let Some(default) = self.default.map(|at| &self.models[at]) else { return Err(failure) };
        let notice = (!llm_id.is_empty()).then(|| {
            format!("the model `{llm_id}` is not configured; `{}` is used instead", default.entry.name)
        });
        Ok((Arc::clone(&default.model), notice))
    }

    /// What a model costs, by the name of its entry.
    pub fn prices(&self, name: &str) -> Option<Prices> {
        self.models.iter().find(|known| known.entry.name == name)?.entry.prices
    }
}

impl ModelDirectory for Directory {
    fn resolve(&self, _tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        self.resolve_with_notice(llm_id).map(|(model, _)| model)
    }

    fn list(&self, _tenant: &TenantId) -> Vec<ModelInfo> {
        self.models.iter().map(|known| known.model.info().clone()).collect()
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

/// Name and factory, then the name alone if only one model has it.
fn find(models: &[Known], llm_id: &str) -> Result<usize> {
    let is_known =
        |last: &str| factory(last).is_some() || models.iter().any(|known| is_of(&known.entry, last));
    let wanted = wanted(llm_id, is_known);
    let named: Vec<usize> = (0..models.len()).filter(|at| is_named(&models[*at].entry, &wanted)).collect();
    let fitting = |at: &&usize| wanted.factory.is_some_and(|factory| is_of(&models[**at].entry, factory));
    match (named.iter().find(fitting), named.as_slice()) {
        (Some(at), _) | (None, [at]) => Ok(*at),
        (None, []) => Err(not_configured(llm_id, "is not configured", models.iter())),
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

fn model(entry: &ModelEntry, client: &reqwest::Client) -> Result<Arc<dyn ChatModel>> {
    let provider = entry.wire();
    let info = ModelInfo {
        name: entry.name.clone(),
        provider: provider.as_str().to_owned(),
        model: entry.provider_name().to_owned(),
        window: entry.window,
        tools: entry.tools,
    };
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
    let failed = || format!("cannot read the script of the model `{}`", entry.name);
    let source = std::fs::read_to_string(path).map_err(|cause| Error::invalid(failed()).because(cause))?;
    let script = Script::parse(&source).map_err(|cause| Error::invalid(failed()).because(cause))?;
    Ok(Arc::new(ScriptedModel::named(&entry.name, entry.provider_name(), script)))
}
