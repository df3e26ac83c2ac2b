//! Speech synthesis and transcription.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use weft_core::seam::speech::Recording;
use weft_core::{Error, ErrorKind, media_type};

use super::uploads::{multipart, passed_over, whole};
use crate::auth::Caller;
use crate::body::{Body, check_encoding};
use crate::error::ApiError;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::form_name::form_name;

/// Maximum number of characters of a text: providers accept no more in one request.
const LETTERS_MAX: usize = 4_096;
/// Maximum number of parts in a form, including fields that are not files.
const PARTS_MAX: usize = 20;

/// Extensions of audio files.
const RECORDINGS: &str = ".aac, .flac, .m4a, .mp3, .ogg, .opus, .wav, .weba, .webm, .wma";

/// Returns the media type of an audio file by its name; `None` for any other file.
fn kind_of(name: &str) -> Option<&'static str> {
    // These extensions may also stand for video. Browsers name recordings of the microphone `.webm`.
    match media_type::ending(name).as_str() {
        "webm" => Some("audio/webm"),
        "wma" => Some("audio/x-ms-wma"),
        _ => Some(media_type::of_name(name)).filter(|kind| kind.starts_with("audio/")),
    }
}

fn no_file() -> ApiError {
    ApiError::data("Missing 'file' in multipart form-data")
}

/// Converts the error for a missing model; the details are in the log for the operator.
fn without(error: Error, which: &str) -> ApiError {
    if error.kind != ErrorKind::NotFound {
        return error.into();
    }
    tracing::warn!(error = error.detail(), "there is no model for this request");
    ApiError::data(format!("No default {which} model is set"))
}

/// `POST …/speech`: returns `{text}` as speech.
///
/// # Errors
/// 101 without a text; 102 without a model; the error of the model.
pub(crate) async fn speak(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let text = body.text("text")?.unwrap_or_default();
    let text = text.trim();
    if text.is_empty() {
        return Err(ApiError::argument("`text` is missing"));
    }
    let letters = text.chars().count();
    if letters > LETTERS_MAX {
        return Err(ApiError::argument(format!(
            "`text` has {letters} letters, more than the maximum of {LETTERS_MAX}"
        )));
    }
    let model = state.app.models.speech(&caller.tenant, "").map_err(|error| without(error, "TTS"))?;
    let audio = model.speak(text).await?;
    let bytes = STANDARD.decode(audio.base64.as_bytes());
    let bytes = bytes.map_err(|cause| Error::internal("the recording cannot be read").because(cause))?;
    let mut response = bytes.into_response();
    let kind = HeaderValue::from_str(&audio.media_type);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind.unwrap_or(HeaderValue::from_static(media_type::UNKNOWN)));
    // The media type comes from the provider of the model, and must not be interpreted as a page.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// `POST …/transcription`: transcribes the part `file` of a form.
///
/// # Errors
/// 102 without an audio file or a model; the error of the model.
pub(crate) async fn transcribe(
    State(state): State<ServerState>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    check_encoding(request.headers())?;
    let mut form = multipart(request, &state).await.map_err(|_| no_file())?;
    let most = ("attachments.file_bytes_max", state.app.file_bytes_max);
    let (mut recording, mut parts) = (None, 0);
    while let Some(part) = form.next_part().await? {
        parts += 1;
        if parts > PARTS_MAX {
            return Err(ApiError::argument(format!("a form may have at most {PARTS_MAX} parts")));
        }
        // Other parts have to be read to the end to reach those after them.
        if part.name() != Some("file") || recording.is_some() {
            passed_over(part).await?;
            continue;
        }
        let name = form_name(part.headers(), part.file_name())?;
        let (bytes, share) = whole(state.upload_memory.share(&caller.tenant), part, most, &name).await?;
        recording = Some((name, bytes, share));
    }
    let Some((name, bytes, _share)) = recording.filter(|(_, bytes, _)| !bytes.is_empty()) else {
        return Err(no_file());
    };
    let Some(kind) = kind_of(&name) else {
        let ending = media_type::ending(&name);
        let message = format!("Unsupported audio format: .{ending}. Allowed: {RECORDINGS}");
        return Err(ApiError::data(message));
    };
    let recording = Recording { media_type: kind.to_owned(), name, bytes };
    let model = state.app.models.transcription(&caller.tenant, "").map_err(|error| without(error, "ASR"))?;
    let text = model.transcribe(&caller.tenant, &recording).await?;
    Ok(Success(json!({"text": text})).into_response())
}
