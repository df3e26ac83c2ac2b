//! Texts that are read aloud, and speech that is written down.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::Result;

/// A recording. As JSON its bytes are base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audio {
    /// Its media type, such as `audio/mpeg`.
    pub media_type: Arc<str>,
    /// The bytes of a file of that type.
    #[serde(rename = "data", serialize_with = "write_base64", deserialize_with = "read_base64")]
    pub bytes: Bytes,
}

fn write_base64<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn read_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map(Bytes::from).map_err(de::Error::custom)
}

/// A model that reads texts aloud.
#[async_trait]
pub trait SpeechModel: Send + Sync {
    /// The name in the configuration.
    fn name(&self) -> &str;

    /// The text as speech.
    ///
    /// # Errors
    /// What the provider or the way to it said, by kind.
    async fn speak(&self, text: &str) -> Result<Audio>;
}

/// A model that writes down what is said in a recording.
#[async_trait]
pub trait TranscriptionModel: Send + Sync {
    /// The name in the configuration.
    fn name(&self) -> &str;

    /// What is said. `file_name` tells providers the format by its ending.
    ///
    /// # Errors
    /// What the provider or the way to it said, by kind.
    async fn transcribe(&self, file_name: &str, audio: &Audio) -> Result<String>;
}
