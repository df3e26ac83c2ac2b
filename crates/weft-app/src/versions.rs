//! Versions of canvases: finding, restoring, comparing, exporting and importing them.

use std::sync::Arc;

use weft_core::seam::canvas_store::{CanvasHead, StoredCanvas};
use weft_core::{CanvasKey, Error, ErrorKind, Result, TenantId, blocking, changes};
use weft_dsl::diff::CanvasDiff;
use weft_dsl::export::{Export, export, secrets_named};
use weft_dsl::{Canvas, Problem};

use crate::app::App;
use crate::checking::refusal;

/// How many numbers are tried for a title that is taken.
const TITLES_TRIED_MAX: usize = 100;

/// Work on a canvas, as an error names it. A large one would delay other tasks.
const READING: &str = "reading the canvas";

/// A canvas that was imported.
#[derive(Debug)]
pub struct Imported {
    /// The stored canvas.
    pub canvas: StoredCanvas,
    /// The problems found in it.
    pub problems: Vec<Problem>,
    /// Names of secrets that it uses and that do not exist.
    pub missing: Vec<String>,
}

impl App {
    /// Resolves the name of a version: a hash, a label, `published`, or `latest` for the one that was saved last.
    ///
    /// # Errors
    /// `NotFound` for an unknown version or canvas.
    pub async fn find_version(&self, canvas: &CanvasKey, name: &str) -> Result<Arc<str>> {
        match name {
            "latest" | "draft" => self.canvases.newest(canvas).await,
            "published" => {
                let published = self.versions.published(canvas).await?;
                published.ok_or_else(|| Error::not_found("No available published version"))
            }
            // A hash takes precedence over a label with the same text.
            name => match self.versions.get_version(canvas, name).await {
                Ok(found) => Ok(found.version),
                Err(error) if error.kind == ErrorKind::NotFound => self.labelled(canvas, name).await,
                Err(error) => Err(error),
            },
        }
    }

    async fn labelled(&self, canvas: &CanvasKey, name: &str) -> Result<Arc<str>> {
        self.versions.labelled(canvas, name).await.map_err(|error| match error.kind {
            ErrorKind::NotFound => Error::not_found(format!("the agent has no version or label `{name}`"))
                .help("/api/v1/agents/{id}/versions lists its versions and labels"),
            _ => error,
        })
    }

    /// Makes the canvas of a version the newest one again.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn restore_version(
        &self,
        canvas: &CanvasKey,
        version: &str,
    ) -> Result<(StoredCanvas, Vec<Problem>)> {
        let dsl = self.canvases.version(canvas, version).await?;
        changes::made("agent", || async {
            let known = self.canvases.get(canvas).await?;
            // The canvas no longer matches the file that it came from.
            let head = CanvasHead { source: String::new(), ..known.head.clone() };
            self.change_canvas(&known, head, &dsl).await
        })
        .await
    }

    /// Compares two versions of a canvas.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a version that is not a valid canvas.
    pub async fn compare_versions(&self, canvas: &CanvasKey, old: &str, new: &str) -> Result<CanvasDiff> {
        let old = self.canvases.version(canvas, old).await?;
        let new = self.canvases.version(canvas, new).await?;
        blocking(READING, move || Ok(CanvasDiff::between(&parsed(&old)?, &parsed(&new)?))).await
    }

    /// Exports a version of a canvas, without secrets.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a version that is not a valid canvas.
    pub async fn export_version(&self, canvas: &CanvasKey, version: &str) -> Result<Export> {
        let dsl = self.canvases.version(canvas, version).await?;
        blocking(READING, move || Ok(export(&parsed(&dsl)?))).await
    }

    /// Imports an exported canvas as a new one. A title that is taken gets a number appended.
    ///
    /// # Errors
    /// `Invalid` for a value that is not a canvas; the error of the store.
    pub async fn import_canvas(
        &self,
        tenant: &TenantId,
        head: CanvasHead,
        tags: &[String],
        dsl: &str,
    ) -> Result<Imported> {
        let text: Arc<str> = dsl.into();
        // Parsed before it is stored, so that an unreadable canvas leaves no agent behind.
        let named = blocking(READING, move || Ok(secrets_named(&parsed(&text)?))).await?;
        let put = |title| self.put_canvas(tenant, None, CanvasHead { title, ..head.clone() }, dsl);
        let (canvas, problems) = under_free_title(&head.title, put).await?;
        if !tags.is_empty() {
            self.versions.set_tags(&canvas.key, tags).await?;
        }
        let known = if named.is_empty() { Vec::new() } else { self.secrets.list(tenant).await? };
        let missing = named.into_iter().filter(|name| known.iter().all(|info| *info.name != **name));
        let missing = missing.collect();
        let canvas = StoredCanvas { tags: tags.to_vec(), ..canvas };
        Ok(Imported { canvas, problems, missing })
    }

    /// Stores a canvas, replacing any current one. A title that another one has gets a number appended.
    ///
    /// # Errors
    /// The error of the store.
    pub(crate) async fn put_under_free_title(
        &self,
        key: &CanvasKey,
        head: &CanvasHead,
        dsl: &str,
    ) -> Result<StoredCanvas> {
        let put = |title| {
            let head = CanvasHead { title, ..head.clone() };
            async move { self.canvases.put(key, &head, dsl).await }
        };
        under_free_title(&head.title, put).await
    }
}

/// Stores an object under its title, or with a number appended if the title is taken.
async fn under_free_title<T, F>(title: &str, put: impl Fn(String) -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut number = 1;
    loop {
        match put(numbered(title, number)).await {
            Err(error) if error.kind == ErrorKind::Conflict && number < TITLES_TRIED_MAX => number += 1,
            outcome => return outcome,
        }
    }
}

fn numbered(title: &str, number: usize) -> String {
    match number {
        1 => title.to_owned(),
        number => format!("{title} ({number})"),
    }
}

fn parsed(dsl: &str) -> Result<Canvas> {
    weft_dsl::load(dsl.as_bytes()).map_err(|problems| refusal(&problems))
}
