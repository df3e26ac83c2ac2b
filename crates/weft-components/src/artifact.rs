//! Files that runs create, and files that are passed to them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_agent::run_files;
use weft_core::component::Attachment;
use weft_core::context::Signal;
use weft_core::effect::Delivery;
use weft_core::id::FileId;
use weft_core::seam::document_writer::{
    DocumentContent, DocumentFormat, MadeDocument, PageSettings, WriteRequest,
};
use weft_core::seam::file_store::{StoredFile, download_path, is_document, named_in, plain_name};
use weft_core::seam::share_store::is_visitor;
use weft_core::value::to_text;
use weft_core::{Error, ErrorKind, Json, NodeContext, Result};

use crate::data_uri;

/// A stored document, as recorded in the journal.
#[derive(Serialize, Deserialize)]
struct KeptDocument {
    #[serde(flatten)]
    file: StoredFile,
    /// Letters that the document shows as a substitute character.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    unwritable: String,
}

/// Writes a document and stores it with the conversation. Repeating the same work produces the same file. Content that
/// the format cannot represent is reported as a warning.
///
/// # Errors
/// Errors of writing or storing the document.
pub(crate) async fn made(ctx: &NodeContext, name: &str, request: &WriteRequest) -> Result<StoredFile> {
    // A name may be made of a secret as well, and is shown wherever the file is listed.
    let name = with_ending(&ctx.run.masks.text(name), request.format);
    let masked = without_secrets(ctx, request)?;
    let request = masked.as_ref().unwrap_or(request);
    // The request is part of the journal's key for this effect, so the same work yields the same file.
    let question = ctx.effects.question("file", &(&name, request));
    let work = async {
        let MadeDocument { bytes, unwritable } =
            ctx.run.seams.documents.write(&ctx.run.tenant, request).await?;
        let file = run_files::keep(ctx, &name, request.format.mime_type(), bytes).await?;
        Ok(KeptDocument { file, unwritable })
    };
    let KeptDocument { file, unwritable } =
        ctx.effect_asking("file", Delivery::Idempotent, question, work).await?.0;
    if !unwritable.is_empty() {
        let named: Vec<String> =
            unwritable.chars().map(|letter| format!("`{letter}` (U+{:04X})", u32::from(letter))).collect();
        let warning = format!(
            "`{}` has a substitute for {}, which no available font contains (set `documents.font` to a font file that \
             has them, or make a DOCX file)",
            file.name,
            named.join(", ")
        );
        ctx.signal(Signal::Warn(warning)).await?;
    }
    let lost = pictures_lost(request);
    if lost > 0 {
        let warning = format!(
            "`{}` has text in place of {}, because {} files cannot contain such pictures (DOCX and HTML files can \
             contain PNG pictures; HTML files also JPEG, GIF and WebP)",
            file.name,
            weft_core::value::plural(lost, "picture"),
            request.format.name().to_uppercase()
        );
        ctx.signal(Signal::Warn(warning)).await?;
    }
    Ok(file)
}

/// Number of pictures embedded in the text as `data:` addresses that the file leaves out.
fn pictures_lost(request: &WriteRequest) -> usize {
    const ADDRESS: &str = "](data:image/";
    let DocumentContent::Markdown(text) = &request.content else { return 0 };
    let held: &[&str] = match request.format {
        DocumentFormat::Markdown => return 0,
        DocumentFormat::Html => &["png;", "jpeg;", "jpg;", "gif;", "webp;"],
        DocumentFormat::Docx => &["png;"],
        DocumentFormat::Pdf | DocumentFormat::Xlsx | DocumentFormat::Txt | DocumentFormat::Csv => &[],
    };
    let is_lost = |rest: &&str| !held.iter().any(|kind| rest.starts_with(kind));
    text.split(ADDRESS).skip(1).filter(is_lost).count()
}

/// Returns the request with its secrets masked, or `None` if it has none: the file is stored and read by others.
fn without_secrets(ctx: &NodeContext, request: &WriteRequest) -> Result<Option<WriteRequest>> {
    let masks = &ctx.run.masks;
    if masks.is_empty() {
        return Ok(None);
    }
    let unwritable = |cause| Error::internal("cannot look for secrets in the document").because(cause);
    // Parts around the text are masked too: a page header may also contain references.
    let around = serde_json::to_value((&request.content, &request.page)).map_err(unwritable)?;
    let Some(around) = masks.json(&around) else { return Ok(None) };
    let (content, page): (DocumentContent, PageSettings) =
        serde_json::from_value(around).map_err(unwritable)?;
    Ok(Some(WriteRequest { format: request.format, content, page }))
}

/// Returns the name with the extension of a format, replacing that of another format.
pub(crate) fn with_ending(name: &str, format: DocumentFormat) -> String {
    let name = plain_name(name);
    let ending = format!(".{}", format.ending());
    if name.to_lowercase().ends_with(&ending) {
        return name;
    }
    let is_another = |stem: &str, other: &str| {
        !stem.is_empty() && !other.is_empty() && DocumentFormat::named(other).is_some()
    };
    let stem = name.rsplit_once('.').filter(|(stem, other)| is_another(stem, other));
    plain_name(&format!("{}{ending}", stem.map_or(name.as_str(), |(stem, _)| stem)))
}

/// Returns the attachment by which a message refers to a file it was converted to.
pub(crate) fn attachment(file: &StoredFile, format: DocumentFormat) -> Attachment {
    Attachment { doc_id: file.id.clone(), format: format.name().to_owned(), file_name: file.name.clone() }
}

/// Returns what a client needs to download a file.
pub(crate) fn download(file: &StoredFile) -> Json {
    json!({
        "doc_id": file.id,
        "filename": file.name,
        "mime_type": file.mime_type,
        "size": file.size,
        "url": download_path(&file.id),
    })
}

/// Returns a Markdown link to a file; a picture is embedded.
pub(crate) fn link(name: &str, mime_type: &str, id: &FileId) -> String {
    let mark = if mime_type.starts_with("image/") { "!" } else { "" };
    // Brackets in the name would end the text of the link.
    format!("{mark}[{}]({})", name.replace(['[', ']'], ""), download_path(id))
}

/// Returns the files that a value names: upload descriptors, values of [`download`], texts that were read from files,
/// and lists of these.
///
/// # Errors
/// `Invalid` for a value that names no file.
fn named(value: &Json) -> Result<Vec<FileId>> {
    let unknown = || {
        Err(Error::invalid("the value is not a file").help(
            "refer to `sys.files`, to a field of the type `file`, or to a file made by a component, such as its \
             `download`",
        ))
    };
    match value {
        Json::Null => Ok(Vec::new()),
        Json::Array(items) => {
            Ok(items.iter().map(named).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        }
        Json::Object(members) => {
            // Each source of files uses its own key for the id.
            let id = ["id", "file_id", "doc_id"].iter().find_map(|key| members.get(*key));
            match id.map(to_text).filter(|id| !id.is_empty()) {
                Some(id) => Ok(vec![id.into()]),
                None => unknown(),
            }
        }
        Json::String(text) if text.trim().is_empty() => Ok(Vec::new()),
        Json::String(text) => match (named_in(text), serde_json::from_str::<Json>(text)) {
            (Some(id), _) => Ok(vec![id]),
            // Values that went through a template are texts.
            (None, Ok(value @ (Json::Object(_) | Json::Array(_)))) => named(&value),
            _ => unknown(),
        },
        Json::Bool(_) | Json::Number(_) => unknown(),
    }
}

/// Returns the files that a value names and that the run may read. A document of a dataset is readable only by a run
/// that was given it: any other value may have been written by someone without access to the dataset.
///
/// # Errors
/// As [`named`]; `Denied` for a document that the run was not given.
pub(crate) fn readable(ctx: &NodeContext, value: &Json) -> Result<Vec<FileId>> {
    let ids = named(value)?;
    let is_given = |id: &FileId| {
        let mut given = ctx.run.input.files.iter().filter_map(|file| file.get("id")?.as_str());
        given.any(|given| given == id.as_str())
    };
    match ids.iter().find(|id| is_document(id) && !is_given(id)) {
        None => Ok(ids),
        Some(id) => {
            let message = format!("the document `{id}` of a dataset was not given to this run");
            Err(Error::new(ErrorKind::Denied, message).help("attach the file itself"))
        }
    }
}

/// A file that a value names, or contains.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum GivenFile {
    /// A stored file.
    Stored(FileId),
    /// A file as a data URI.
    Inline(String),
}

impl GivenFile {
    /// Returns its name and its contents.
    ///
    /// # Errors
    /// `NotFound` for a stored file that does not exist or that the run may not read; `Invalid` for a data URI that
    /// cannot be read.
    pub(crate) async fn read(&self, ctx: &NodeContext) -> Result<(String, Bytes)> {
        match self {
            Self::Stored(id) => {
                let (file, bytes) = ctx.run.seams.files.read(&ctx.run.tenant, id).await?;
                // Only after reading: whose file it is, is stored with the file.
                check_readable(ctx, &file)?;
                Ok((file.name, bytes))
            }
            Self::Inline(uri) => data_uri::file(uri),
        }
    }
}

/// Returns the files that a value names and that the run may read, and those that it contains as data URIs.
///
/// # Errors
/// As [`readable`].
pub(crate) fn given(ctx: &NodeContext, value: &Json) -> Result<Vec<GivenFile>> {
    let several = |items: &[Json]| -> Result<Vec<GivenFile>> {
        let lists = items.iter().map(|item| given(ctx, item)).collect::<Result<Vec<_>>>()?;
        Ok(lists.into_iter().flatten().collect())
    };
    match value {
        Json::Array(items) => return several(items),
        Json::String(text) if text.trim_start().starts_with("data:") => {
            return Ok(vec![GivenFile::Inline(text.trim().to_owned())]);
        }
        // A list that went through a template is a text.
        Json::String(text) if text.trim_start().starts_with('[') => {
            if let Ok(Json::Array(items)) = serde_json::from_str(text) {
                return several(&items);
            }
        }
        _ => {}
    }
    Ok(readable(ctx, value)?.into_iter().map(GivenFile::Stored).collect())
}

/// Checks that the run may read a file. Visitors with a share token may write the id of any file into a question or a
/// form, so their runs read only what was uploaded with the token, what this conversation has created, and what was
/// attached to the question, which was checked before the run began.
///
/// # Errors
/// `NotFound` for any other file, as if it did not exist.
pub(crate) fn check_readable(ctx: &NodeContext, file: &StoredFile) -> Result<()> {
    let input = &ctx.run.input;
    if !is_visitor(&input.user_id)
        || file.user.as_ref().is_some_and(|user| user.as_str() == input.user_id)
        || file.session.as_ref() == Some(&ctx.run.session)
    {
        return Ok(());
    }
    let mut attached = input.files.iter().filter_map(|text| named_in(text.as_str()?));
    if attached.any(|id| id == file.id) {
        return Ok(());
    }
    Err(Error::not_found(format!("there is no file `{}`", file.id)))
}

/// Returns the download descriptors if the value is one, or a list of them, rather than content to read.
pub(crate) fn downloads(value: &Json) -> Option<Vec<Json>> {
    let is_one =
        |value: &Json| ["doc_id", "filename", "mime_type"].iter().all(|key| value.get(*key).is_some());
    match value {
        Json::Object(_) if is_one(value) => Some(vec![value.clone()]),
        Json::Array(items) if !items.is_empty() && items.iter().all(is_one) => Some(items.clone()),
        Json::String(text) if text.trim_start().starts_with(['{', '[']) => {
            downloads(&serde_json::from_str(text).ok()?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_every_form_of_value() {
        let check = |value: Json, expected: Option<&[&str]>| {
            let found = named(&value).ok();
            let found = found.as_ref().map(|ids| ids.iter().map(FileId::as_str).collect::<Vec<_>>());
            assert_eq!(found.as_deref(), expected, "{value}");
        };
        check(json!({"id": "a1", "name": "x"}), Some(&["a1"]));
        check(json!([{"file_id": "a1"}, {"doc_id": "b2"}]), Some(&["a1", "b2"]));
        check(json!("{\"doc_id\": \"c3\"}"), Some(&["c3"]));
        check(json!(weft_core::seam::file_store::as_text("x.csv", &"d4".into(), "a,b")), Some(&["d4"]));
        check(json!([null, ""]), Some(&[]));
        check(json!("some text"), None);
        check(json!({"name": "x"}), None);
        check(json!(3), None);
    }

    #[test]
    fn pictures_that_a_file_does_not_hold_are_counted() {
        let text = "![a](data:image/png;base64,AA==) ![b](data:image/jpeg;base64,AA==) ![c](data:image/svg+xml;base64,AA==) \
            ![d](https://e.example/d.png)";
        let check = |format: DocumentFormat, expected: usize| {
            let content = DocumentContent::Markdown(text.to_owned());
            let request = WriteRequest { format, content, page: PageSettings::default() };
            assert_eq!(pictures_lost(&request), expected, "{format:?}");
        };
        check(DocumentFormat::Markdown, 0);
        check(DocumentFormat::Html, 1);
        check(DocumentFormat::Docx, 2);
        check(DocumentFormat::Pdf, 3);
    }

    #[test]
    fn names_get_the_extension_of_their_format() {
        assert_eq!(with_ending("report", DocumentFormat::Pdf), "report.pdf");
        assert_eq!(with_ending("../a.PDF", DocumentFormat::Pdf), "a.PDF");
        assert_eq!(with_ending("", DocumentFormat::Markdown), "file.md");
        assert_eq!(with_ending("report.docx", DocumentFormat::Pdf), "report.pdf");
        assert_eq!(with_ending("report.PDF", DocumentFormat::Docx), "report.docx");
        assert_eq!(with_ending("v1.2", DocumentFormat::Pdf), "v1.2.pdf");
    }

    #[test]
    fn only_values_with_a_file_reference_are_downloads() {
        let one = json!({"doc_id": "a", "filename": "b", "mime_type": "c", "x": 1});
        assert_eq!(downloads(&one), Some(vec![one.clone()]));
        assert_eq!(downloads(&json!(one.to_string())), Some(vec![one.clone()]));
        assert_eq!(downloads(&json!([one, {"doc_id": "a"}])), None);
        assert_eq!(downloads(&json!([])), None);
        assert_eq!(downloads(&json!("{text}")), None);
    }
}
