//! The configuration of models.

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

/// Default maximum of tokens of a request and its answer.
pub(crate) const WINDOW: usize = 32_768;

/// Default time limit of one request to a model for searching.
const SEARCH_REQUEST: Duration = Duration::from_secs(120);
/// Maximum number of seconds of any time limit: a day, so that sums of them never overflow.
const SECONDS_MAX: f64 = 86_400.0;
/// Maximum number of retries, as in canvases.
// The delay doubles each time, so more retries would take longer than any answer may.
const RETRIES_MAX: u32 = 20;

/// The `models` part of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsConfig {
    /// The name of the entry for an empty or unknown `llm_id`; defaults to the only entry if there is just one.
    pub default: Option<String>,
    /// Whether an `llm_id` without an entry is an error even if there is a default.
    pub strict: bool,
    /// The name of the default entry for embeddings; defaults to the only one of its kind if there is just one.
    pub default_embedding: Option<String>,
    /// The name of the default entry for ranking passages; defaults to the only one of its kind if there is just one.
    pub default_rerank: Option<String>,
    /// The name of the default entry for text to speech; defaults to the only one of its kind if there is just one.
    pub default_tts: Option<String>,
    /// The name of the default entry for speech to text; defaults to the only one of its kind if there is just one.
    pub default_speech: Option<String>,
    /// The cache of answers to requests that allow caching.
    pub cache: CacheConfig,
    /// The models.
    pub entries: Vec<ModelEntry>,
    /// The name of the entry that replaces every `llm_id` (`--model`).
    pub replace_all: Option<String>,
    /// One OpenAI-compatible server that replaces every model (`WEFT_OPENAI_BASE_URL`).
    pub one_server: Option<OneServer>,
}

/// An OpenAI-compatible server that is used for every `llm_id`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneServer {
    /// The URL without `/chat/completions`.
    pub base_url: String,
    /// The API key, if it requires one.
    #[serde(default)]
    pub api_key: Secret,
    /// The model that replaces every other; absent: the part before the `@` of each `llm_id`.
    #[serde(default)]
    pub model: Option<String>,
    /// The model for embeddings; absent: the server has none.
    #[serde(default)]
    pub embedding: Option<String>,
    /// The model that ranks passages; absent: the server has none.
    #[serde(default)]
    pub rerank: Option<String>,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// The name used in canvases.
    pub name: String,
    /// The factory that canvases name after the `@`; determines `provider` and `base_url` if it is a known one.
    #[serde(default)]
    pub factory: Option<String>,
    /// The wire format; `openai` by default.
    #[serde(default)]
    pub provider: Option<Provider>,
    /// The base URL.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The key itself.
    #[serde(default)]
    pub api_key: Secret,
    /// The environment variable with the key. The code that reads the environment puts its value into `api_key` with
    /// [`ModelsConfig::with_keys`].
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// The name of the model at its provider; `name` by default.
    #[serde(default)]
    pub model: Option<String>,
    /// Maximum tokens of a request and its answer together; for search models, maximum tokens of one text.
    #[serde(default = "window")]
    pub window: usize,
    /// Whether it supports tools.
    #[serde(default = "yes")]
    pub tools: bool,
    /// Its purpose; answering messages by default.
    #[serde(default)]
    pub kind: ModelKind,
    /// Its prices.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// For `scripted`: the file with its script.
    #[serde(default)]
    pub script: Option<PathBuf>,
    /// For `local`: the folder with its files.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// The number of dimensions of a vector, for models that let the caller choose.
    #[serde(default)]
    pub dimensions: Option<usize>,
    /// The number of texts or passages per request; by default as many as the provider accepts.
    #[serde(default)]
    pub batch: Option<usize>,
    /// A prefix of every question that is embedded, such as `query: `.
    #[serde(default)]
    pub query_prefix: Option<String>,
    /// A prefix of every passage that is embedded, such as `passage: `.
    #[serde(default)]
    pub passage_prefix: Option<String>,
    /// The voice of a text-to-speech model; `alloy` by default.
    #[serde(default)]
    pub voice: Option<String>,
    /// Whether the scores of passages are logits (true) or from 0 to 1 (false).
    #[serde(default)]
    pub raw_scores: Option<bool>,
    /// Seconds until the first piece of an answer; 60 by default. A model on this machine that has to process a long
    /// prompt first may need many more.
    #[serde(default)]
    pub first_piece_seconds: Option<f64>,
    /// Seconds between two pieces of an answer; 60 by default.
    #[serde(default)]
    pub idle_seconds: Option<f64>,
    /// Seconds until the end of an answer. By default 600, or nine minutes after the deadline of the first piece if
    /// that is later; for search models, 120.
    #[serde(default)]
    pub answer_seconds: Option<f64>,
    /// Retries of a request that may succeed later, unless the canvas sets a number; 3 by default.
    #[serde(default)]
    pub retries: Option<u32>,
    /// How the form of an answer is requested; by default as the provider is known to support it.
    #[serde(default)]
    pub structured_output: Option<StructuredOutput>,
    /// Whether its provider searches for tools, with a wire format that has such a search; by default as known of the
    /// model.
    #[serde(default)]
    pub tool_search: Option<bool>,
    /// Entries that are asked instead when it cannot answer, in this order. Their own fallbacks are not used.
    #[serde(default)]
    pub fallback: Vec<String>,
}

/// How a model is told the form of its answer. The prompt contains it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// With the schema, which providers then enforce.
    Schema,
    /// As JSON of any form.
    Json,
    /// With the prompt alone.
    Prompt,
}

fn window() -> usize {
    WINDOW
}

fn yes() -> bool {
    true
}

impl OneServer {
    /// An entry for one of its models.
    pub(crate) fn entry(&self, name: &str) -> ModelEntry {
        let mut entry = ModelEntry::new(name, Provider::OpenAi);
        entry.base_url = Some(self.base_url.clone());
        entry.api_key = self.api_key.clone();
        entry
    }
}

impl ModelEntry {
    /// An entry with only a name and a wire format.
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

    /// Its wire format.
    pub fn wire(&self) -> Provider {
        let of_factory = || self.known_factory().map(|known| known.wire(self.kind));
        self.provider.or_else(of_factory).unwrap_or(Provider::OpenAi)
    }

    /// The name of the model at its provider.
    pub fn provider_name(&self) -> &str {
        crate::factories::plain_name(self.model.as_deref().unwrap_or(&self.name))
    }

    /// Its name with its factory, or else its provider: this identifies it regardless of entries added later.
    pub fn full_name(&self) -> String {
        format!("{}@{}", self.name, self.maker())
    }

    /// Its factory, or else its provider.
    pub(crate) fn maker(&self) -> &str {
        self.factory.as_deref().unwrap_or(self.wire().as_str())
    }

    /// The time limits of an answer.
    ///
    /// # Errors
    /// `Invalid` naming an invalid number of seconds.
    pub(crate) fn limits(&self) -> Result<AnswerDeadlines> {
        let usual = AnswerDeadlines::default();
        let first = self.seconds("first_piece_seconds", self.first_piece_seconds)?.unwrap_or(usual.first);
        let idle = self.seconds("idle_seconds", self.idle_seconds)?.unwrap_or(usual.idle);
        let total = self.seconds("answer_seconds", self.answer_seconds)?;
        // A longer limit for the first piece must not shorten the time for the rest.
        let total = total.unwrap_or_else(|| usual.total.max(first + (usual.total - usual.first)));
        Ok(AnswerDeadlines { first, idle, total })
    }

    /// The time limit of one request to a model for searching.
    ///
    /// # Errors
    /// As for [`ModelEntry::limits`].
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

    /// The retry policy.
    ///
    /// # Errors
    /// `Invalid` for an excessive number of retries.
    pub(crate) fn retry_policy(&self) -> Result<RetryPolicy> {
        let usual = RetryPolicy::default();
        let retries_max = self.retries.unwrap_or(usual.retries_max);
        if retries_max > RETRIES_MAX {
            let message = format!("`retries` of the model `{}` is {retries_max}", self.name);
            return Err(Error::invalid(message).help(format!("write a number from 0 to {RETRIES_MAX}")));
        }
        Ok(RetryPolicy { retries_max, ..usual })
    }

    /// The window, if one was configured.
    pub(crate) fn own_window(&self) -> Option<usize> {
        Some(self.window).filter(|window| *window != WINDOW)
    }

    /// Checks that an address is an HTTP URL. Without the scheme, an address such as `localhost:8080` is a URL with
    /// the scheme `localhost`, and would fail only when it is used.
    fn check_address(&self, base_url: &str) -> Result<()> {
        let wrong = || {
            Error::invalid(format!("the base URL of the model `{}` is not valid", self.name))
                .help("enter the complete URL, such as http://127.0.0.1:8080/v1")
        };
        let url = url::Url::parse(base_url).map_err(|cause| wrong().because(cause))?;
        match url.scheme() {
            "http" | "https" => Ok(()),
            _ => Err(wrong().because("it does not begin with http:// or https://")),
        }
    }

    /// The base URL.
    ///
    /// # Errors
    /// `Invalid` for an address that is not valid, and when neither the entry nor its factory has one.
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

/// Whether a text is a plausible name of an environment variable, and not a key.
fn is_variable(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.len() <= 64 && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(plain)
}

impl ModelsConfig {
    /// Fills `api_key` with the values of the variables in `api_key_env`.
    ///
    /// # Errors
    /// `Invalid` naming every requested variable that is not set.
    pub fn with_keys(mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut missing = Vec::new();
        for entry in &mut self.entries {
            let Some(variable) = &entry.api_key_env else { continue };
            match lookup(variable).filter(|key| !key.trim().is_empty()) {
                // A key that was read from a file often ends with a line break, which is not allowed in a header.
                Some(key) => entry.api_key = Secret::new(key.trim()),
                // Named only if it looks like a variable name: anything else may be a key, and must not get into the
                // error.
                None if is_variable(variable) => missing.push(format!("{variable} (for `{}`)", entry.name)),
                // It looks like the key itself in the wrong place.
                None => missing.push(format!(
                    "`api_key_env` of `{}` is not the name of a variable, such as OPENAI_API_KEY",
                    entry.name
                )),
            }
        }
        if missing.is_empty() {
            return Ok(self);
        }
        Err(Error::invalid(format!(
            "API keys of models are missing from the environment: {}",
            missing.join(", ")
        )))
    }

    /// The problems of entries that cannot be told apart by name: each is reported with the position of the first
    /// entry of its name. Models with the same name may have different providers and purposes.
    pub fn twins(&self) -> Vec<String> {
        let mut first: HashMap<(String, ModelKind), usize> = HashMap::new();
        let mut told = Vec::new();
        for (at, entry) in self.entries.iter().enumerate() {
            // Both are addressed by the same ids.
            let kind = if entry.kind == ModelKind::Vision { ModelKind::Chat } else { entry.kind };
            let name = format!("{}@{}", entry.name, entry.maker().to_ascii_lowercase());
            let before = *first.entry((name, kind)).or_insert(at);
            if before < at {
                told.push(format!(
                    "models.entries.{before} and models.entries.{at} are both the model `{}`: give one of them another \
                     `name`, and enter the provider's name for it as `model`",
                    entry.full_name()
                ));
            }
        }
        told
    }

    /// Adds the models installed in `folder`, one folder each, if no entry computes embeddings and this build can use
    /// them.
    #[must_use]
    pub fn with_installed(mut self, folder: &Path) -> Self {
        // Otherwise a model that cannot run would cause an error at every start.
        if !cfg!(feature = "local-embedder") {
            return self;
        }
        let has_embedder = self.entries.iter().any(|entry| entry.kind == ModelKind::Embedding);
        for InstalledModel { name, folder, kind, note } in installed(folder) {
            let by_hand = note.is_none();
            // An entry of the operator with the same name replaces the installed model.
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
