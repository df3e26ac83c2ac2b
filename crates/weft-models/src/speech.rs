//! Text-to-speech and speech-to-text models, over the endpoints of OpenAI's API that many other servers also have:
//! `/audio/speech` and `/audio/transcriptions`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use serde_json::json;
use weft_core::seam::chat_model::{Prices, Usage};
use weft_core::seam::speech::{Audio, Recording, SpeechModel, TranscriptionModel};
use weft_core::usage::Counted;
use weft_core::{Error, Json, Result, TenantId, async_trait};

use crate::config::ModelEntry;
use crate::factories::Provider;
use crate::remote::RemoteModel;

/// The requested format, which every browser can play.
const FORMAT: (&str, &str) = ("mp3", "audio/mpeg");
/// Maximum size of a recording in bytes: it goes into journals and streams.
const AUDIO_BYTES_MAX: usize = 8 << 20;
/// A voice of OpenAI; other servers map it to their own default or have a setting.
const VOICE: &str = "alloy";

/// The URL of an endpoint of the entry's server.
fn address(entry: &ModelEntry, route: &str) -> Result<String> {
    if entry.wire() != Provider::OpenAi {
        let provider = entry.wire().as_str();
        let what = format!("the provider `{provider}` of the model `{}` has no speech models", entry.name);
        return Err(Error::invalid(what)
            .help("set `provider` to `openai` and `base_url` to the server, which needs compatible routes"));
    }
    Ok(format!("{}/audio/{route}", entry.address()?.trim_end_matches('/')))
}

/// A text-to-speech model at an address.
pub(crate) struct HttpSpeech {
    remote: RemoteModel,
    model: String,
    voice: String,
    prices: Option<Prices>,
}

impl HttpSpeech {
    /// The model of an entry.
    ///
    /// # Errors
    /// `Invalid` when its provider has no such endpoint, or for an address that is not valid.
    pub(crate) fn new(entry: &ModelEntry, client: &reqwest::Client) -> Result<Self> {
        let remote = RemoteModel::new(entry, &address(entry, "speech")?, client)?;
        let voice = entry.voice.clone().unwrap_or_else(|| VOICE.to_owned());
        Ok(Self { remote, model: entry.provider_name().to_owned(), voice, prices: entry.prices })
    }
}

#[async_trait]
impl SpeechModel for HttpSpeech {
    fn name(&self) -> &str {
        &self.remote.name
    }

    fn prices(&self) -> Option<Prices> {
        self.prices
    }

    async fn speak(&self, text: &str) -> Result<Audio> {
        let (format, media_type) = FORMAT;
        let body =
            json!({"model": self.model, "input": text, "voice": self.voice, "response_format": format});
        let bytes = self.remote.ask(&body).await?;
        match bytes.first() {
            None => Err(self.remote.garbled("the recording is empty")),
            // No audio format starts like this.
            Some(b'{' | b'<') => Err(self.remote.garbled("it is a text, not a recording")),
            Some(_) if bytes.len() > AUDIO_BYTES_MAX => Err(self.remote.garbled("the recording is too long")),
            Some(_) => Ok(Audio { media_type: media_type.into(), base64: STANDARD.encode(bytes).into() }),
        }
    }
}

/// A speech-to-text model at an address.
pub(crate) struct HttpTranscription {
    remote: RemoteModel,
    model: String,
    prices: Option<Prices>,
}

impl HttpTranscription {
    /// The model of an entry.
    ///
    /// # Errors
    /// As for [`HttpSpeech::new`].
    pub(crate) fn new(entry: &ModelEntry, client: &reqwest::Client) -> Result<Self> {
        let remote = RemoteModel::new(entry, &address(entry, "transcriptions")?, client)?;
        Ok(Self { remote, model: entry.provider_name().to_owned(), prices: entry.prices })
    }
}

#[derive(Deserialize)]
struct TranscriptionAnswer {
    text: String,
    #[serde(default)]
    usage: Json,
}

/// The tokens reported by a server; one that counts seconds reports none.
fn usage(told: &Json) -> Usage {
    let tokens = |name: &str| told.get(name).and_then(Json::as_u64).unwrap_or_default();
    Usage {
        prompt_tokens: tokens("input_tokens"),
        completion_tokens: tokens("output_tokens"),
        calls: 1,
        ..Usage::default()
    }
}

#[async_trait]
impl TranscriptionModel for HttpTranscription {
    fn name(&self) -> &str {
        &self.remote.name
    }

    async fn transcribe(&self, tenant: &TenantId, recording: &Recording) -> Result<String> {
        self.transcribe_counted(tenant, recording).await.map(|counted| counted.given)
    }

    async fn transcribe_counted(&self, _: &TenantId, recording: &Recording) -> Result<Counted<String>> {
        let part = || {
            let part = Part::stream_with_length(recording.bytes.clone(), recording.bytes.len() as u64)
                .file_name(recording.name.clone());
            part.mime_str(&recording.media_type)
        };
        // Checked once before anything is sent, so that it cannot fail there.
        part().map_err(|_| Error::invalid(format!("`{}` is not a media type", recording.media_type)))?;
        let form = || {
            let form = Form::new().text("model", self.model.clone()).text("response_format", "json");
            match part() {
                Ok(part) => form.part("file", part),
                Err(_) => form,
            }
        };
        let body = self.remote.ask_with(|request| request.multipart(form())).await?;
        let transcript: TranscriptionAnswer =
            serde_json::from_slice(&body).map_err(|cause| self.remote.garbled(cause))?;
        let usage = usage(&transcript.usage);
        Ok(Counted { given: transcript.text, usage, prices: self.prices })
    }
}
