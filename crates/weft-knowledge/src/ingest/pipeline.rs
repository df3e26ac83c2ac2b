//! Documents that go through a custom ingestion pipeline instead of a built-in method.

use std::fmt;

use serde::Deserialize as _;
use weft_core::id::CanvasId;
use weft_core::pipeline::{CHUNKS, DOCUMENT, PipelineChunk, PipelineDocument};
use weft_core::seam::dataset_store::{Document, Settings};
use weft_core::value::Json;
use weft_core::{Error, ErrorKind, Result, async_trait};

/// The setting of a dataset or document that names its pipeline: the id of a canvas.
pub const PIPELINE: &str = "pipeline_id";

/// Returns the pipeline that settings name.
pub fn pipeline_of(settings: &Settings) -> Option<CanvasId> {
    settings.get(PIPELINE).and_then(Json::as_str).filter(|id| !id.is_empty()).map(Into::into)
}

/// Runs pipelines.
#[async_trait]
pub trait PipelineRunner: Send + Sync + fmt::Debug {
    /// Runs a pipeline on a document to its end, and returns the outputs of its last component. When called
    /// again after a crash for the same processing of a document, it resumes the interrupted run.
    ///
    /// # Errors
    /// `NotFound` for a pipeline that does not exist; `Invalid` when it has errors or fails; a temporary
    /// error such as `Unavailable` or `RateLimited` when it could not start.
    async fn run(&self, pipeline: &CanvasId, document: &Document) -> Result<Json>;

    /// Stops the run in progress for a document, which may have been removed since.
    async fn stop(&self, document: &Document);
}

/// A runner for places where pipelines cannot be run.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPipelines;

#[async_trait]
impl PipelineRunner for NoPipelines {
    async fn run(&self, pipeline: &CanvasId, _: &Document) -> Result<Json> {
        let message =
            format!("the document needs the pipeline {pipeline}, but this process does not run pipelines");
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    async fn stop(&self, _: &Document) {}
}

/// Parses the outputs of a pipeline's last component.
///
/// # Errors
/// `Invalid` when the pipeline has not split the document into chunks.
pub(super) fn handed_over(outputs: &Json) -> Result<(PipelineDocument, Vec<PipelineChunk>)> {
    let wrong = |what: &str| {
        Error::invalid(format!("the pipeline ends without {what}"))
            .help("end it with a Tokenizer after a chunker, such as TokenChunker")
    };
    let (document, chunks) = (outputs.get(DOCUMENT), outputs.get(CHUNKS));
    let document = document.ok_or_else(|| wrong("a document"))?;
    let chunks = chunks.filter(|chunks| chunks.is_array()).ok_or_else(|| wrong("chunks"))?;
    let document =
        PipelineDocument::deserialize(document).map_err(|cause| wrong("a document").because(cause))?;
    let chunks = Vec::deserialize(chunks).map_err(|cause| wrong("chunks").because(cause))?;
    Ok((document, chunks))
}
