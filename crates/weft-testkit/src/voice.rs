//! Speech without a model: a recording contains the text that was spoken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weft_core::seam::chat_model::{ChatModel, ModelInfo, Prices};
use weft_core::seam::speech::{Audio, Recording};
use weft_core::seam::{Embedder, ModelDirectory, Reranker, SpeechModel, TranscriptionModel};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

/// A speech model whose recordings contain the text itself, and which transcribes them in the same way. It fails for
/// texts that contain `unspeakable`.
#[derive(Debug, Default)]
pub struct Voice {
    /// Number of requests to speak.
    pub asked: AtomicUsize,
}

#[async_trait]
impl SpeechModel for Voice {
    fn name(&self) -> &str {
        "voice"
    }

    fn prices(&self) -> Option<Prices> {
        Some(Prices::new(1.0, 1.0))
    }

    async fn speak(&self, text: &str) -> Result<Audio> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if text.contains("unspeakable") {
            return Err(Error::new(ErrorKind::Unavailable, "the voice is gone"));
        }
        Ok(Audio { media_type: "audio/mpeg".into(), base64: STANDARD.encode(text).into() })
    }
}

#[async_trait]
impl TranscriptionModel for Voice {
    fn name(&self) -> &str {
        "voice"
    }

    async fn transcribe(&self, _: &TenantId, recording: &Recording) -> Result<String> {
        Ok(format!("{}: {}", recording.name, String::from_utf8_lossy(&recording.bytes)))
    }
}

/// A model directory that also provides this voice.
#[derive(Clone)]
pub struct WithVoice<D>(pub D, pub Arc<Voice>);

impl<D: ModelDirectory> ModelDirectory for WithVoice<D> {
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        self.0.resolve(tenant, llm_id)
    }

    fn substitution(&self, tenant: &TenantId, llm_id: &str) -> Option<String> {
        self.0.substitution(tenant, llm_id)
    }

    fn embedder(&self, tenant: &TenantId, id: &str) -> Result<Arc<dyn Embedder>> {
        self.0.embedder(tenant, id)
    }

    fn reranker(&self, tenant: &TenantId, id: &str) -> Result<Arc<dyn Reranker>> {
        self.0.reranker(tenant, id)
    }

    fn speech(&self, _: &TenantId, _: &str) -> Result<Arc<dyn SpeechModel>> {
        Ok(Arc::clone(&self.1) as Arc<dyn SpeechModel>)
    }

    fn transcription(&self, _: &TenantId, _: &str) -> Result<Arc<dyn TranscriptionModel>> {
        Ok(Arc::clone(&self.1) as Arc<dyn TranscriptionModel>)
    }

    fn list(&self, tenant: &TenantId) -> Vec<ModelInfo> {
        self.0.list(tenant)
    }

    fn makers(&self, tenant: &TenantId) -> Vec<String> {
        self.0.makers(tenant)
    }
}
