//! Routes of the file manager: the files and folders of a tenant.

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use weft_app::attachments::served_media_type;
use weft_core::media_type::ending;
use weft_core::seam::dataset_store::{Dataset, Document};
use weft_core::seam::folder_store::{EntryKind, FolderEntry};
use weft_core::{DocumentId, Error, ErrorKind};
use weft_knowledge::ingest::Naming;

use super::uploads::{FormCount, MultipartForm, form, kept_as_document, passed_over, refuse_kind, whole};
use super::{attachments, owned};
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::file::{FolderContents, filter, ids, listed, view};
use crate::wire::form_name::form_name;

/// Maximum number of files in one request.
const FILES_MAX: usize = 100;
/// Maximum length of a folder id in a form, in bytes.
const ID_BYTES_MAX: u64 = 255;
/// Maximum number of documents that one request may create from files, counted over all named datasets.
const LINKED_MAX: usize = 1_000;

fn no_entry() -> ApiError {
    ApiError::data("File or Folder not found!")
}

fn no_parent() -> ApiError {
    ApiError::data("Can't find this folder!")
}

/// The same error, for a request that looks into a folder.
fn no_folder() -> ApiError {
    ApiError::data("Folder not found!")
}

/// Converts a failed change of the tree. Invalid requests get the code for data errors, which clients expect.
fn refused(error: Error, taken: &str) -> ApiError {
    match error.kind {
        ErrorKind::NotFound => no_entry(),
        ErrorKind::Conflict => ApiError::data(taken),
        _ => error.into(),
    }
}

async fn entry(state: &ServerState, caller: &Caller, id: &str) -> Result<FolderEntry, ApiError> {
    let found = state.app.file_manager.tree().get(&caller.tenant, id).await;
    found.map_err(|error| owned::or(error, no_entry()))
}

async fn folder(state: &ServerState, caller: &Caller, id: Option<&str>) -> Result<FolderEntry, ApiError> {
    let found = state.app.file_manager.folder(&caller.tenant, id.filter(|id| !id.is_empty())).await;
    found.map_err(|error| owned::or(error, no_parent()))
}

async fn entries(state: &ServerState, caller: &Caller, ids: &[String]) -> Result<Vec<FolderEntry>, ApiError> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.push(entry(state, caller, id).await?);
    }
    Ok(found)
}

/// `POST /api/v1/files`: files in a form, or a folder in JSON.
///
/// # Errors
/// As [`upload`] and [`create`].
pub(crate) async fn add(
    State(state): State<ServerState>,
    caller: Caller,
    mut request: Request,
) -> Result<Response, ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("multipart/")) {
        return upload(State(state), caller, request).await;
    }
    // Forms are streamed part by part and may be large; JSON is held in memory.
    DefaultBodyLimit::max(state.app.limits.body_bytes).apply(&mut request);
    let body = Body::from_request(request, &state).await?;
    create(State(state), caller, body).await
}

/// `POST …/file/create {name, parent_id, type}`.
///
/// # Errors
/// 101 without a name, 102 for a folder that does not exist, and for a name that is taken.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["name"])?;
    let name = body.text("name")?.unwrap_or_default();
    let kind = body.text("type")?.unwrap_or_default();
    let within = folder(&state, &caller, body.id("parent_id")?.as_deref()).await?;
    let manager = &state.app.file_manager;
    let made = match kind.to_lowercase().as_str() {
        "" | "folder" => manager.make_folder(&caller.tenant, &within, &name).await,
        "virtual" => {
            let (manager, tenant) = (manager.clone(), caller.tenant.clone());
            // Bytes stored without an entry could not be found by anyone.
            let keep = async move |_| manager.keep(&tenant, &within, &name, Bytes::new()).await;
            state.app.whole(keep).await?
        }
        _ => {
            return Err(ApiError::argument(
                "`type` must be \"folder\" or \"virtual\"; other files are uploaded",
            ));
        }
    };
    let made = made.map_err(|error| refused(error, "Duplicated folder name in the same folder."))?;
    Ok(Success(view(&caller.tenant, &made)).into_response())
}

/// `POST …/file/upload`: stores every part with the name `file` in the folder that the part `parent_id` names.
///
/// # Errors
/// 101 without a file or for a name that is not valid, 102 for a folder that does not exist; then nothing is stored.
pub(crate) async fn upload(
    State(state): State<ServerState>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let (app, tenant) = (state.app.clone(), caller.tenant.clone());
    let kept = app.whole(async move |given_up| {
        let form = form(request, &state, given_up).await?;
        keep_all(&state, &caller, form).await
    });
    let kept = kept.await??;
    let shown: Vec<Json> = kept.iter().map(|file| view(&tenant, file)).collect();
    Ok(Success(shown).into_response())
}

/// Stores the files of a form in their folder: all of them, or none unless the process ends in between.
async fn keep_all(
    state: &ServerState,
    caller: &Caller,
    mut form: MultipartForm,
) -> Result<Vec<FolderEntry>, ApiError> {
    let mut kept = Vec::new();
    match keep_each(state, caller, &mut form, &mut kept).await {
        Ok(()) if kept.is_empty() => Err(ApiError::argument("No file part!")),
        Ok(()) => Ok(kept),
        Err(error) => {
            // A failed request leaves nothing behind, because the client sends all of its files again.
            for file in &kept {
                state.app.file_manager.remove(&caller.tenant, file).await?;
            }
            Err(error)
        }
    }
}

async fn keep_each(
    state: &ServerState,
    caller: &Caller,
    form: &mut MultipartForm,
    kept: &mut Vec<FolderEntry>,
) -> Result<(), ApiError> {
    let manager = &state.app.file_manager;
    let share = || state.upload_memory.share(&caller.tenant);
    let (mut within, mut count) = (folder(state, caller, None).await?, FormCount::new(FILES_MAX));
    while let Some(part) = form.next_part().await? {
        count.part()?;
        match part.name() {
            Some("parent_id") => {
                let most = ("parent_id", ID_BYTES_MAX);
                let (id, _) = whole(share(), part, most, "parent_id").await?;
                let id = String::from_utf8_lossy(&id).trim().to_owned();
                within = folder(state, caller, Some(&id)).await?;
                // The parts of a form come in any order: files that came before the folder are moved into it, too.
                for file in kept.iter_mut() {
                    let moved = manager.move_into(&caller.tenant, file, &within, None).await;
                    *file = moved.map_err(|error| owned::or(error, no_parent()))?;
                }
            }
            Some("file") => {
                count.file()?;
                let name = form_name(part.headers(), part.file_name())?;
                let most = ("documents.file_bytes_max", manager.file_bytes_max());
                let (bytes, _share) = whole(share(), part, most, &name).await?;
                let file = manager.keep(&caller.tenant, &within, &name, bytes).await;
                kept.push(file.map_err(|error| owned::or(error, no_parent()))?);
            }
            _ => passed_over(part).await?,
        }
    }
    Ok(())
}

/// `GET /api/v1/files`: by `parent_id`, `keywords`, `page`, `page_size`, `orderby` and `desc`.
///
/// # Errors
/// 101 for an unknown order, 102 for a folder that does not exist.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let tree = state.app.file_manager.tree();
    let id = params.get("parent_id").filter(|id| !id.is_empty());
    let shown = state.app.file_manager.folder(&caller.tenant, id).await;
    let shown = shown.map_err(|error| owned::or(error, no_folder()))?;
    let filter = filter(&params, &shown, state.app.limits.page_size)?;
    let (found, total) = tree.list(&caller.tenant, &filter).await?;
    let folders = found.iter().filter(|entry| entry.kind == EntryKind::Folder);
    let folders: Vec<String> = folders.map(|entry| entry.id.clone()).collect();
    let with_folders = tree.with_folders(&caller.tenant, &folders).await?;
    let sizes = tree.sizes(&caller.tenant, &folders).await?;
    let inside = FolderContents { with_folders: &with_folders, sizes: &sizes };
    let files: Vec<Json> = found.iter().map(|entry| listed(&caller.tenant, entry, inside)).collect();
    let above = above(&state, &caller, shown).await?;
    let data = json!({"total": total, "files": files, "parent_folder": view(&caller.tenant, &above)});
    Ok(Success(data).into_response())
}

/// Returns the folder that contains an entry; the root contains itself.
async fn above(state: &ServerState, caller: &Caller, of: FolderEntry) -> Result<FolderEntry, ApiError> {
    if of.is_root() { Ok(of) } else { entry(state, caller, &of.parent).await }
}

/// `DELETE /api/v1/files {ids}` and `POST …/file/rm {file_ids}`.
///
/// # Errors
/// 101 without ids and for the root; 102 for an entry that does not exist; then nothing is removed.
pub(crate) async fn remove(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let ids = ids(&body, &["ids", "file_ids"])?;
    let found = entries(&state, &caller, &ids).await?;
    // Checked before anything is removed: a request that names the root changes nothing.
    if found.iter().any(FolderEntry::is_root) {
        return Err(weft_core::seam::folder_store::root_stays().into());
    }
    for entry in &found {
        state.app.file_manager.remove(&caller.tenant, entry).await?;
    }
    Ok(Success(true).into_response())
}

/// `POST /api/v1/files/move {src_file_ids, dest_file_id, new_name}`.
///
/// # Errors
/// 101 without ids, for one new name for several entries, and for moving a folder below itself; 102 for an entry that
/// does not exist.
pub(crate) async fn relocate(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let found = entries(&state, &caller, &ids(&body, &["src_file_ids"])?).await?;
    let (into, name) = (body.id("dest_file_id")?, body.text("new_name")?.filter(|name| !name.is_empty()));
    match (into, name, found.as_slice()) {
        (None, None, _) => {
            return Err(ApiError::argument("either `dest_file_id` or `new_name` is needed"));
        }
        (_, Some(_), several) if several.len() > 1 => {
            return Err(ApiError::argument("`new_name` is only for a single file"));
        }
        (None, Some(name), several) => {
            for one in several {
                named(&state, &caller, one, &name).await?;
            }
        }
        (Some(into), name, several) => {
            let into = folder(&state, &caller, Some(&into)).await?;
            if let (Some(name), [one]) = (&name, several) {
                check_ending(one, name)?;
            }
            for one in several {
                let moved =
                    state.app.file_manager.move_into(&caller.tenant, one, &into, name.as_deref()).await;
                moved.map_err(|error| owned::or(error, no_entry()))?;
            }
        }
    }
    Ok(Success(true).into_response())
}

/// Checks that the extension is unchanged: it determines how a file is parsed.
fn check_ending(entry: &FolderEntry, name: &str) -> Result<(), ApiError> {
    if entry.kind == EntryKind::File && ending(name) != ending(&entry.name) {
        return Err(ApiError::argument("The extension of file can't be changed"));
    }
    Ok(())
}

async fn named(
    state: &ServerState,
    caller: &Caller,
    entry: &FolderEntry,
    name: &str,
) -> Result<(), ApiError> {
    check_ending(entry, name)?;
    let renamed = state.app.file_manager.rename(&caller.tenant, &entry.id, name).await;
    renamed.map_err(|error| refused(error, "Duplicated file name in the same folder."))?;
    Ok(())
}

/// `PUT` and `PATCH /api/v1/files/{id} {name}`.
///
/// # Errors
/// 101 without a name and for another extension, 102 for an entry that does not exist and for a name that is taken.
pub(crate) async fn rename(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["name"])?;
    let found = entry(&state, &caller, &id).await?;
    named(&state, &caller, &found, &body.text("name")?.unwrap_or_default()).await?;
    Ok(Success(true).into_response())
}

/// `POST …/file/rename {file_id, name}`.
///
/// # Errors
/// As [`rename`].
pub(crate) async fn rename_named(
    state: State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["file_id", "name"])?;
    let id = body.id("file_id")?.unwrap_or_default();
    rename(state, caller, Path(id), body).await
}

/// `GET /api/v1/files/{id}`: sent as an attachment, never displayed inline.
///
/// # Errors
/// 102 for an entry that does not exist, and for a folder.
pub(crate) async fn download(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let read = state.app.file_manager.read(&caller.tenant, &id).await;
    let (file, bytes) = read.map_err(|error| owned::or(error, ApiError::data("Document not found!")))?;
    Ok(attachments::sent(&file.name, &served_media_type(&file.name), bytes))
}

/// `GET …/file/root_folder`.
///
/// # Errors
/// When the store cannot be written.
pub(crate) async fn root(State(state): State<ServerState>, caller: Caller) -> Result<Response, ApiError> {
    let root = state.app.file_manager.root(&caller.tenant).await?;
    Ok(Success(json!({"root_folder": view(&caller.tenant, &root)})).into_response())
}

/// `GET /api/v1/files/{id}/parent`.
///
/// # Errors
/// 102 for an entry that does not exist.
pub(crate) async fn parent(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let found = entry(&state, &caller, &id).await?;
    let above = above(&state, &caller, found).await?;
    Ok(Success(json!({"parent_folder": view(&caller.tenant, &above)})).into_response())
}

/// `GET …/file/parent_folder?file_id=`.
///
/// # Errors
/// As [`parent`]; 101 without an id.
pub(crate) async fn parent_named(
    state: State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let id = file_id(&params)?;
    parent(state, caller, Path(id)).await
}

/// `GET /api/v1/files/{id}/ancestors`: the entry itself and every folder above it, the root last.
///
/// # Errors
/// 102 for an entry that does not exist.
pub(crate) async fn ancestors(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let path = state.app.file_manager.tree().path(&caller.tenant, &id).await;
    let path = path.map_err(|error| owned::or(error, no_entry()))?;
    let shown: Vec<Json> = path.iter().map(|folder| view(&caller.tenant, folder)).collect();
    Ok(Success(json!({"parent_folders": shown})).into_response())
}

/// `GET …/file/all_parent_folder?file_id=`.
///
/// # Errors
/// As [`ancestors`]; 101 without an id.
pub(crate) async fn ancestors_named(
    state: State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let id = file_id(&params)?;
    ancestors(state, caller, Path(id)).await
}

fn file_id(params: &Params) -> Result<String, ApiError> {
    let id = params
        .get("file_id")
        .ok_or_else(|| ApiError::argument("required argument are missing: file_id; "))?;
    Ok(id.to_owned())
}

/// `POST /api/v1/files/link-to-datasets {file_ids, kb_ids}`: creates documents from the same bytes, which are parsed
/// like uploaded ones.
///
/// # Errors
/// 101 without files or datasets, 102 for a file or dataset that does not exist, 500 for a file type that is not
/// supported; then no document is created.
pub(crate) async fn link(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let named = entries(&state, &caller, &ids(&body, &["file_ids"])?).await?;
    let mut datasets = Vec::new();
    for id in ids(&body, &["kb_ids"])? {
        let missing = |_: &str| ApiError::data("Can't find this dataset!");
        datasets.push(owned::dataset(&state, &caller, &id, missing).await?);
    }
    let files =
        state.app.file_manager.files_below(&caller.tenant, named, LINKED_MAX / datasets.len().max(1)).await?;
    // All files are checked before the first becomes a document.
    files.iter().try_for_each(|file| refuse_kind(&file.name))?;
    let app = state.app.clone();
    let made = app.whole(async move |_| link_all(&state, &files, &datasets).await).await??;
    let shown: Vec<Json> = made.iter().map(|(file, document)| linked(file, document)).collect();
    Ok(Success(shown).into_response())
}

/// Creates documents from all files in all datasets, or none.
async fn link_all(
    state: &ServerState,
    files: &[FolderEntry],
    datasets: &[Dataset],
) -> Result<Vec<(String, Document)>, ApiError> {
    let mut made = Vec::new();
    match link_each(state, files, datasets, &mut made).await {
        Ok(()) => Ok(made),
        Err(error) => {
            // Documents created before the failure are removed, so that the request can be repeated.
            for (_, document) in made {
                let ids: [DocumentId; 1] = [document.key.id];
                state.app.library.remove_documents(&document.key.dataset, &ids).await?;
            }
            Err(error)
        }
    }
}

async fn link_each(
    state: &ServerState,
    files: &[FolderEntry],
    datasets: &[Dataset],
    made: &mut Vec<(String, Document)>,
) -> Result<(), ApiError> {
    for file in files {
        let Some(first) = datasets.first() else { return Ok(()) };
        // Read once for all datasets; the bytes are shared, not copied.
        let read = state.app.file_manager.read(&first.key.tenant, &file.id).await;
        let (_, bytes) = read.map_err(|error| owned::or(error, no_entry()))?;
        for dataset in datasets {
            let document =
                kept_as_document(state, dataset, &file.name, bytes.clone(), Naming::Numbered).await?;
            made.push((file.id.clone(), document));
        }
    }
    Ok(())
}

fn linked(file: &str, document: &Document) -> Json {
    json!({"file_id": file, "document_id": document.key.id, "dataset_id": document.key.dataset.id})
}
