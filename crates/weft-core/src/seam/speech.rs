//! Texts that are read aloud, and speech that is written down.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::TenantId;
use crate::seam::chat_model::Prices;
use crate::usage::Counted;

/// A text as speech, in a form that journals keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audio {
    /// Its media type, such as `audio/mpeg`.
    pub media_type: Arc<str>,
    /// The bytes of a file of that type in base64.
    pub base64: Arc<str>,
}

/// A recording to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The name of its file: providers know the format by its ending.
    pub name: String,
    /// Its media type, such as `audio/mpeg`.
    pub media_type: String,
    /// The bytes of the file.
    pub bytes: Bytes,
}

/// A model that reads texts aloud.
#[async_trait]
pub trait SpeechModel: Send + Sync {
    /// The name in the configuration.
    fn name(&self) -> &str;

    /// What a million tokens cost, if it is known. A text counts as the tokens of a question; its speech is not counted.
    fn prices(&self) -> Option<Prices> {
        None
    }

    /// The text as speech.
    ///
    /// # Errors
    /// What the provider or the way to it said, by kind.
    async fn speak(&self, text: &str) -> Result<Audio>;
}

/// A model that writes down what is said in a recording. Where it does so for only a few at the same time, tenants take turns.
#[async_trait]
pub trait TranscriptionModel: Send + Sync {
    /// The name in the configuration.
    fn name(&self) -> &str;

    /// What is said.
    ///
    /// # Errors
    /// What the provider or the way to it said, by kind.
    async fn transcribe(&self, tenant: &TenantId, recording: &Recording) -> Result<String>;

    /// The same, with what that has used, where the provider tells.
    ///
    /// # Errors
    /// As [`TranscriptionModel::transcribe`].
    async fn transcribe_counted(&self, tenant: &TenantId, recording: &Recording) -> Result<Counted<String>> {
        self.transcribe(tenant, recording).await.map(Counted::untold)
    }
}
