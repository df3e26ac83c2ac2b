//! Which models there are, as the operator says.

use serde::Deserialize;
use weft_core::seam::chat_model::{ModelKind, Prices};
use weft_core::{Error, Result};

use crate::cache::CacheConfig;
use crate::factories::{Factory, Provider, factory};
use crate::secret::Secret;

/// Tokens of question and answer when an entry does not say.
pub(crate) const WINDOW: usize = 32_768;

/// The `models` part of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsConfig {
    /// The name of the entry for an empty or unknown `llm_id`; the only entry when there is one.
    pub default: Option<String>,
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
    /// Tokens of question and answer together.
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
    pub script: Option<std::path::PathBuf>,
}

fn window() -> usize {
    WINDOW
}

fn yes() -> bool {
    true
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
        }
    }

    fn known_factory(&self) -> Option<&'static Factory> {
        self.factory.as_deref().and_then(factory)
    }

    /// The wire it is asked over.
    pub fn wire(&self) -> Provider {
        self.provider.or_else(|| self.known_factory().map(|known| known.provider)).unwrap_or(Provider::OpenAi)
    }

    /// The name the provider knows it by.
    pub fn provider_name(&self) -> &str {
        crate::factories::plain_name(self.model.as_deref().unwrap_or(&self.name))
    }

    /// Where it is asked.
    ///
    /// # Errors
    /// `Invalid` when it has no address and its factory none that is known.
    pub(crate) fn address(&self) -> Result<&str> {
        if let Some(url) = self.base_url.as_deref().filter(|url| !url.trim().is_empty()) {
            return Ok(url);
        }
        let of_wire = match self.wire() {
            Provider::Anthropic => "Anthropic",
            Provider::Gemini => "Gemini",
            Provider::Ollama => "Ollama",
            Provider::OpenAi | Provider::Scripted | Provider::Extractive => "OpenAI",
        };
        let known = match &self.factory {
            None => factory(of_wire),
            Some(name) => factory(name),
        };
        known.and_then(|known| known.base_url).ok_or_else(|| {
            let factory = self.factory.as_deref().unwrap_or_default();
            Error::invalid(format!("the model `{}` of `{factory}` has no address", self.name))
                .help("set its `base_url`")
        })
    }
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
                Some(key) => entry.api_key = Secret::new(key.trim()),
                None => missing.push(format!("{variable} (for `{}`)", entry.name)),
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
}
