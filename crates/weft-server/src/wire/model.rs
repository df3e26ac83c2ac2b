//! Models in lists.

use serde::Serialize;
use weft_core::seam::chat_model::{ModelInfo, ModelKind};

/// The configured models by what they are for. Every kind is there, also without a model.
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

/// Puts models in order.
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
