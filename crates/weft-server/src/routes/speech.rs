//! Texts read aloud, and recordings written down.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use weft_core::seam::speech::Recording;
use weft_core::{Error, ErrorKind, media_type};

use super::uploads::{multipart, passed_over, timely, whole};
use crate::auth::Caller;
use crate::body::Body;
use crate::error::ApiError;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::form_name::form_name;

/// A text may have as many letters: providers take no more in one request.
const LETTERS_MAX: usize = 4_096;
/// Parts of a form, fields that are no file included.
const PARTS_MAX: usize = 20;

/// What names of recordings end in.
const RECORDINGS: &str = ".aac, .flac, .m4a, .mp3, .ogg, .opus, .wav, .weba, .webm, .wma";

/// The media type of a recording by its name; none for what is no recording.
fn kind_of(name: &str) -> Option<&'static str> {
    // Elsewhere these endings may stand for a film, too. Browsers call what their microphone heard `.webm`.
    match media_type::ending(name).as_str() {
        "webm" => Some("audio/webm"),
        "wma" => Some("audio/x-ms-wma"),
        _ => Some(media_type::of_name(name)).filter(|kind| kind.starts_with("audio/")),
    }
}

fn no_file() -> ApiError {
    ApiError::data("Missing 'file' in multipart form-data")
}

/// What is said where there is no model for it; the operator reads the rest in the log.
fn without(error: Error, which: &str) -> ApiError {
    if error.kind != ErrorKind::NotFound {
        return error.into();
    }
    tracing::warn!(error = error.detail(), "there is no model for this request");
    ApiError::data(format!("No default {which} model is set"))
}

/// `POST …/speech`: `{text}` as a recording.
///
/// # Errors
/// 101 without a text; 102 without a model; what the model fails with.
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
        return Err(ApiError::argument(format!("`text` has {letters} letters; {LETTERS_MAX} are the most")));
    }
    let model = state.app.models.speech(&caller.tenant, "").map_err(|error| without(error, "TTS"))?;
    let audio = model.speak(text).await?;
    let bytes = STANDARD.decode(audio.base64.as_bytes());
    let bytes = bytes.map_err(|cause| Error::internal("the recording cannot be read").because(cause))?;
    let mut response = bytes.into_response();
    let kind = HeaderValue::from_str(&audio.media_type);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind.unwrap_or(HeaderValue::from_static(media_type::UNKNOWN)));
    // What a model's provider calls a recording is not taken for a page.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// `POST …/transcription`: what is said in the part `file` of a form.
///
/// # Errors
/// 102 without a recording or a model; what the model fails with.
pub(crate) async fn transcribe(
    State(state): State<ServerState>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let mut form = multipart(request, &state).await.map_err(|_| no_file())?;
    let most = ("attachments.file_bytes_max", state.app.file_bytes_max);
    let (mut recording, mut parts) = (None, 0);
    while let Some(part) = timely(form.next_field()).await? {
        parts += 1;
        if parts > PARTS_MAX {
            return Err(ApiError::argument(format!("a form may have {PARTS_MAX} parts")));
        }
        // Read to their end all the same: what follows stands behind them.
        if part.name() != Some("file") || recording.is_some() {
            passed_over(part).await?;
            continue;
        }
        let name = form_name(part.headers(), part.file_name())?;
        let bytes = whole(part, most, &name).await?;
        recording = Some((name, bytes));
    }
    let Some((name, bytes)) = recording.filter(|(_, bytes)| !bytes.is_empty()) else {
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
