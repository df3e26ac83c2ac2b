//! Text-to-speech and transcription.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::Result;
use crate::id::TenantId;
use crate::tokens::Prices;
use crate::usage::Counted;

/// Spoken text, in a form that can be stored in journals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audio {
    /// Its media type, such as `audio/mpeg`.
    pub media_type: Arc<str>,
    /// The bytes of a file of that type in base64.
    pub base64: Arc<str>,
}

/// A recording to transcribe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The name of its file: providers derive the format from the extension.
    pub name: String,
    /// Its media type, such as `audio/mpeg`.
    pub media_type: String,
    /// The bytes of the file.
    pub bytes: Bytes,
}

/// A text-to-speech model.
#[async_trait]
pub trait SpeechModel: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// Returns the prices, if known. A text counts as prompt tokens; the audio is not counted.
    fn prices(&self) -> Option<Prices> {
        None
    }

    /// Returns the text as speech.
    ///
    /// # Errors
    /// The failure of the provider or of the connection to it, by kind.
    async fn speak(&self, text: &str) -> Result<Audio>;
}

/// A transcription model. If it transcribes only a few recordings at a time, tenants take turns.
#[async_trait]
pub trait TranscriptionModel: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// Returns the transcript of a recording.
    ///
    /// # Errors
    /// The failure of the provider or of the connection to it, by kind.
    async fn transcribe(&self, tenant: &TenantId, recording: &Recording) -> Result<String>;

    /// Like [`TranscriptionModel::transcribe`], with the usage if the provider reports it.
    ///
    /// # Errors
    /// As [`TranscriptionModel::transcribe`].
    async fn transcribe_counted(&self, tenant: &TenantId, recording: &Recording) -> Result<Counted<String>> {
        self.transcribe(tenant, recording).await.map(Counted::untold)
    }
}
