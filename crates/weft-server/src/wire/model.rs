//! Models in lists.

use serde::Serialize;
use weft_core::seam::chat_model::{ModelInfo, ModelKind};

/// The configured models by purpose. Every kind is present, even without a model.
#[derive(Debug, Default, Serialize)]
pub struct Models {
    chat: Vec<ModelInfo>,
    vision: Vec<ModelInfo>,
    embedding: Vec<ModelInfo>,
    rerank: Vec<ModelInfo>,
    speech: Vec<ModelInfo>,
    tts: Vec<ModelInfo>,
    ocr: Vec<ModelInfo>,
}

/// Groups models by kind.
pub fn by_kind(models: impl IntoIterator<Item = ModelInfo>) -> Models {
    let mut sorted = Models::default();
    for model in models {
        let kind = match model.kind {
            ModelKind::Chat => &mut sorted.chat,
            ModelKind::Vision => &mut sorted.vision,
            ModelKind::Embedding => &mut sorted.embedding,
            ModelKind::Rerank => &mut sorted.rerank,
            ModelKind::Speech => &mut sorted.speech,
            ModelKind::Tts => &mut sorted.tts,
            ModelKind::Ocr => &mut sorted.ocr,
        };
        kind.push(model);
    }
    sorted
}
