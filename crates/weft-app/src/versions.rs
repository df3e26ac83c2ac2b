//! Versions of canvases: found by a name, put back, compared, handed on and taken in.

use std::sync::Arc;

use weft_core::seam::canvas_store::{CanvasHead, StoredCanvas};
use weft_core::{CanvasKey, Error, ErrorKind, Result, TenantId, changes};
use weft_dsl::diff::CanvasDiff;
use weft_dsl::export::{Export, export, secrets_named};
use weft_dsl::{Canvas, Problem};

use crate::app::App;
use crate::checking::refusal;

/// How often a title is tried with another number.
const TITLES_TRIED_MAX: usize = 100;

/// A canvas that was taken in.
#[derive(Debug)]
pub struct Imported {
    /// As it is stored.
    pub canvas: StoredCanvas,
    /// What was found in it.
    pub problems: Vec<Problem>,
    /// The secrets that it names and that there are not.
    pub missing: Vec<String>,
}

impl App {
    /// The version that a name stands for: a hash, a label, `published`, or `latest` for the one that was saved last.
    ///
    /// # Errors
    /// `NotFound` when there is none, and for an unknown canvas.
    pub async fn find_version(&self, canvas: &CanvasKey, name: &str) -> Result<Arc<str>> {
        match name {
            "latest" | "draft" => self.canvases.newest(canvas).await,
            "published" => {
                let published = self.versions.published(canvas).await?;
                published.ok_or_else(|| Error::not_found("No available published version"))
            }
            // A hash counts more than a label that is written like one.
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
                .help("its versions and their labels are at /api/v1/agents/{id}/versions"),
            _ => error,
        })
    }

    /// Makes the drawing of a version the newest one again.
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
            // Whatever file it came from, this is no longer what stands there.
            let head = CanvasHead { source: String::new(), ..known.head.clone() };
            self.change_canvas(&known, head, &dsl).await
        })
        .await
    }

    /// What differs between two versions of a canvas.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for one that is no canvas.
    pub async fn compare_versions(&self, canvas: &CanvasKey, old: &str, new: &str) -> Result<CanvasDiff> {
        let old = self.canvases.version(canvas, old).await?;
        let new = self.canvases.version(canvas, new).await?;
        apart(move || Ok(CanvasDiff::between(&parsed(&old)?, &parsed(&new)?))).await
    }

    /// A version of a canvas to be handed on, without secrets.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for one that is no canvas.
    pub async fn export_version(&self, canvas: &CanvasKey, version: &str) -> Result<Export> {
        let dsl = self.canvases.version(canvas, version).await?;
        apart(move || Ok(export(&parsed(&dsl)?))).await
    }

    /// Stores a canvas that was handed on as a new one. A title that is taken gets a number.
    ///
    /// # Errors
    /// `Invalid` for what is no canvas; what the store says.
    pub async fn import_canvas(
        &self,
        tenant: &TenantId,
        head: CanvasHead,
        tags: &[String],
        dsl: &str,
    ) -> Result<Imported> {
        let text: Arc<str> = dsl.into();
        // Looked at before it is stored: what cannot be read leaves no agent behind.
        let named = apart(move || Ok(secrets_named(&parsed(&text)?))).await?;
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

    /// Stores a canvas, whatever was there. A title that another one has gets a number.
    ///
    /// # Errors
    /// What the store says.
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

/// Stores something under its title, or with a number behind that where another has it.
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

/// A large canvas takes long enough to hold up others on the same thread.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::internal("reading the canvas stopped unexpectedly").because(cause))?
}
