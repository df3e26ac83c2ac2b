//! A document that goes through a custom pipeline.

use std::sync::atomic::Ordering;

use weft_core::id::CanvasId;
use weft_core::pipeline::read_document;
use weft_core::seam::dataset_store::{IngestStage, StoredChunk};
use weft_core::seam::document_reader::ReadRequest;
use weft_core::value::Json;
use weft_core::{Error, Result};

use super::DocumentWork;
use crate::ingest::{ids, pipeline};

impl DocumentWork<'_> {
    /// Lets a pipeline read and split the file.
    pub(super) async fn read_by(&self, pipeline: &CanvasId) -> Result<()> {
        let parts = &self.library.parts;
        self.say(IngestStage::Reading, 0.0, &format!(" by the pipeline {pipeline}"));
        let outputs = self.pipelines.run(pipeline, &self.taken.document).await?;
        let (handed, chunks) = pipeline::handed_over(&outputs)?;
        // They may be large, and are not needed while pictures are stored.
        drop(outputs);
        let vectors = handed.search.as_ref().is_none_or(|search| search.vectors);
        self.words_alone.store(!vectors, Ordering::Relaxed);
        if !vectors && self.plan.summaries {
            self.warn("Summaries (raptor) need vectors, and the pipeline creates none".to_owned());
        }
        let mut asked = self.taken.document.clone();
        if handed.contents {
            // A chunker of the pipeline requests the table; the settings of the document need not.
            asked.settings.insert("toc_extraction".to_owned(), true.into());
        }
        let request = ReadRequest {
            name: handed.name.clone(),
            method: self.taken.document.method,
            settings: handed.settings.clone(),
        };
        let mut read = read_document(handed, chunks);
        if read.pieces.is_empty() {
            return Err(Error::invalid("there is no text in the chunks of the pipeline"));
        }
        for warning in std::mem::take(&mut read.warnings) {
            self.warn(warning);
        }
        let found = std::mem::take(&mut read.metadata);
        let pictures = Box::pin(self.keep_pictures(&request, &read)).await?;
        let chunks = ids::chunks(&asked.key, read, &pictures, self.library.now_ms());
        for addition in &parts.additions {
            let by_settings = addition.wanted(&self.taken.document.settings);
            let value = if addition.wanted(&asked.settings) {
                if by_settings {
                    // It is built in its own stage.
                    continue;
                } else {
                    let available: Vec<StoredChunk> =
                        chunks.iter().filter(|chunk| chunk.available).cloned().collect();
                    let made = addition.make(self.models.directory(), &asked, &available).await;
                    self.bearable(made)?.map_or(Json::Null, |made| self.told(made))
                }
            } else {
                Json::Null
            };
            parts.queue.put_new_extra(&self.taken.lease, addition.extra(), &value).await?;
        }
        // Before the chunks: storing them moves the document to the next stage, and a crash would lose the metadata.
        self.add_metadata(found).await?;
        self.keep_new(&chunks).await
    }

    /// Returns the stage after this one; `None` after the last. The plan is made before the pipeline runs,
    /// and only the pipeline knows that words are enough; a worker that continues after a crash knows it from
    /// the stage.
    pub(super) fn after(&self, stage: IngestStage) -> Option<IngestStage> {
        match stage {
            IngestStage::Reading if self.words_alone.load(Ordering::Relaxed) => {
                Some(self.plan.next_without_vectors())
            }
            stage => self.plan.next(stage),
        }
    }

    /// Returns the current stage.
    pub(super) fn stage(&self) -> IngestStage {
        self.said(|said| said.progress.stage)
    }

    /// Stores new chunks, and moves on to the next stage that is requested.
    pub(super) async fn keep_new(&self, chunks: &[StoredChunk]) -> Result<()> {
        let next = self.after(IngestStage::Reading).unwrap_or(IngestStage::Indexing);
        self.library.parts.queue.put_new(&self.taken.lease, chunks, next).await?;
        self.say(next, 0.0, "");
        Ok(())
    }
}
