//! Documents that go through an ingestion pipeline of somebody's own instead of a method.

use std::fmt;

use async_trait::async_trait;
use serde::Deserialize as _;
use weft_core::id::{CanvasId, DocumentKey};
use weft_core::pipeline::{CHUNKS, DOCUMENT, PipelineChunk, PipelineDocument};
use weft_core::seam::dataset_store::{Document, Settings};
use weft_core::value::Json;
use weft_core::{Error, ErrorKind, Result};

/// The setting of a dataset or a document that names its pipeline: the id of a canvas.
pub const PIPELINE: &str = "pipeline_id";

/// The pipeline that settings name.
pub fn pipeline_of(settings: &Settings) -> Option<CanvasId> {
    settings.get(PIPELINE).and_then(Json::as_str).filter(|id| !id.is_empty()).map(Into::into)
}

/// Runs pipelines.
#[async_trait]
pub trait PipelineRunner: Send + Sync + fmt::Debug {
    /// Runs a pipeline on a document to its end: the outputs of its last component. Called again after a crash for the
    /// same reading of a document, it goes on with the run that was cut off.
    ///
    /// # Errors
    /// `NotFound` for a pipeline that is not there; `Invalid` when it has errors or fails; what may pass, such as
    /// `Unavailable` and `RateLimited`, when it could not begin.
    async fn run(&self, pipeline: &CanvasId, document: &Document) -> Result<Json>;

    /// Stops what is under way for a document.
    async fn stop(&self, document: &DocumentKey);
}

/// Where no pipeline runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPipelines;

#[async_trait]
impl PipelineRunner for NoPipelines {
    async fn run(&self, pipeline: &CanvasId, _: &Document) -> Result<Json> {
        let message =
            format!("the document goes through the pipeline {pipeline}, and nothing here runs pipelines");
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    async fn stop(&self, _: &DocumentKey) {}
}

/// What the last component of a pipeline hands over.
///
/// # Errors
/// `Invalid` when it has not cut the document.
pub(super) fn handed_over(outputs: &Json) -> Result<(PipelineDocument, Vec<PipelineChunk>)> {
    let wrong = |what: &str| {
        Error::invalid(format!("the pipeline ends without {what}"))
            .help("end it with a Tokenizer behind a chunker, such as TokenChunker")
    };
    let (document, chunks) = (outputs.get(DOCUMENT), outputs.get(CHUNKS));
    let document = document.ok_or_else(|| wrong("a document"))?;
    let chunks = chunks.filter(|chunks| chunks.is_array()).ok_or_else(|| wrong("chunks"))?;
    let document =
        PipelineDocument::deserialize(document).map_err(|cause| wrong("a document").because(cause))?;
    let chunks = Vec::deserialize(chunks).map_err(|cause| wrong("chunks").because(cause))?;
    Ok((document, chunks))
}
