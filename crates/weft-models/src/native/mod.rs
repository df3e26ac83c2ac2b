//! Anthropic, Gemini and Ollama on their own wires, through genai.

mod answer;
mod asking;
mod blocks;
mod cache;
mod frames;
mod options;
mod question;
mod relayed;
mod seal;
mod searches;

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ModelSpec, ServiceTarget};
use url::Url;
use weft_core::seam::chat_model::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weft_core::{Error, Result, async_trait};
use weft_net::AnswerRelay;

use self::asking::Asking;
use self::frames::Noticed;
use self::relayed::RelayedClient;
use crate::config::{ModelEntry, StructuredOutput};
use crate::factories::Provider;
use crate::offer::offer;
use crate::sampling::{ModelAddress, settle};
use crate::secret::Secret;

/// A model on a wire of its own.
pub(crate) struct NativeModel {
    info: ModelInfo,
    provider: Provider,
    /// The address of the server.
    address: Url,
    /// What genai is given.
    target: ServiceTarget,
    key: Secret,
    /// Sends what genai asks.
    client: reqwest::Client,
    /// Opened with the first question, and again where another runtime asks.
    relayed: Mutex<Option<Arc<RelayedClient>>>,
    form: Option<StructuredOutput>,
}

impl NativeModel {
    /// # Errors
    /// `Invalid` for an address that is not valid.
    pub(crate) fn new(
        info: ModelInfo,
        provider: Provider,
        entry: &ModelEntry,
        client: reqwest::Client,
    ) -> Result<Self> {
        // Looked at here, when the program starts: genai would only fail at the first question.
        let address = Url::parse(&base(provider, entry.address()?)).map_err(|cause| {
            Error::invalid(format!("the base URL of the model `{}` is not valid", info.name)).because(cause)
        })?;
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(AnswerRelay::inside_url(&address).to_string()),
            auth: AuthData::from_single(entry.api_key.reveal()),
            model: ModelIden::new(adapter(provider), info.model.clone()),
        };
        let (key, form) = (entry.api_key.clone(), entry.structured_output);
        Ok(Self { info, provider, address, target, key, client, relayed: Mutex::default(), form })
    }

    /// genai, ready to ask.
    ///
    /// # Errors
    /// As for [`RelayedClient::open`].
    fn relayed(&self) -> Result<Arc<RelayedClient>> {
        let mut relayed = self.relayed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = relayed.as_ref().filter(|known| known.relay.is_open()) {
            return Ok(Arc::clone(open));
        }
        // Under the lock, so that two questions at once open one relay.
        let opened = Arc::new(RelayedClient::open(self.client.clone())?);
        *relayed = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

fn adapter(provider: Provider) -> AdapterKind {
    match provider {
        Provider::Anthropic => AdapterKind::Anthropic,
        Provider::Gemini => AdapterKind::Gemini,
        Provider::Ollama => AdapterKind::Ollama,
        // These have wires of their own here and never come this way.
        Provider::OpenAi | Provider::Scripted | Provider::Extractive | Provider::Local => AdapterKind::OpenAI,
        Provider::Cohere | Provider::Jina | Provider::Tei | Provider::DashScope | Provider::Voyage => {
            AdapterKind::OpenAI
        }
    }
}

/// People write addresses with and without the version; genai appends to what is there.
fn base(provider: Provider, address: &str) -> String {
    let address = address.trim().trim_end_matches('/');
    let versioned = |version: &str| match address.rsplit('/').next() {
        Some(last) if last.len() > 1 && last.starts_with('v') && last.as_bytes()[1].is_ascii_digit() => {
            format!("{address}/")
        }
        _ => format!("{address}/{version}/"),
    };
    match provider {
        Provider::Anthropic => versioned("v1"),
        Provider::Gemini => versioned("v1beta"),
        // The address of its OpenAI-compatible interface is often configured instead, and that has a version.
        _ => format!("{}/", address.trim_end_matches("/v1").trim_end_matches("/api")),
    }
}

#[async_trait]
impl ChatModel for NativeModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let asked = ModelAddress {
            provider: self.provider.as_str(),
            base_url: self.address.as_str(),
            model: &self.info.model,
        };
        let settled = settle(asked, &request.sampling).with_form(self.form);
        let offer = offer(self.provider, &self.info, &request);
        let noticed = Noticed::default();
        let options = options::options(self.provider, &request, &settled, &offer, Arc::clone(&noticed));
        let left_out = question::left_out(self.provider, &self.info.name, &request);
        let warnings: Vec<String> =
            settled.warnings.into_iter().chain(offer.warnings).chain(left_out).collect();
        let mut asking = Asking {
            provider: self.provider,
            model: self.info.name.clone(),
            key: self.key.clone(),
            address: self.address.clone(),
            client: self.relayed()?,
            spec: ModelSpec::from_target(self.target.clone()),
            options,
            tools: offer.tools.into_owned(),
        };
        let (answer, exchange) = asking.ask(&request).await?;
        let assembly = answer::NativeAssembly::new(asking, request, noticed, exchange);
        Ok(assembly.stream(warnings, answer).boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_accepted_with_and_without_a_version() {
        let check =
            |provider: Provider, address: &str, expected: &str| assert_eq!(base(provider, address), expected);
        check(Provider::Anthropic, "https://api.anthropic.com/", "https://api.anthropic.com/v1/");
        check(Provider::Anthropic, "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/");
        check(Provider::Gemini, "http://127.0.0.1:9/v1beta/", "http://127.0.0.1:9/v1beta/");
        check(Provider::Gemini, "http://127.0.0.1:9", "http://127.0.0.1:9/v1beta/");
        check(Provider::Ollama, "http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/");
        check(Provider::Ollama, "http://vserver/", "http://vserver/");
    }
}
