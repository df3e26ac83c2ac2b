//! Which models there are, as the operator says.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use weft_core::seam::chat_model::{ModelKind, Prices};
use weft_core::{Error, Result};

use crate::cache::CacheConfig;
use crate::deadlines::AnswerDeadlines;
use crate::factories::{Factory, Provider, factory};
use crate::installed::{InstalledModel, installed};
use crate::retrying::RetryPolicy;
use crate::secret::Secret;

/// Tokens of question and answer when an entry does not say.
pub(crate) const WINDOW: usize = 32_768;

/// How long one request to a model for searching may take, when an entry does not say.
const SEARCH_REQUEST: Duration = Duration::from_secs(120);
/// Seconds of any time limit, at most: a day, so that sums of them never overflow.
const SECONDS_MAX: f64 = 86_400.0;
/// Tries after the first, at most, as in canvases.
// The wait doubles each time, so that more tries would take longer than any answer may.
const RETRIES_MAX: u32 = 20;

/// What the folder of a local model holds.
pub(crate) const MODEL_FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

/// The `models` part of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsConfig {
    /// The name of the entry for an empty or unknown `llm_id`; the only entry when there is one.
    pub default: Option<String>,
    /// Whether an `llm_id` that no entry has is an error, although there is a default.
    pub strict: bool,
    /// The name of the entry that turns texts into vectors when none is named; the only one of its kind
    /// when there is one.
    pub default_embedding: Option<String>,
    /// The name of the entry that orders passages when none is named; the only one of its kind when
    /// there is one.
    pub default_rerank: Option<String>,
    /// The name of the entry that reads texts aloud when none is named; the only one of its kind when there
    /// is one.
    pub default_tts: Option<String>,
    /// The name of the entry that writes down speech when none is named; the only one of its kind when there
    /// is one.
    pub default_speech: Option<String>,
    /// How many answers are kept for requests that allow it.
    pub cache: CacheConfig,
    /// The models.
    pub entries: Vec<ModelEntry>,
    /// The name of the entry that stands for every `llm_id` (`--model`).
    pub replace_all: Option<String>,
    /// One OpenAI-compatible server that stands for every model (`WEFT_OPENAI_BASE_URL`).
    pub one_server: Option<OneServer>,
}

/// An OpenAI-compatible server that is asked for every `llm_id`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneServer {
    /// Up to and without `/chat/completions`.
    pub base_url: String,
    /// The key, if it wants one.
    #[serde(default)]
    pub api_key: Secret,
    /// The model that stands for every other; absent: what stands before the `@` of each `llm_id`.
    #[serde(default)]
    pub model: Option<String>,
    /// The model that turns texts into vectors; absent: the server has none.
    #[serde(default)]
    pub embedding: Option<String>,
    /// The model that orders passages; absent: the server has none.
    #[serde(default)]
    pub rerank: Option<String>,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// What canvases call it.
    pub name: String,
    /// The factory canvases name after the `@`; gives `provider` and `base_url` when it is a known one.
    #[serde(default)]
    pub factory: Option<String>,
    /// The wire; `openai` by default.
    #[serde(default)]
    pub provider: Option<Provider>,
    /// The address.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The key itself.
    #[serde(default)]
    pub api_key: Secret,
    /// The environment variable that holds the key. Whoever reads the environment puts its value into
    /// `api_key` with [`ModelsConfig::with_keys`].
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// The name the provider knows it by; `name` by default.
    #[serde(default)]
    pub model: Option<String>,
    /// Tokens of question and answer together; of models for searching, tokens of one text.
    #[serde(default = "window")]
    pub window: usize,
    /// Whether it can be given tools.
    #[serde(default = "yes")]
    pub tools: bool,
    /// What it is for; to answer messages by default.
    #[serde(default)]
    pub kind: ModelKind,
    /// What it costs.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// For `scripted`: the file with its script.
    #[serde(default)]
    pub script: Option<PathBuf>,
    /// For `local`: the folder with its files.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// Numbers of a vector, for models that give the choice.
    #[serde(default)]
    pub dimensions: Option<usize>,
    /// Texts or passages of one request; as many as the provider takes by default.
    #[serde(default)]
    pub batch: Option<usize>,
    /// What goes before every question that becomes a vector, such as `query: `.
    #[serde(default)]
    pub query_prefix: Option<String>,
    /// What goes before every passage that becomes a vector, such as `passage: `.
    #[serde(default)]
    pub passage_prefix: Option<String>,
    /// The voice of a model that reads aloud; `alloy` by default.
    #[serde(default)]
    pub voice: Option<String>,
    /// Whether the scores of passages are logits (true) or from 0 to 1 (false).
    #[serde(default)]
    pub raw_scores: Option<bool>,
    /// Seconds to the first piece of an answer; 60 by default. A model on this machine that has to read a
    /// long prompt first may need many more.
    #[serde(default)]
    pub first_piece_seconds: Option<f64>,
    /// Seconds between two pieces of an answer; 60 by default.
    #[serde(default)]
    pub idle_seconds: Option<f64>,
    /// Seconds to the end of an answer. By default 600, and nine minutes after the first piece has to be
    /// there if that is later; of models for searching, 120.
    #[serde(default)]
    pub answer_seconds: Option<f64>,
    /// Tries after the first one of a request that may succeed later, unless the canvas says how many; 3 by
    /// default.
    #[serde(default)]
    pub retries: Option<u32>,
    /// How the form of an answer is asked for; by default the way the provider is known to take.
    #[serde(default)]
    pub structured_output: Option<StructuredOutput>,
    /// Whether its provider searches for tools itself, over a wire that has such a search; by default as known of the model.
    #[serde(default)]
    pub tool_search: Option<bool>,
    /// Entries that are asked in its place when it cannot answer, in this order. Their own lists are not
    /// followed.
    #[serde(default)]
    pub fallback: Vec<String>,
}

/// How a model is told what form its answer is to have. The prompt says it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// By the schema, which providers then hold their model to.
    Schema,
    /// As JSON of any form.
    Json,
    /// By the prompt alone.
    Prompt,
}

fn window() -> usize {
    WINDOW
}

fn yes() -> bool {
    true
}

impl OneServer {
    /// A model of it.
    pub(crate) fn entry(&self, name: &str) -> ModelEntry {
        let mut entry = ModelEntry::new(name, Provider::OpenAi);
        entry.base_url = Some(self.base_url.clone());
        entry.api_key = self.api_key.clone();
        entry
    }
}

impl ModelEntry {
    /// An entry with a name, a wire and nothing else.
    pub fn new(name: impl Into<String>, provider: Provider) -> Self {
        Self {
            name: name.into(),
            factory: None,
            provider: Some(provider),
            base_url: None,
            api_key: Secret::default(),
            api_key_env: None,
            model: None,
            window: WINDOW,
            tools: true,
            kind: ModelKind::default(),
            prices: None,
            script: None,
            path: None,
            dimensions: None,
            batch: None,
            query_prefix: None,
            passage_prefix: None,
            voice: None,
            raw_scores: None,
            first_piece_seconds: None,
            idle_seconds: None,
            answer_seconds: None,
            retries: None,
            structured_output: None,
            tool_search: None,
            fallback: Vec::new(),
        }
    }

    fn known_factory(&self) -> Option<&'static Factory> {
        self.factory.as_deref().and_then(factory)
    }

    /// The wire it is asked over.
    pub fn wire(&self) -> Provider {
        let of_factory = || self.known_factory().map(|known| known.wire(self.kind));
        self.provider.or_else(of_factory).unwrap_or(Provider::OpenAi)
    }

    /// The name the provider knows it by.
    pub fn provider_name(&self) -> &str {
        crate::factories::plain_name(self.model.as_deref().unwrap_or(&self.name))
    }

    /// Its name with its factory, or else its provider: what finds it again whatever comes beside it.
    pub fn full_name(&self) -> String {
        format!("{}@{}", self.name, self.maker())
    }

    /// Its factory, or else its provider.
    pub(crate) fn maker(&self) -> &str {
        self.factory.as_deref().unwrap_or(self.wire().as_str())
    }

    /// How long an answer may take.
    ///
    /// # Errors
    /// `Invalid` naming a number of seconds that is none.
    pub(crate) fn limits(&self) -> Result<AnswerDeadlines> {
        let usual = AnswerDeadlines::default();
        let first = self.seconds("first_piece_seconds", self.first_piece_seconds)?.unwrap_or(usual.first);
        let idle = self.seconds("idle_seconds", self.idle_seconds)?.unwrap_or(usual.idle);
        let total = self.seconds("answer_seconds", self.answer_seconds)?;
        // Who waits longer for the beginning has not said that less is left for the rest.
        let total = total.unwrap_or_else(|| usual.total.max(first + (usual.total - usual.first)));
        Ok(AnswerDeadlines { first, idle, total })
    }

    /// How long one request to a model for searching may take.
    ///
    /// # Errors
    /// As [`ModelEntry::limits`].
    pub(crate) fn request_limit(&self) -> Result<Duration> {
        Ok(self.seconds("answer_seconds", self.answer_seconds)?.unwrap_or(SEARCH_REQUEST))
    }

    fn seconds(&self, setting: &str, seconds: Option<f64>) -> Result<Option<Duration>> {
        let Some(seconds) = seconds else { return Ok(None) };
        let within = seconds > 0.0 && seconds <= SECONDS_MAX;
        match Duration::try_from_secs_f64(seconds).ok().filter(|limit| within && !limit.is_zero()) {
            Some(limit) => Ok(Some(limit)),
            None => Err(Error::invalid(format!("`{setting}` of the model `{}` is {seconds}", self.name))
                .help(format!("write a number of seconds above 0, at most {SECONDS_MAX}"))),
        }
    }

    /// How often and after how long it is asked again.
    ///
    /// # Errors
    /// `Invalid` for more tries than anybody could want.
    pub(crate) fn retry_policy(&self) -> Result<RetryPolicy> {
        let usual = RetryPolicy::default();
        let retries_max = self.retries.unwrap_or(usual.retries_max);
        if retries_max > RETRIES_MAX {
            let message = format!("`retries` of the model `{}` is {retries_max}", self.name);
            return Err(Error::invalid(message).help(format!("write a number from 0 to {RETRIES_MAX}")));
        }
        Ok(RetryPolicy { retries_max, ..usual })
    }

    /// The window, if somebody said one.
    pub(crate) fn own_window(&self) -> Option<usize> {
        Some(self.window).filter(|window| *window != WINDOW)
    }

    /// Without its beginning, an address such as `localhost:8080` is a URL of the scheme `localhost`, and would fail
    /// when it is asked.
    fn check_address(&self, base_url: &str) -> Result<()> {
        let wrong = || {
            Error::invalid(format!("the base URL of the model `{}` is not valid", self.name))
                .help("write it whole, such as http://127.0.0.1:8080/v1")
        };
        let url = url::Url::parse(base_url).map_err(|cause| wrong().because(cause))?;
        match url.scheme() {
            "http" | "https" => Ok(()),
            _ => Err(wrong().because("it does not begin with http:// or https://")),
        }
    }

    /// Where it is asked.
    ///
    /// # Errors
    /// `Invalid` for an address that is not valid, and when it has none and its factory none that is known.
    pub(crate) fn address(&self) -> Result<&str> {
        if let Some(url) = self.base_url.as_deref().filter(|url| !url.trim().is_empty()) {
            return self.check_address(url).map(|()| url);
        }
        let of_wire = match self.wire() {
            Provider::Anthropic => "Anthropic",
            Provider::Gemini => "Gemini",
            Provider::Ollama => "Ollama",
            Provider::OpenAi | Provider::Scripted | Provider::Extractive | Provider::Local => "OpenAI",
            Provider::Cohere => "Cohere",
            Provider::Jina => "Jina",
            Provider::Tei => "HuggingFace",
            Provider::DashScope => "Tongyi-Qianwen",
            Provider::Voyage => "Voyage AI",
        };
        let known = match &self.factory {
            None => factory(of_wire),
            Some(name) => factory(name),
        };
        known.and_then(|known| known.address(self.wire(), self.kind)).ok_or_else(|| {
            let of = self.factory.as_deref().unwrap_or(self.wire().as_str());
            Error::invalid(format!("the model `{}` of `{of}` has no address", self.name))
                .help("set its `base_url`")
        })
    }
}

/// Whether a text is a name that a variable of the environment may have, and no key.
fn is_variable(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.len() <= 64 && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(plain)
}

impl ModelsConfig {
    /// Puts the values of `api_key_env` into `api_key`.
    ///
    /// # Errors
    /// `Invalid` naming every variable that is asked for and not there.
    pub fn with_keys(mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut missing = Vec::new();
        for entry in &mut self.entries {
            let Some(variable) = &entry.api_key_env else { continue };
            match lookup(variable).filter(|key| !key.trim().is_empty()) {
                // A key that was read from a file often ends in a line break, which no header may hold.
                Some(key) => entry.api_key = Secret::new(key.trim()),
                // Named only when it looks like a name: anything else may be a key, and must not get into the
                // error.
                None if is_variable(variable) => missing.push(format!("{variable} (for `{}`)", entry.name)),
                // It looks like the key itself, put in the wrong place.
                None => missing.push(format!(
                    "`api_key_env` of `{}` is no name of a variable, such as OPENAI_API_KEY",
                    entry.name
                )),
            }
        }
        if missing.is_empty() {
            return Ok(self);
        }
        Err(Error::invalid(format!(
            "models want keys that are not in the environment: {}",
            missing.join(", ")
        )))
    }

    /// What is wrong with entries that no name tells apart: each is told with the place of the first of its name. Models of
    /// one name may have several providers, and be for several things.
    pub fn twins(&self) -> Vec<String> {
        let mut first: HashMap<(String, ModelKind), usize> = HashMap::new();
        let mut told = Vec::new();
        for (at, entry) in self.entries.iter().enumerate() {
            // Both are asked by the same ids.
            let kind = if entry.kind == ModelKind::Vision { ModelKind::Chat } else { entry.kind };
            let name = format!("{}@{}", entry.name, entry.maker().to_ascii_lowercase());
            let before = *first.entry((name, kind)).or_insert(at);
            if before < at {
                told.push(format!(
                    "models.entries.{before} and models.entries.{at} are both the model `{}`: call one of them by another \
                     `name`, and say in its `model` how its provider calls it",
                    entry.full_name()
                ));
            }
        }
        told
    }

    /// Adds the models that were installed in `folder`, a folder each, when no entry turns texts into
    /// vectors and this build can use them.
    #[must_use]
    pub fn with_installed(mut self, folder: &Path) -> Self {
        // A model that cannot run would be an error at every start.
        if !cfg!(feature = "local-embedder") {
            return self;
        }
        let has_embedder = self.entries.iter().any(|entry| entry.kind == ModelKind::Embedding);
        for InstalledModel { name, folder, kind, note } in installed(folder) {
            let by_hand = note.is_none();
            let is_known = self.entries.iter().any(|entry| entry.name == name && entry.kind == kind);
            if is_known || by_hand && kind == ModelKind::Embedding && has_embedder {
                continue;
            }
            let note = note.unwrap_or_default();
            let default = match kind {
                ModelKind::Rerank => &mut self.default_rerank,
                _ => &mut self.default_embedding,
            };
            if note.default && default.is_none() {
                *default = Some(name.clone());
            }
            let mut entry = ModelEntry::new(name, Provider::Local);
            (entry.kind, entry.path) = (kind, Some(folder));
            (entry.query_prefix, entry.passage_prefix) = (note.query_prefix, note.passage_prefix);
            self.entries.push(entry);
        }
        self
    }
}
