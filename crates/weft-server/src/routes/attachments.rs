//! Files of conversations: those that people attach, and those that runs create.

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use weft_core::CanvasKey;
use weft_core::error::found;
use weft_core::id::FileId;
use weft_core::media_type::ending;
use weft_core::seam::file_store::{StoredFile, download_path, is_document};

use super::owned::or;
use super::uploads::{FormCount, MultipartForm, form, next_file};
use crate::auth::Caller;
use crate::body::Params;
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::document;
use crate::wire::envelope::Success;

/// Maximum number of files in one request.
const FILES_MAX: usize = 20;

/// `POST …/upload`: every part with the name `file`.
///
/// # Errors
/// 101 without a file, 102 for an unknown agent; the error of storing the file.
pub(crate) async fn upload(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, ApiError> {
    if params.get("url").is_some_and(|url| !url.is_empty()) {
        return Err(ApiError::data("files are not fetched from URLs; upload the file itself"));
    }
    let canvas = CanvasKey::new(&caller.tenant, id);
    // Looked up before the files are received, which may take long.
    let newest = state.app.canvases.newest(&canvas).await;
    newest.map_err(|error| or(error, ApiError::data("canvas not found.")))?;
    let (app, maker) = (state.app.clone(), caller.user_id.clone());
    let kept = app.whole(async move |given_up| {
        let form = form(request, &state, given_up).await?;
        keep_all(&state, &caller, form).await
    });
    let kept = kept.await??;
    let described: Vec<Json> = kept.iter().map(|file| descriptor(file, &maker)).collect();
    match <[Json; 1]>::try_from(described) {
        Ok([one]) => Ok(Success(one).into_response()),
        Err(several) if several.is_empty() => Err(ApiError::argument("No file part!")),
        Err(several) => Ok(Success(several).into_response()),
    }
}

/// Stores the files of a form: all of them, or none.
async fn keep_all(
    state: &ServerState,
    caller: &Caller,
    mut form: MultipartForm,
) -> Result<Vec<StoredFile>, ApiError> {
    let mut kept = Vec::new();
    let outcome = keep_each(state, caller, &mut form, &mut kept).await;
    if outcome.is_err() && !kept.is_empty() {
        // A failed request leaves no files behind: no client would know their ids, and they take up space.
        let ids: Vec<FileId> = kept.iter().map(|file| file.id.clone()).collect();
        state.app.files.remove(&caller.tenant, &ids).await?;
    }
    outcome.map(|()| kept)
}

async fn keep_each(
    state: &ServerState,
    caller: &Caller,
    form: &mut MultipartForm,
    kept: &mut Vec<StoredFile>,
) -> Result<(), ApiError> {
    let most = ("attachments.file_bytes_max", state.app.file_bytes_max);
    let mut count = FormCount::new(FILES_MAX);
    let share = || state.upload_memory.share(&caller.tenant);
    while let Some((name, bytes, _share)) = next_file(share, form, &mut count, most, |_| Ok(())).await? {
        kept.push(state.app.keep_file(&caller.tenant, caller.file_owner(), &name, bytes).await?);
    }
    Ok(())
}

/// The description that a client sends to attach the file to a turn.
fn descriptor(file: &StoredFile, maker: &str) -> Json {
    // Exact for every time within 280,000 years.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    let created = file.created_ms as f64 / 1_000.0;
    json!({
        "id": file.id,
        "name": file.name,
        "size": file.size,
        "extension": ending(&file.name),
        "mime_type": file.mime_type,
        "created_by": maker,
        "created_at": created,
        "preview_url": null,
        "url": download_path(&file.id),
    })
}

/// `GET …/attachments/{id}/download` and its older names.
///
/// # Errors
/// 102 for an unknown file.
pub(crate) async fn download(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    file(&state, &caller, &id).await
}

/// `GET …/download?id=`.
///
/// # Errors
/// 101 without an id, 102 for an unknown file.
pub(crate) async fn download_named(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let id =
        params.get("id").filter(|id| !id.is_empty()).ok_or_else(|| ApiError::argument("`id` is missing"))?;
    file(&state, &caller, id).await
}

/// `GET /api/v1/documents/artifact/{file}`: a file that a run has created, addressed by its id and the extension of
/// its name.
///
/// # Errors
/// 102 for a file type that runs do not create, and for an unknown file.
pub(crate) async fn artifact(
    State(state): State<ServerState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    const ENDINGS: [&str; 15] = [
        "csv", "docx", "gif", "htm", "html", "jpeg", "jpg", "json", "md", "pdf", "png", "svg", "txt", "webp",
        "xlsx",
    ];
    match name.rsplit_once('.') {
        Some((id, ending)) if ENDINGS.contains(&ending.to_lowercase().as_str()) => {
            file(&state, &caller, id).await
        }
        _ => Err(ApiError::data("invalid file type")),
    }
}

async fn file(state: &ServerState, caller: &Caller, id: &str) -> Result<Response, ApiError> {
    let id = FileId::from(id);
    if !may_read(state, caller, &id).await? {
        return Err(no_file());
    }
    let (file, bytes) =
        state.app.files.read(&caller.tenant, &id).await.map_err(|error| or(error, no_file()))?;
    Ok(sent(&file.name, &file.mime_type, bytes))
}

fn no_file() -> ApiError {
    ApiError::data("Artifact not found.")
}

/// Returns whether the caller may read this file, if it exists. Holders of a share token read only what was uploaded
/// with the token, and what the runs of their own conversations have created.
async fn may_read(state: &ServerState, caller: &Caller, id: &FileId) -> Result<bool, ApiError> {
    if !caller.is_share() {
        return Ok(true);
    }
    // The ids of documents are not secret.
    if is_document(id) {
        return Ok(false);
    }
    let Some(file) = found(state.app.files.find(&caller.tenant, id).await)? else { return Ok(false) };
    Ok(state.app.belongs_to(&caller.tenant, &caller.user_id, &file).await?)
}

/// Sends a file as an attachment, never inline, so that its content never runs in a page of this server.
pub(super) fn sent(name: &str, kind: &str, bytes: Bytes) -> Response {
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_str(kind).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_TYPE, kind);
    if let Ok(attachment) = HeaderValue::from_str(&document::attachment(name)) {
        headers.insert(header::CONTENT_DISPOSITION, attachment);
    }
    // Even where a browser shows it, it is not taken for another type, and nothing in it runs.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    response
}
