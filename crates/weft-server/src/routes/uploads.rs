//! Uploads of files that become documents. Only one file of a request is in memory at a time, and the files of all
//! requests together are limited there; a request that fails removes what it has stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{self, Bytes};
use axum::extract::multipart::{Field, Multipart, MultipartError, MultipartRejection};
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, future, stream};
use tokio_util::sync::CancellationToken;
use weft_core::DocumentId;
use weft_core::seam::dataset_store::{Dataset, Document, DocumentQuota};
use weft_knowledge::ingest::Naming;

use super::owned;
use crate::auth::Caller;
use crate::body::{Body, Params, check_encoding};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::upload_memory::UploadShare;
use crate::wire::document::{self, dataset_not_found, view};
use crate::wire::envelope::Success;
use crate::wire::form_name::form_name;

/// Maximum number of files in one request.
const FILES_MAX: usize = 1_000;

/// Maximum time without any data of the body.
// The total time has no limit, because a large file over a slow line may take hours.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Number of bytes that may arrive before the head of a part is complete.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// `POST …/documents`: stores every part with the name `file`. The request must be a form by its content type. With
/// `?type=empty`, creates a document without text, for manually written chunks.
///
/// # Errors
/// 101 without a file or for a name that is not valid; 102 for an unknown dataset, and for an empty document whose
/// name is taken; 500 for a file type that is not supported.
pub(crate) async fn upload(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, ApiError> {
    let missing = |id: &str| dataset_not_found(&caller.tenant, id);
    let dataset = owned::dataset(&state, &caller, &id, missing).await?;
    match params.get("type").unwrap_or("local") {
        "local" => {}
        "empty" => return empty(&state, &dataset, request).await,
        "web" => {
            let message = "web pages are not fetched; upload the page as a file";
            return Err(ApiError::data(message));
        }
        _ => {
            let message = "`type` must be one of \"local\", \"web\", or \"empty\".";
            return Err(ApiError::argument(message));
        }
    }
    let app = state.app.clone();
    // Not dropped with the connection: what has been stored of the form is then removed.
    let kept = app.whole(async move |given_up| {
        let form = form(request, &state, given_up).await?;
        keep_all(&state, &dataset, form).await
    });
    let kept = kept.await??;
    Ok(Success(kept.iter().map(view).collect::<Vec<_>>()).into_response())
}

/// Returns a form that ends when its sender disconnects, so that what was stored of it is removed.
pub(super) async fn form(
    request: Request,
    state: &ServerState,
    given_up: CancellationToken,
) -> Result<MultipartForm, ApiError> {
    check_encoding(request.headers())?;
    let sent = |sent: body::Body| {
        body::Body::from_stream(sent.into_data_stream().take_until(given_up.cancelled_owned()))
    };
    multipart(request.map(sent), state).await.map_err(|_| ApiError::argument("No file part!"))
}

/// Reads the form of a request.
///
/// # Errors
/// When the request has no form.
pub(super) async fn multipart(
    request: Request,
    state: &ServerState,
) -> Result<MultipartForm, MultipartRejection> {
    // multer 3.1 looks twice for the first line before it waits. If data arrives between the two together with the
    // end of the body, it takes the form to lack that line; therefore the end arrives separately.
    let end = || stream::once(tokio::task::yield_now()).filter_map(|()| future::ready(None));
    let limit = Arc::new(HeadLimit { left: AtomicUsize::new(usize::MAX), exceeded: AtomicBool::new(false) });
    let of_pieces = Arc::clone(&limit);
    let sent = |sent: body::Body| {
        let pieces = sent.into_data_stream().then(move |piece| {
            let limit = Arc::clone(&of_pieces);
            async move {
                // multer takes all pieces that are there before it looks at them. One at a time is enough for the
                // head of a part, and what follows it must not count as a part of the head.
                tokio::task::yield_now().await;
                limit.counted(piece?)
            }
        });
        body::Body::from_stream(pieces.chain(end()))
    };
    Ok(MultipartForm { parts: Multipart::from_request(request.map(sent), state).await?, limit })
}

/// A form, part by part.
pub(super) struct MultipartForm {
    parts: Multipart,
    limit: Arc<HeadLimit>,
}

impl MultipartForm {
    /// Returns the next part. The part before it must have been read to its end.
    ///
    /// # Errors
    /// 101 for a form that is malformed, has a part whose head is too long, or does not arrive in time; 413.
    pub(super) async fn next_part(&mut self) -> Result<Option<Field<'_>>, ApiError> {
        self.limit.left.store(HEAD_BYTES_MAX, Ordering::Relaxed);
        let next = timely(self.parts.next_field()).await;
        // This limit is for heads only: the content of a part has its own.
        self.limit.left.store(usize::MAX, Ordering::Relaxed);
        if self.limit.exceeded.load(Ordering::Relaxed) {
            let message =
                format!("the head of a part of the form is too long: it may have {HEAD_BYTES_MAX} bytes");
            return Err(ApiError::argument(message));
        }
        next
    }
}

/// Limits what arrives while the head of a part is incomplete: multer keeps all of it in memory, searches it again
/// with every piece, and has no maximum for it.
struct HeadLimit {
    /// Number of bytes that may still arrive; outside of heads, other limits apply.
    left: AtomicUsize,
    exceeded: AtomicBool,
}

impl HeadLimit {
    // Relaxed: pieces are counted where the form is read, in the same task.
    fn counted(&self, piece: Bytes) -> Result<Bytes, axum::Error> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            self.exceeded.store(true, Ordering::Relaxed);
            return Err(axum::Error::new("the head of a part is too long"));
        }
        // A piece may be longer than what is left, because the content of the part follows its head.
        self.left.store(left.saturating_sub(piece.len()), Ordering::Relaxed);
        Ok(piece)
    }
}

/// Stores the files of a form as documents: all of them, or none unless the process ends in between.
async fn keep_all(
    state: &ServerState,
    dataset: &Dataset,
    mut form: MultipartForm,
) -> Result<Vec<Document>, ApiError> {
    let mut kept = Vec::new();
    match keep_each(state, dataset, &mut form, &mut kept).await {
        Ok(()) if kept.is_empty() => Err(ApiError::argument("No file part!")),
        Ok(()) => Ok(kept),
        Err(error) => {
            let ids: Vec<DocumentId> = kept.into_iter().map(|document| document.key.id).collect();
            if !ids.is_empty() {
                state.app.library.remove_documents(&dataset.key, &ids).await?;
            }
            Err(error)
        }
    }
}

/// Creates the empty document that a body names.
async fn empty(state: &ServerState, dataset: &Dataset, mut request: Request) -> Result<Response, ApiError> {
    // The size limit for files does not apply to a name.
    DefaultBodyLimit::max(state.app.limits.body_bytes).apply(&mut request);
    let given = Body::from_request(request, state).await?.text("name")?.unwrap_or_default();
    if given.trim().is_empty() {
        return Err(ApiError::argument("File name can't be empty."));
    }
    let name = document::file_name(&given)?;
    refuse_kind(&name)?;
    let (app, state, dataset) = (state.app.clone(), state.clone(), dataset.clone());
    let keep = async move |_| kept_as_document(&state, &dataset, &name, Bytes::new(), Naming::Exact).await;
    Ok(Success(view(&app.whole(keep).await??)).into_response())
}

async fn keep_each(
    state: &ServerState,
    dataset: &Dataset,
    form: &mut MultipartForm,
    kept: &mut Vec<Document>,
) -> Result<(), ApiError> {
    let most = ("documents.file_bytes_max", state.app.library.file_bytes_max());
    let mut count = FormCount::new(FILES_MAX);
    let share = || state.upload_memory.share(&dataset.key.tenant);
    while let Some((name, bytes, _share)) = next_file(share, form, &mut count, most, refuse_kind).await? {
        // An empty file whose name does not tell its type either.
        if bytes.is_empty() && document::is_text(&name) && !state.app.library.knows(&name) {
            return Err(unsupported(&name));
        }
        kept.push(kept_as_document(state, dataset, &name, bytes, Naming::Numbered).await?);
    }
    Ok(())
}

/// Rejects file types that cannot be parsed, judging by the name.
pub(super) fn refuse_kind(name: &str) -> Result<(), ApiError> {
    if document::is_no_document(name) { Err(unsupported(name)) } else { Ok(()) }
}

fn unsupported(name: &str) -> ApiError {
    ApiError::new(code::FAILED, format!("{name}: This type of file has not been supported yet!"))
}

/// Stores a file as a new document, within the quota. Slides, mails and pictures get chunk methods of their own,
/// whatever the dataset uses for other files. If this fails, no document is created.
pub(super) async fn kept_as_document(
    state: &ServerState,
    dataset: &Dataset,
    name: &str,
    bytes: Bytes,
    naming: Naming,
) -> Result<Document, ApiError> {
    let (library, limits) = (&state.app.library, &state.app.limits);
    let quota = DocumentQuota { documents: limits.tenant_documents, bytes: limits.tenant_document_bytes };
    let kept = library.upload_within(&dataset.key, (name, bytes), naming, quota).await;
    let kept = kept.map_err(|error| owned::or_taken(error, document::name_taken()))?;
    let Some(change) = document::suited(&kept) else { return Ok(kept) };
    match library.update_document(&kept.key, &change).await {
        Ok(suited) => Ok(suited),
        Err(error) => {
            library.remove_documents(&dataset.key, std::slice::from_ref(&kept.key.id)).await?;
            Err(error.into())
        }
    }
}

/// Counts the parts of a form.
pub(super) struct FormCount {
    files_max: usize,
    files: usize,
    parts: usize,
}

impl FormCount {
    /// Creates a counter for a form that may have `files_max` files, and as many other fields.
    pub(super) fn new(files_max: usize) -> Self {
        Self { files_max, files: 0, parts: 0 }
    }

    /// Counts a part of any kind.
    ///
    /// # Errors
    /// 101 when the form has too many.
    pub(super) fn part(&mut self) -> Result<(), ApiError> {
        self.parts += 1;
        if self.parts > 2 * self.files_max { Err(self.too_many()) } else { Ok(()) }
    }

    /// Counts a part as a file. Called when a file arrives, because other fields may follow the last one.
    ///
    /// # Errors
    /// 101 when the form has too many.
    pub(super) fn file(&mut self) -> Result<(), ApiError> {
        self.files += 1;
        if self.files > self.files_max { Err(self.too_many()) } else { Ok(()) }
    }

    fn too_many(&self) -> ApiError {
        ApiError::argument(format!("one request can contain at most {} files", self.files_max))
    }
}

/// Reads the next file of a form if `checked` accepts its name, up to the limit of a setting. Passes over other fields.
/// The share is to be held until the file is stored.
pub(super) async fn next_file(
    share: impl Fn() -> UploadShare,
    form: &mut MultipartForm,
    count: &mut FormCount,
    most: (&str, u64),
    checked: impl Fn(&str) -> Result<(), ApiError>,
) -> Result<Option<(String, Bytes, UploadShare)>, ApiError> {
    while let Some(part) = form.next_part().await? {
        count.part()?;
        if part.name() != Some("file") {
            passed_over(part).await?;
            continue;
        }
        count.file()?;
        let name = form_name(part.headers(), part.file_name())?;
        checked(&name)?;
        let (bytes, share) = whole(share(), part, most, &name).await?;
        return Ok(Some((name, bytes, share)));
    }
    Ok(None)
}

pub(super) async fn passed_over(mut part: Field<'_>) -> Result<(), ApiError> {
    // Chunk by chunk: the time limit applies to each chunk of a large part, not to the whole.
    while timely(part.chunk()).await?.is_some() {}
    Ok(())
}

/// Reads all bytes of a part, up to the limit of a setting. The share of the memory is to be held as long as the bytes.
///
/// # Errors
/// 413; 101 when the bytes do not arrive in time; 503 when other requests hold the memory.
pub(super) async fn whole(
    mut share: UploadShare,
    mut part: Field<'_>,
    (setting, bytes_max): (&str, u64),
    name: &str,
) -> Result<(Bytes, UploadShare), ApiError> {
    let mut bytes = Vec::new();
    while let Some(piece) = timely(part.chunk()).await? {
        // Checked before the data is appended, so that no part takes more memory than allowed.
        if (bytes.len() + piece.len()) as u64 > bytes_max {
            let message = format!("{name}: the file has more than {bytes_max} bytes (`{setting}`)");
            return Err(ApiError::new(code::TOO_LARGE, message).with_status(StatusCode::PAYLOAD_TOO_LARGE));
        }
        share.grow_to(bytes.len() + piece.len()).await?;
        bytes.extend_from_slice(&piece);
    }
    Ok((bytes.into(), share))
}

/// Waits for the next part of the body, within the time limit.
async fn timely<T>(
    next: impl Future<Output = Result<Option<T>, MultipartError>>,
) -> Result<Option<T>, ApiError> {
    match tokio::time::timeout(SILENCE_MAX, next).await {
        Ok(Ok(next)) => Ok(next),
        Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let message = "the upload is too large; the limit is the setting `limits.upload_bytes`";
            Err(ApiError::new(code::TOO_LARGE, message).with_status(StatusCode::PAYLOAD_TOO_LARGE))
        }
        Ok(Err(_)) => Err(ApiError::argument("the form cannot be read: it is malformed or ended too early")),
        Err(_) => Err(ApiError::argument("the body of the request did not arrive in time")),
    }
}
