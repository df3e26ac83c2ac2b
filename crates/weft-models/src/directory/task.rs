//! The tasks of models.

use std::sync::Arc;

use weft_core::seam::chat_model::ChatModel;
use weft_core::seam::{Embedder, PictureReader, Reranker, SpeechModel, TranscriptionModel};

/// A model, by its task.
pub(super) enum Model {
    Answers(Arc<dyn ChatModel>),
    Embeds(Arc<dyn Embedder>),
    Reranks(Arc<dyn Reranker>),
    ReadsAloud(Arc<dyn SpeechModel>),
    Transcribes(Arc<dyn TranscriptionModel>),
    ReadsPictures(Arc<dyn PictureReader>),
}

impl Model {
    pub(super) fn task(&self) -> ModelTask {
        match self {
            Self::Answers(_) => ModelTask::Answer,
            Self::Embeds(_) => ModelTask::Embed,
            Self::Reranks(_) => ModelTask::Rerank,
            Self::ReadsAloud(_) => ModelTask::ReadAloud,
            Self::Transcribes(_) => ModelTask::Transcribe,
            Self::ReadsPictures(_) => ModelTask::ReadPictures,
        }
    }
}

/// The task for which a model is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelTask {
    Answer,
    Embed,
    Rerank,
    ReadAloud,
    Transcribe,
    ReadPictures,
}

impl ModelTask {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Answer => "answering messages",
            Self::Embed => "embedding texts",
            Self::Rerank => "reranking passages",
            Self::ReadAloud => "reading aloud",
            Self::Transcribe => "transcribing speech",
            Self::ReadPictures => "reading pictures",
        }
    }

    /// The remedy when there is no model for the task, and the setting that selects one of several.
    pub(super) fn remedy(self) -> (&'static str, &'static str) {
        match self {
            Self::Answer => ("add it to `models`, or set OPENAI_API_KEY or start Ollama", "models.default"),
            Self::Embed => {
                ("add an entry with `kind = \"embedding\"` to `models.entries`", "models.default_embedding")
            }
            Self::Rerank => {
                ("add an entry with `kind = \"rerank\"` to `models.entries`", "models.default_rerank")
            }
            Self::ReadAloud => {
                ("add an entry with `kind = \"tts\"` to `models.entries`", "models.default_tts")
            }
            Self::Transcribe => {
                ("add an entry with `kind = \"speech\"` to `models.entries`", "models.default_speech")
            }
            Self::ReadPictures => (
                "set it to `none`, `tesseract`, or the name of an entry of `models.entries` with `kind = \"ocr\"` or \
                 `kind = \"vision\"`",
                "documents.ocr",
            ),
        }
    }
}
