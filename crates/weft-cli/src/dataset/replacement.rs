//! Files that take the place of a document whose bytes have changed.
//!
//! The new one is kept before the old one goes, under a name that nobody's file has. A command that is killed in between
//! leaves it there; the next one finishes what was begun, so that no document is there twice.

use bytes::Bytes;
use weft_app::App;
use weft_core::id::DocumentId;
use weft_core::seam::dataset_store::{Dataset, Document, DocumentChange, DocumentState};
use weft_core::{Error, ErrorKind, Result};
use weft_knowledge::ingest::Naming;

use super::documents;
use crate::failure::Outcome;

/// What follows the number in the name of a document that is about to take the place of another.
const MARK: &str = ".replacement";
/// Bytes of the number before it: an id.
const ID_BYTES: usize = 32;
/// Bytes of the name of a document, at most.
const NAME_BYTES_MAX: usize = 255;

/// Has a file take the place of a document. `change` has the name that it gets, and what else is to be changed with that.
///
/// # Errors
/// `Invalid` for a file that is refused; `Conflict` when somebody else has put a document of this name there, or has
/// removed what was to be it.
pub(super) async fn replace(
    before: &Document,
    bytes: Bytes,
    change: impl FnOnce(&Document) -> DocumentChange,
    app: &App,
) -> Result<DocumentId> {
    let dataset = &before.key.dataset;
    let document = app.library.upload(dataset, &name(&before.name), bytes, Naming::Exact).await?;
    // Only now, so that a file that is refused takes nothing away.
    app.library.remove_documents(dataset, std::slice::from_ref(&before.key.id)).await?;
    match app.library.update_document(&document.key, &change(&document)).await {
        Ok(document) => Ok(document.key.id),
        // Another command has taken it for one that was left behind.
        Err(error) if error.kind == ErrorKind::NotFound => {
            Err(Error::new(ErrorKind::Conflict, "the new document was removed").because(error))
        }
        Err(error) => {
            app.library.remove_documents(dataset, &[document.key.id]).await?;
            Err(error)
        }
    }
}

/// Finishes what commands have left that were killed: a new document gets the name of the one that is gone, or goes itself
/// where that is still there.
///
/// # Errors
/// When the store fails.
pub(super) async fn finish(dataset: &Dataset, app: &App) -> Outcome<()> {
    for document in documents(&dataset.key, &[DocumentState::Unstarted], app).await? {
        let Some(name) = wanted(&document.name) else { continue };
        let is_named = !name.is_empty() && named(&document, name, app).await?;
        if !is_named {
            app.library.remove_documents(&dataset.key, &[document.key.id]).await?;
        }
    }
    Ok(())
}

/// Whether a document could be given this name.
async fn named(document: &Document, name: &str, app: &App) -> Result<bool> {
    let change = DocumentChange { name: Some(name.to_owned()), ..DocumentChange::default() };
    match app.library.update_document(&document.key, &change).await {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a document is called until it takes the place of the one of this name.
fn name(of: &str) -> String {
    let id = DocumentId::generate();
    let name = format!("{id}{MARK}/{of}");
    // Of what has no room for its name nobody knows which one it was to be.
    if name.len() > NAME_BYTES_MAX { format!("{id}{MARK}") } else { name }
}

/// What a document was to be called that has such a name; empty where that had no room.
fn wanted(name: &str) -> Option<&str> {
    let (id, rest) = name.split_once(MARK)?;
    let is_id = id.len() == ID_BYTES && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let of = if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') };
    of.filter(|_| is_id)
}

#[cfg(test)]
mod tests {
    use weft_app::{Config, assemble_in_memory};

    use super::*;
    use crate::args::DatasetMethodArgs;
    use crate::dataset::fresh;

    #[test]
    fn a_document_that_is_about_to_replace_another_is_known_by_its_name() {
        for of in ["a.md", "guide/start.md", "a.replacement/b.md"] {
            assert_eq!(wanted(&name(of)), Some(of));
        }
        let long = "x".repeat(NAME_BYTES_MAX);
        assert!(name(&long).len() <= NAME_BYTES_MAX);
        assert_eq!(wanted(&name(&long)), Some(""));
        for of in ["a.md", "a.replacement/b.md", ".replacement", "a(1).md"] {
            assert_eq!(wanted(of), None, "{of}");
        }
    }

    #[tokio::test]
    async fn what_a_killed_command_has_left_becomes_the_document_or_goes() {
        let app = assemble_in_memory(&Config::default()).await.unwrap();
        let method = DatasetMethodArgs::default();
        let dataset = fresh("notes", Some("none"), &method, &app).unwrap();
        let dataset = app.library.create_dataset(dataset, Naming::Exact).await.unwrap();
        let put = async |name: &str, text: &'static str| {
            let bytes = Bytes::from_static(text.as_bytes());
            app.library.upload(&dataset.key, name, bytes, Naming::Exact).await.unwrap()
        };
        let kept = async || {
            let mut kept = Vec::new();
            for document in documents(&dataset.key, &[], &app).await.unwrap() {
                let bytes = app.library.file(&document.key).await.unwrap();
                kept.push((document.name, String::from_utf8(bytes.to_vec()).unwrap()));
            }
            kept.sort();
            kept
        };
        let said = |name: &str, text: &str| (name.to_owned(), text.to_owned());

        // Killed before the old one was gone, after that, and where it had no room for its name.
        let old = put("a.md", "old").await;
        put(&name("a.md"), "new").await;
        put(&name("b.md"), "new").await;
        put(&name(&"x".repeat(NAME_BYTES_MAX)), "new").await;
        finish(&dataset, &app).await.unwrap();
        assert_eq!(kept().await, [said("a.md", "old"), said("b.md", "new")]);

        let bytes = Bytes::from_static(b"newer");
        let change =
            |_: &Document| DocumentChange { name: Some("A.md".to_owned()), ..DocumentChange::default() };
        replace(&old, bytes, change, &app).await.unwrap();
        assert_eq!(kept().await, [said("A.md", "newer"), said("b.md", "new")]);
    }
}
