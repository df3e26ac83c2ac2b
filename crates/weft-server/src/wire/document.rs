//! Documents: reading requests and building answers.

use serde_json::{Value as Json, json};
use weft_core::TenantId;
use weft_core::media_type::ending;
use weft_core::seam::dataset_store::{Document, DocumentChange, DocumentState, Settings};
use weft_core::seam::document_reader::ChunkMethod;
use weft_knowledge::ingest::{NAME_BYTES_MAX, PIPELINE};
use weft_knowledge::pictures;

use super::dataset;
use super::method;
use super::once::once;
use super::removal::Removal;
use super::rules::{Problems, Rule, line};
use super::time::http_date;
use super::{metadata, python};
use crate::body::Body;
use crate::error::{ApiError, code};

mod listing;

pub use listing::{DocumentQuery, query};
pub(crate) use listing::{RUNS, states};

/// Message for completed work. Clients look for it.
const DONE: &str = "Task done";

/// Fields of a document, in the order of the API.
pub const FIELDS: &[(&str, Rule)] = &[
    ("name", Rule::Text(0, 65_535)),
    ("chunk_method", Rule::Text(0, 255)),
    ("parse_type", Rule::Integer(0, 64)),
    ("pipeline_id", Rule::Any),
    ("enabled", Rule::Any),
    ("chunk_count", Rule::Integer(0, i64::MAX)),
    ("token_count", Rule::Integer(0, i64::MAX)),
    ("progress", Rule::Number(f64::NEG_INFINITY, 1.0)),
];

/// Returns the name of an uploaded file: the last part of the path that the client sends.
///
/// # Errors
/// 101 for a name that is empty, too long or not printable.
pub fn file_name(given: &str) -> Result<String, ApiError> {
    let name = given.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    if matches!(name, "" | "." | "..") {
        return Err(ApiError::argument("No file selected!"));
    }
    check_name(name)?;
    Ok(name.to_owned())
}

fn check_name(name: &str) -> Result<(), ApiError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(ApiError::argument(format!("File name must be {NAME_BYTES_MAX} bytes or less.")));
    }
    if name.chars().any(char::is_control) {
        return Err(ApiError::argument("File name must not have control characters."));
    }
    Ok(())
}

/// The error for a name that another document of the dataset has.
pub(crate) fn name_taken() -> ApiError {
    ApiError::data("Duplicated document name in the same dataset.")
}

/// Extensions of pictures.
const VISUAL: [&str; 12] =
    ["jpg", "jpeg", "png", "tif", "tiff", "gif", "bmp", "webp", "svg", "ico", "avif", "heic"];
/// Extensions of audio files.
const AURAL: [&str; 8] = ["wav", "flac", "ape", "alac", "mp3", "aac", "ogg", "m4a"];

/// Returns the type of a file, as the API names it.
pub(super) fn kind(name: &str) -> &'static str {
    match ending(name).as_str() {
        "pdf" => "pdf",
        "" => "other",
        suffix if VISUAL.contains(&suffix) => "visual",
        suffix if AURAL.contains(&suffix) => "aural",
        _ => "doc",
    }
}

/// Returns whether a file is of a type that cannot be parsed, judging by its name. Other unreadable files are
/// detected later.
pub(crate) fn is_no_document(name: &str) -> bool {
    const OTHERS: [&str; 24] = [
        "7z", "avi", "bin", "bz2", "class", "dll", "dylib", "exe", "gz", "iso", "jar", "mkv", "mov", "mp4",
        "mpeg", "mpg", "o", "rar", "so", "tar", "wasm", "webm", "xz", "zip",
    ];
    OTHERS.contains(&ending(name).as_str())
}

/// Returns whether a file contains text, judging by its name: neither a picture nor audio.
pub(crate) fn is_text(name: &str) -> bool {
    kind(name) == "doc"
}

/// Returns the change to the chunk method for a new document whose file type has a method of its own; `None` if
/// nothing changes. A pipeline itself defines what it reads and how.
pub(crate) fn suited(document: &Document) -> Option<DocumentChange> {
    if document.settings.contains_key(PIPELINE) {
        return None;
    }
    let method = match ending(&document.name).as_str() {
        "ppt" | "pptx" | "pages" => ChunkMethod::Presentation,
        "eml" | "msg" => ChunkMethod::Email,
        _ if kind(&document.name) == "visual" => ChunkMethod::Picture,
        _ if kind(&document.name) == "aural" => ChunkMethod::Audio,
        _ => return None,
    };
    let settings = Some(method::defaults(method));
    (method != document.method).then(|| DocumentChange {
        method: Some(method),
        settings,
        ..DocumentChange::default()
    })
}

/// Returns a `Content-Disposition` header for a file to be saved; its name may contain any character.
pub(crate) fn attachment(name: &str) -> String {
    use std::fmt::Write as _;
    // For clients that only know the plain name; the encoded one is complete (RFC 6266).
    let plain = |letter: char| letter.is_ascii_alphanumeric() || " .-_()+,=@".contains(letter);
    let ascii: String = name.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => encoded.push(char::from(byte)),
            byte => {
                // Writing to a String cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

/// Reads the body of an update.
///
/// # Errors
/// 102 with a line for everything that is wrong, or with the API's message for a field that cannot be changed; 101
/// for a name that is not valid.
pub fn change(body: &Body, document: &Document) -> Result<DocumentChange, ApiError> {
    let mut problems = Problems::default();
    for (key, rule) in FIELDS {
        if let Some(value) = body.get(key) {
            problems.value(key, value, *rule);
        }
    }
    if let Some(null) = body.0.get("name").filter(|name| name.is_null()) {
        problems.add("name", "Input should be a valid string", null);
    }
    let enabled = match body.get("enabled") {
        None => None,
        Some(value) => {
            let read = switch(value);
            if read.is_none() {
                problems.add("enabled", "Input should be a valid boolean", value);
            }
            read
        }
    };
    let metadata = match body.get("meta_fields").map(metadata::given) {
        None => None,
        Some(Ok(metadata)) => Some(metadata),
        Some(Err(message)) => {
            problems.add("meta_fields", &message, body.get("meta_fields").unwrap_or(&Json::Null));
            None
        }
    };
    if let Some(settings) = body.get("parser_config") {
        method::check(&mut problems, "parser_config", settings);
    }
    if let Some(id) = body.get("pipeline_id").filter(|id| **id != "")
        && let Some(message) = dataset::pipeline_problem(id)
    {
        problems.add("pipeline_id", message, id);
    }
    problems.refuse(code::DATA)?;
    immutable(body, document)?;
    let name = body.text("name")?.map(|name| renamed(name, document)).transpose()?.flatten();
    let (method, settings) = cut(body, document)?;
    Ok(DocumentChange { revision: None, name, method, settings, metadata, enabled })
}

/// Reads a boolean in any of the spellings that clients use.
fn switch(value: &Json) -> Option<bool> {
    match value {
        Json::Bool(flag) => Some(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        },
        Json::String(text) if text == "1" || text.eq_ignore_ascii_case("true") => Some(true),
        Json::String(text) if text == "0" || text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

fn immutable(body: &Body, document: &Document) -> Result<(), ApiError> {
    let shown = progress(document);
    // These may be sent back unchanged, but cannot be changed.
    for (key, same) in [
        ("chunk_count", body.get("chunk_count").is_none_or(|n| n.as_u64() == Some(document.chunk_count))),
        ("token_count", body.get("token_count").is_none_or(|n| n.as_u64() == Some(document.token_count))),
        ("progress", body.get("progress").and_then(Json::as_f64).is_none_or(|n| (n - shown).abs() < 1e-9)),
    ] {
        if !same {
            return Err(ApiError::data(format!("can't change `{key}`")));
        }
    }
    Ok(())
}

fn renamed(name: String, document: &Document) -> Result<Option<String>, ApiError> {
    if name == document.name {
        return Ok(None);
    }
    // The extension decides how the file is parsed.
    if ending(&name) != ending(&document.name) {
        return Err(ApiError::argument("The extension of file can't be changed"));
    }
    check_name(&name)?;
    if name.trim().is_empty() || name.contains(['/', '\\']) {
        return Err(ApiError::argument("File name must not be empty or name a folder."));
    }
    Ok(Some(name))
}

type Cut = (Option<ChunkMethod>, Option<Settings>);

/// The chunk method and the settings that change.
fn cut(body: &Body, document: &Document) -> Result<Cut, ApiError> {
    let given = body.object("parser_config")?;
    if let Some(pipeline) = body.text("pipeline_id")?.filter(|id| !id.is_empty()) {
        let mut settings = method::merged(document.settings.clone(), &given.unwrap_or_default());
        settings.insert(PIPELINE.to_owned(), pipeline.to_lowercase().into());
        return Ok((None, (settings != document.settings).then_some(settings)));
    }
    let Some(name) = body.text("chunk_method")? else {
        let mut settings = given.map(|given| method::merged(document.settings.clone(), &given));
        // An empty pipeline, or null, removes the current one.
        if document.settings.contains_key(PIPELINE) && body.0.contains_key("pipeline_id") {
            settings.get_or_insert_with(|| document.settings.clone()).remove(PIPELINE);
        }
        return Ok((None, settings));
    };
    if name.trim().is_empty() {
        return Err(ApiError::data("`chunk_method` (empty string) is not valid"));
    }
    let Some(wanted) = method::method(&name) else {
        let message = format!("`chunk_method` {name} doesn't exist");
        return Err(ApiError::data(line("chunk_method", &message, &Json::String(name))));
    };
    let slides = matches!(ending(&document.name).as_str(), "ppt" | "pptx" | "pages");
    let wanted_name = method::method_name(wanted);
    if (kind(&document.name) == "visual" && wanted_name != "picture")
        || (slides && wanted_name != "presentation")
    {
        return Err(ApiError::data("Not supported yet!"));
    }
    let same = wanted == document.method;
    let settings = match given {
        None if same && !document.settings.contains_key(PIPELINE) => None,
        None => Some(method::defaults(wanted)),
        Some(given) if same && !given.is_empty() => Some(method::merged(document.settings.clone(), &given)),
        Some(given) => Some(method::merged(method::defaults(wanted), &given)),
    };
    Ok(((!same).then_some(wanted), settings))
}

/// The API's name for a state. It has none for a pause; clients that wait for the end of the work need not wait for a
/// paused document.
pub(crate) fn run(state: DocumentState) -> &'static str {
    match state {
        DocumentState::Unstarted => "UNSTART",
        DocumentState::Running => "RUNNING",
        DocumentState::Cancelled | DocumentState::Paused => "CANCEL",
        DocumentState::Done => "DONE",
        DocumentState::Failed => "FAIL",
    }
}

fn progress(document: &Document) -> f64 {
    match document.state {
        // Clients take −1 for a failure.
        DocumentState::Failed => -1.0,
        DocumentState::Done => 1.0,
        // It starts again from the beginning.
        DocumentState::Cancelled => 0.0,
        // Clients take 1 for the end.
        _ => document.progress.clamp(0.0, 0.99),
    }
}

fn message(document: &Document) -> String {
    match document.state {
        DocumentState::Done => {
            let lines = (!document.message.is_empty()).then_some(document.message.as_str()).into_iter();
            let lines = lines.chain(method::not_done(&document.settings));
            let done = (!document.message.contains(DONE)).then_some(DONE);
            lines.chain(done).collect::<Vec<_>>().join("\n")
        }
        _ => document.message.clone(),
    }
}

/// Returns when ingestion started; if it was requested but has not started, when it was requested.
fn begun_ms(document: &Document) -> Option<i64> {
    let asked = document.state != DocumentState::Unstarted;
    document.begun_ms.or_else(|| asked.then_some(document.updated_ms))
}

/// Returns the URL of a picture of a document: the document itself if it is a picture, else the first picture in it;
/// empty without any.
pub fn thumbnail(document: &Document) -> String {
    let shown = document.picture.is_some() || pictures::image_id(&document.key, &document.name).is_some();
    if shown { format!("/api/v1/documents/{}/thumbnail", document.key.id) } else { String::new() }
}

/// The representation of a document in answers.
pub fn view(document: &Document) -> Json {
    let dataset = &document.key.dataset;
    let seconds =
        std::time::Duration::from_millis(document.duration_ms.try_into().unwrap_or(0)).as_secs_f64();
    json!({
        "id": document.key.id,
        "thumbnail": thumbnail(document),
        "dataset_id": dataset.id,
        "chunk_method": method::method_name(document.method),
        "pipeline_id": document.settings.get(PIPELINE),
        "parser_config": method::shown(&document.settings),
        "source_type": "local",
        "type": kind(&document.name),
        "created_by": dataset.tenant,
        "name": document.name,
        "location": document.name,
        "size": document.size,
        "token_count": document.token_count,
        "chunk_count": document.chunk_count,
        "progress": progress(document),
        "progress_msg": message(document),
        "process_begin_at": begun_ms(document).map(http_date),
        "process_duration": seconds,
        "meta_fields": document.metadata,
        "suffix": ending(&document.name),
        "run": run(document.state),
        "status": if document.enabled { "1" } else { "0" },
        "create_time": document.created_ms,
        "create_date": http_date(document.created_ms),
        "update_time": document.updated_ms,
        "update_date": http_date(document.updated_ms),
    })
}

/// Reads the body of a request that removes documents of a dataset.
///
/// # Errors
/// 101 for ids that are not valid or are repeated; 102 when neither or both of ids and `delete_all` are given.
pub fn removal(body: &Body, dataset: &str) -> Result<Removal, ApiError> {
    let mut problems = Problems::default();
    for (key, rule) in [("ids", Rule::Texts), ("delete_all", Rule::Flag)] {
        if let Some(value) = body.get(key) {
            problems.value(key, value, rule);
        }
    }
    problems.refuse(code::ARGUMENT)?;
    let ids = body.texts("ids")?.unwrap_or_default();
    let (ids, twice) = once(ids);
    if !twice.is_empty() {
        let message = format!("Duplicate ids: '{}'", twice.join(", "));
        let value = body.get("ids").unwrap_or(&Json::Null);
        return Err(ApiError::argument(line("ids", &message, value)));
    }
    match (ids.is_empty(), body.flag("delete_all")? == Some(true)) {
        (false, false) => Ok(Removal::These(ids)),
        (true, true) => Ok(Removal::Everything),
        (true, false) => Err(ApiError::data(format!(
            "should either provide doc ids or set delete_all(true), dataset: {dataset}. "
        ))),
        (false, true) => Err(ApiError::data(format!(
            "should not provide both doc ids and delete_all(true), dataset: {dataset}. "
        ))),
    }
}

/// Reads `document_ids`: each id once, and the ids that were repeated.
///
/// # Errors
/// 102 without any; 101 when they are not a list of strings.
pub fn document_ids(body: &Body) -> Result<(Vec<String>, Vec<String>), ApiError> {
    let ids = body.texts("document_ids")?.unwrap_or_default();
    if ids.is_empty() {
        return Err(ApiError::data("`document_ids` is required"));
    }
    Ok(once(ids))
}

/// The error for documents that do not exist.
pub(crate) fn not_found(ids: &[String]) -> ApiError {
    ApiError::data(format!("Documents not found: {}", python::list(ids)))
}

/// The error for a dataset that the tenant does not own, on routes for its documents.
pub(crate) fn dataset_not_owned(dataset: &str) -> ApiError {
    ApiError::data(format!("You don't own the dataset {dataset}. "))
}

/// The error for an upload to a dataset that does not exist.
pub(crate) fn dataset_not_found(_tenant: &TenantId, dataset: &str) -> ApiError {
    ApiError::data(format!("Can't find the dataset with ID {dataset}!"))
}

#[cfg(test)]
mod tests;
