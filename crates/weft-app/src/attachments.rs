//! Files of conversations: stored when people upload them, read when a turn uses them, removed when they are old.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use serde_json::Map;
use weft_components::data_uri;
use weft_core::error::found;
use weft_core::id::FileId;
use weft_core::seam::document_reader::{ChunkMethod, ReadRequest};
use weft_core::seam::file_store::{StoredFile, as_text, is_document, plain_name};
use weft_core::seam::session_store::Session;
use weft_core::seam::share_store::is_visitor;
use weft_core::seam::speech::Recording;
use weft_core::seam::{DocumentReader, ModelDirectory};
use weft_core::usage::{self, UsageOwner};
use weft_core::watched_models::{CallSums, ModelWatcher, WatchedModels};
use weft_core::{Error, ErrorKind, Json, Result, SessionKey, TenantId, TurnInput, UserId, media_type};

use crate::app::App;

/// Maximum size of the text of one file that a turn uses, in bytes.
const TEXT_MAX: usize = 1 << 20;
/// Maximum number of files in one turn.
// Their texts and pictures all go into one request to a model.
const FILES_MAX: usize = 20;
/// Maximum size of a picture for a model, in bytes.
const PICTURE_MAX: usize = 20 << 20;
/// Nesting of a form's values: below its component, below its field, as `value`.
const FORM_DEPTH: usize = 3;
/// Number of files removed in one batch.
const AT_ONCE: u64 = 500;

/// Time limit for recording usage.
// The turn waits for it, and continues without the record if the store does not respond.
const NOTE_LIMIT: Duration = Duration::from_secs(5);

/// Media types of pictures that models accept.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A file in the input of a turn.
enum Brought<'a> {
    /// A picture in the request itself.
    Picture(&'a str),
    /// Another file in the request itself.
    Inline(&'a str),
    /// A file that was uploaded.
    Uploaded(FileId),
}

fn brought(value: &Json) -> Option<Brought<'_>> {
    match value {
        Json::String(text) if text.starts_with("data:image/") => Some(Brought::Picture(text)),
        Json::String(text) if text.starts_with("data:") => Some(Brought::Inline(text)),
        Json::Object(members) => {
            let id = members.get("id").and_then(Json::as_str).filter(|id| !id.is_empty())?;
            ["name", "mime_type", "size"]
                .iter()
                .any(|key| members.contains_key(*key))
                .then(|| Brought::Uploaded(id.into()))
        }
        _ => None,
    }
}

/// Returns whether a value of a form is a file, or a list of only files.
fn brings_files(value: &Json) -> bool {
    match value {
        Json::Array(items) => !items.is_empty() && items.iter().all(brings_files),
        value => matches!(brought(value), Some(Brought::Inline(_) | Brought::Uploaded(_))),
    }
}

/// The context for reading files.
struct FileReading<'a> {
    tenant: &'a TenantId,
    /// The owner of the files that are in the request itself.
    user: Option<UserId>,
    /// The id of whoever asks, who need not be the user of the conversation.
    asker: String,
    documents: Arc<dyn DocumentReader>,
    models: WatchedModels,
}

impl App {
    /// Stores an attached file, which belongs to `user` from then on.
    ///
    /// # Errors
    /// `Invalid` when it is too large, `QuotaExceeded` when the tenant's quota is used up.
    pub async fn keep_file(
        &self,
        tenant: &TenantId,
        user: Option<UserId>,
        name: &str,
        bytes: Bytes,
    ) -> Result<StoredFile> {
        let name = plain_name(name);
        let file = StoredFile {
            id: FileId::from(weft_core::id::generate()),
            mime_type: media_type::of_name(&name).to_owned(),
            name,
            size: bytes.len() as u64,
            session: None,
            user,
            created_ms: self.clock.now_ms(),
        };
        self.files.put(tenant, &file, bytes).await?;
        Ok(file)
    }

    /// Reads the files in the input of a turn: pictures become data URIs, anything else text under a line that names
    /// the file. Form values that are files become lists of these. Files in the request itself are stored, too, and
    /// belong to the user of the conversation. The usage of models for this is recorded for the conversation, because
    /// the run has not started yet.
    ///
    /// # Errors
    /// `Invalid` for a value that is not a file or cannot be read, `NotFound` for an unknown file and for a visitor's
    /// question with a file of somebody else, `Denied` for a document of a dataset in a form.
    pub async fn with_files_read(&self, session: &Session, input: TurnInput) -> Result<TurnInput> {
        let sums = Arc::new(CallSums::default());
        let read = self.files_read(&session.key.tenant, &session.user_id, input, &sums).await;
        // Even after a failure, because other files may have been read before.
        self.note_files(&session.key, &sums).await;
        read
    }

    /// Records the usage for the files of a conversation. A failure to record it does not fail the turn.
    async fn note_files(&self, session: &SessionKey, sums: &CallSums) {
        let owner = UsageOwner::Conversation(session.clone());
        let mut used = Vec::new();
        for sum in sums.take() {
            usage::add(&mut used, &owner.node(), &sum.used());
        }
        if used.is_empty() {
            return;
        }
        let noted = self.uses.note_usage(&owner, self.clock.now_ms(), &used);
        let noted = tokio::time::timeout(NOTE_LIMIT, noted).await;
        let noted =
            noted.unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, "the store does not respond")));
        if let Err(error) = noted {
            let session = session.id.as_str();
            tracing::warn!(
                session,
                error = error.detail(),
                "the model usage for files could not be recorded"
            );
        }
    }

    /// The same as [`App::with_files_read`] outside of any conversation: files in the request itself belong to this
    /// user. The usage of models is added to `sums`.
    pub(crate) async fn files_read(
        &self,
        tenant: &TenantId,
        user_id: &str,
        mut input: TurnInput,
        sums: &Arc<CallSums>,
    ) -> Result<TurnInput> {
        let watcher = Arc::clone(sums) as Arc<dyn ModelWatcher>;
        let models = WatchedModels::new(Arc::clone(&self.models), watcher);
        let user = (!user_id.is_empty()).then(|| UserId::from(user_id));
        let reading = FileReading {
            tenant,
            user,
            asker: input.user_id.clone(),
            documents: sums.reader(&self.reader),
            models,
        };
        let count = files_of(&input).len();
        // Counted before the first is read, which may take long.
        if count > FILES_MAX {
            return Err(Error::invalid(format!(
                "a turn has {count} files, more than the maximum of {FILES_MAX}"
            )));
        }
        for (place, file) in input.files.iter_mut().enumerate() {
            // Only pipelines receive documents of datasets, and they read them themselves.
            if matches!(brought(file), Some(Brought::Uploaded(id)) if is_document(&id)) {
                continue;
            }
            let read = self.read_file(&reading, file).await;
            *file = read.map_err(|error| {
                match file.get("name").and_then(Json::as_str).filter(|name| !name.is_empty()) {
                    // The reader may have named the file already.
                    Some(name) if error.message.contains(name) => error,
                    Some(name) => at(error, &format!("the file `{name}`")),
                    None => at(error, &format!("`files[{place}]`")),
                }
            })?;
        }
        let mut inputs = std::mem::take(&mut input.inputs);
        for (name, value) in &mut inputs {
            self.read_value(&reading, name, value, 0).await?;
        }
        input.inputs = inputs;
        Ok(input)
    }

    /// Reads the files in a form's value, including values of a form that are nested under its component's id.
    async fn read_value(
        &self,
        reading: &FileReading<'_>,
        name: &str,
        value: &mut Json,
        depth: usize,
    ) -> Result<()> {
        if brings_files(value) {
            let files = match &*value {
                Json::Array(items) => items.clone(),
                one => vec![one.clone()],
            };
            let mut read = Vec::with_capacity(files.len());
            for file in &files {
                let text = self.read_file(reading, file).await;
                read.push(text.map_err(|error| at(error, &format!("the field `{name}`")))?);
            }
            *value = Json::Array(read);
            return Ok(());
        }
        let Json::Object(members) = value else { return Ok(()) };
        if depth < FORM_DEPTH {
            for (inner, value) in members.iter_mut() {
                let name = if inner == "value" { name } else { inner };
                Box::pin(self.read_value(reading, name, value, depth + 1)).await?;
            }
        }
        Ok(())
    }

    async fn read_file(&self, reading: &FileReading<'_>, file: &Json) -> Result<Json> {
        let tenant = reading.tenant;
        match brought(file) {
            Some(Brought::Picture(uri)) => Ok(uri.into()),
            Some(Brought::Inline(uri)) => {
                let (name, bytes) = data_uri::file(uri)?;
                // It is also stored, so that tools which work on the file itself find it by its id.
                let file = self.keep_file(tenant, reading.user.clone(), &name, bytes.clone()).await?;
                read_kept(reading, &file, bytes).await
            }
            // People who fill in forms may not have access to everything of the tenant.
            Some(Brought::Uploaded(id)) if is_document(&id) => {
                Err(Error::new(ErrorKind::Denied, format!("`{id}` is a document of a dataset"))
                    .help("upload the file itself"))
            }
            Some(Brought::Uploaded(id)) => {
                let (file, bytes) = self.files.read(tenant, &id).await?;
                // The ids of files are not secret: answers show them.
                if is_visitor(&reading.asker) && !self.belongs_to(tenant, &reading.asker, &file).await? {
                    return Err(Error::not_found(format!("there is no file `{id}`")));
                }
                read_kept(reading, &file, bytes).await
            }
            None => Err(Error::invalid("it is not a file")
                .help("upload the file and give the result of the upload, or give a data URI")),
        }
    }

    /// Returns whether this user has attached a file, or has the conversation whose run created it. Holders of a share
    /// token read and attach no other files.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn belongs_to(&self, tenant: &TenantId, user: &str, file: &StoredFile) -> Result<bool> {
        let Some(session) = &file.session else {
            return Ok(file.user.as_ref().is_some_and(|owner| owner.as_str() == user));
        };
        let session = found(self.sessions.load(&SessionKey::new(tenant, session.clone())).await)?;
        Ok(session.is_some_and(|session| session.user_id == user))
    }

    /// Removes a session with the files that its runs have created.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn remove_session(&self, session: &SessionKey) -> Result<()> {
        // Listed first, because nothing refers to them once the session is gone; those that a crash leaves behind are
        // removed when they are old.
        let files = self.files.of_session(&session.tenant, &session.id).await?;
        self.sessions.delete(session).await?;
        let ids: Vec<FileId> = files.into_iter().map(|file| file.id).collect();
        self.files.remove(&session.tenant, &ids).await?;
        Ok(())
    }

    /// Removes the files of conversations that were stored before this time. Returns their number.
    ///
    /// # Errors
    /// When they cannot be found or removed.
    pub async fn remove_old_files(&self, before_ms: i64) -> Result<u64> {
        let mut removed = 0;
        loop {
            let old = self.files.older_than(before_ms, AT_ONCE).await?;
            let found = old.len() as u64;
            let mut gone = 0;
            for (tenant, id) in old {
                gone += self.files.remove(&tenant, &[id]).await?;
            }
            removed += gone;
            // Files that cannot be removed would be found again for ever.
            if gone == 0 || found < AT_ONCE {
                return Ok(removed);
            }
        }
    }
}

/// Converts a stored file into the form for a turn.
async fn read_kept(reading: &FileReading<'_>, file: &StoredFile, bytes: Bytes) -> Result<Json> {
    let kind = media_type::of_name(&file.name);
    if PICTURES.contains(&kind) {
        if bytes.len() > PICTURE_MAX {
            return Err(Error::invalid(format!(
                "the picture `{}` has more than {PICTURE_MAX} bytes",
                file.name
            )));
        }
        let encoded = base64::engine::general_purpose::STANDARD.encode(&bytes);
        return Ok(format!("data:{kind};base64,{encoded}").into());
    }
    if kind.starts_with("audio/") {
        let recording = Recording { name: file.name.clone(), media_type: kind.to_owned(), bytes };
        let model = reading.models.transcription(reading.tenant, "")?;
        let text = model.transcribe(reading.tenant, &recording).await?;
        return Ok(as_text(&file.name, &file.id, &text).into());
    }
    let request = ReadRequest {
        name: file.name.clone(),
        // It is not searched, so the whole file becomes one text.
        method: ChunkMethod::One,
        settings: serde_json::Map::new(),
    };
    let read = reading.documents.read(reading.tenant, &request, bytes).await?;
    let mut text = String::new();
    for piece in &read.pieces {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&piece.content);
        if text.len() > TEXT_MAX {
            text.truncate(text.floor_char_boundary(TEXT_MAX));
            text.push_str("\n\n(the rest of the file is left out)");
            break;
        }
    }
    Ok(as_text(&file.name, &file.id, &text).into())
}

/// Returns the files in the input of a turn: of each the name of its field, which is empty for an attached one, and what
/// identifies it, which is its id or, if it is in the request itself, all of it.
pub(crate) fn files_of(input: &TurnInput) -> Vec<(&str, &str)> {
    let mut files: Vec<_> = input.files.iter().map(|file| ("", identity(file))).collect();
    for (name, value) in &input.inputs {
        add_files(name, value, 0, &mut files);
    }
    files
}

fn add_files<'a>(name: &'a str, value: &'a Json, depth: usize, files: &mut Vec<(&'a str, &'a str)>) {
    match value {
        Json::Array(items) if brings_files(value) => {
            files.extend(items.iter().map(|file| (name, identity(file))));
        }
        value if brings_files(value) => files.push((name, identity(value))),
        Json::Object(members) if depth < FORM_DEPTH => {
            for (inner, value) in members {
                let name = if inner == "value" { name } else { inner };
                add_files(name, value, depth + 1, files);
            }
        }
        _ => {}
    }
}

fn identity(file: &Json) -> &str {
    file.as_str().or_else(|| file.get("id")?.as_str()).unwrap_or_default()
}

/// Returns whether values of a form are what was read of others: the same, except that their files were read.
pub(crate) fn are_read_from(read: &Map<String, Json>, sent: &Map<String, Json>, depth: usize) -> bool {
    let is_same = |(name, sent): (&String, &Json)| match (read.get(name), sent) {
        (None, _) => false,
        (Some(read), sent) if brings_files(sent) => read.is_array(),
        (Some(Json::Object(read)), Json::Object(sent)) if depth < FORM_DEPTH => {
            are_read_from(read, sent, depth + 1)
        }
        (Some(read), sent) => read == sent,
    };
    read.len() == sent.len() && sent.iter().all(is_same)
}

fn at(mut error: Error, place: &str) -> Error {
    // The kind of the error stays; the message gets the place where the file was named.
    error.message = format!("{place}: {}", error.message);
    match error.kind {
        ErrorKind::NotFound if error.help.is_none() => {
            error.help("upload the file first; old files are removed")
        }
        _ => error,
    }
}

/// Returns the media type with which a file of this name is sent; never one that a browser would execute.
pub fn served_media_type(name: &str) -> String {
    match weft_core::media_type::of_name(name) {
        "text/html" | "image/svg+xml" | "application/xml" => weft_core::media_type::UNKNOWN.to_owned(),
        // Browsers display it instead of asking what to do with it.
        "text/markdown" => "text/plain; charset=utf-8".to_owned(),
        text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        kind => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_file_values_are_recognized_as_files() {
        for (value, expected) in [
            (json!({"id": "a", "name": "x", "mime_type": "y"}), true),
            (json!([{"id": "a", "size": 1}]), true),
            (json!("data:text/plain;base64,"), true),
            // A picture in a form goes to the model unchanged.
            (json!("data:image/png;base64,AA"), false),
            (json!({"id": "a"}), false),
            (json!({"id": 3, "name": "x"}), false),
            (json!([]), false),
            (json!("text"), false),
            (json!(["text", {"id": "a", "name": "x"}]), false),
        ] {
            assert_eq!(brings_files(&value), expected, "{value}");
        }
    }

    #[test]
    fn active_content_is_served_as_a_plain_download() {
        for name in ["a.html", "a.htm", "a.svg", "a.js", "a.xhtml", "a.xml", "a"] {
            assert_eq!(served_media_type(name), "application/octet-stream", "{name}");
        }
        assert_eq!(served_media_type("a.pdf"), "application/pdf");
    }
}
