//! A question to a model on a wire of its own, which may have to be put again for the answer to go on.

use std::sync::Arc;

use genai::ModelSpec;
use genai::chat::{ChatOptions, ChatStream};
use url::Url;
use weft_core::Result;
use weft_core::seam::chat_model::{ChatRequest, ToolSchema};
use weft_net::{AnswerEvents, RelayedExchange};

use super::relayed::RelayedClient;
use super::{answer, question};
use crate::factories::Provider;
use crate::secret::Secret;

/// What all requests of one answer have in common.
pub(super) struct Asking {
    pub provider: Provider,
    /// The name in the configuration.
    pub model: String,
    pub key: Secret,
    /// The address of the server; genai is given another one.
    pub address: Url,
    pub client: Arc<RelayedClient>,
    pub spec: ModelSpec,
    pub options: ChatOptions,
    pub tools: Vec<ToolSchema>,
}

impl Asking {
    /// Puts a question. The exchange tells afterwards why an answer is not complete.
    ///
    /// # Errors
    /// What [`answer::failed`] makes of a failure of genai.
    pub(super) async fn ask(&mut self, request: &ChatRequest) -> Result<(ChatStream, RelayedExchange)> {
        let question = question::question(self.provider, request, &self.tools);
        // As genai reads them, whatever the server calls them.
        let events = match self.provider {
            Provider::Ollama => AnswerEvents::Lines,
            _ => AnswerEvents::ServerSent,
        };
        let exchange = self.client.relay.exchange(&self.address, events);
        // The relay takes it off again, so the server does not see it.
        self.options.extra_headers = Some(exchange.header().into());
        let asking = self.client.client.exec_chat_stream(self.spec.clone(), question, Some(&self.options));
        let asked = asking.await.map_err(|cause| answer::failed(&self.model, cause, &self.key))?;
        Ok((asked.stream, exchange))
    }
}
