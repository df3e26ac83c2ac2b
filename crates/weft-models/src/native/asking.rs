//! A question to a model on a wire of its own, which may have to be put again for the answer to go on.

use genai::ModelSpec;
use genai::chat::{ChatOptions, ChatStream};
use weft_core::Result;
use weft_core::seam::chat_model::{ChatRequest, ToolSchema};

use super::{answer, question};
use crate::factories::Provider;
use crate::secret::Secret;

/// What all requests of one answer have in common.
pub(super) struct Asking {
    pub provider: Provider,
    /// The name in the configuration.
    pub model: String,
    pub key: Secret,
    pub client: genai::Client,
    pub spec: ModelSpec,
    pub options: ChatOptions,
    pub tools: Vec<ToolSchema>,
}

impl Asking {
    /// # Errors
    /// What [`answer::failed`] makes of a failure of genai.
    pub(super) async fn ask(&self, request: &ChatRequest) -> Result<ChatStream> {
        let question = question::question(self.provider, request, &self.tools);
        let asked = self.client.exec_chat_stream(self.spec.clone(), question, Some(&self.options)).await;
        Ok(asked.map_err(|cause| answer::failed(&self.model, cause, &self.key))?.stream)
    }
}
