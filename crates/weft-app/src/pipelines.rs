//! Ingestion pipelines: canvases that process the documents of a dataset.

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use weft_core::error::found;
use weft_core::id::{CanvasId, DatasetKey, DocumentKey, FileId, RunId, SessionId, UserId};
use weft_core::journal::Ending;
use weft_core::seam::blob_store::BlobStore;
use weft_core::seam::dataset_store::{DatasetStore, Document};
use weft_core::seam::file_store::{FileStore, StoredFile, document_file_id};
use weft_core::seam::work_queue::Work;
use weft_core::{
    Entry, Error, ErrorKind, Json, Record, Result, RunKey, TenantId, TurnInput, async_trait, blocking, hex,
};
use weft_knowledge::ingest::PipelineRunner;

use crate::app::App;
use crate::work::Begun;

/// Maximum number of unsuccessful ingestions for one request; each has its own run.
const READINGS_MAX: u32 = 100;

/// Interval for checking whether a run in another process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Returns the run for the given ingestion of a document since it was requested. A second attempt after a crash finds
/// the same run.
fn run_of(document: &Document, reading: u32) -> RunKey {
    let key = &document.key;
    let mut hash = Sha256::new();
    // Each part is preceded by its length, so that different ids never produce the same bytes.
    for part in [key.dataset.tenant.as_str(), key.dataset.id.as_str(), key.id.as_str()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(document.begun_ms.unwrap_or_default().to_le_bytes());
    hash.update(reading.to_le_bytes());
    RunKey::new(&key.dataset.tenant, RunId::from(hex(&hash.finalize()[..16])))
}

/// Returns whether a canvas processes documents. An unreadable canvas is reported by its problems.
pub(crate) async fn is_pipeline(dsl: Arc<str>) -> Result<bool> {
    let looked = move || Ok(weft_dsl::load(dsl.as_bytes()).is_ok_and(|canvas| canvas.is_pipeline()));
    blocking("the check of a pipeline", looked).await
}

/// Files of conversations, and in addition the documents of datasets: `DATASET/DOCUMENT`.
pub struct FilesAndDocuments {
    /// The files of conversations.
    pub files: Arc<dyn FileStore>,
    /// The documents.
    pub documents: Arc<dyn DatasetStore>,
    /// The bytes of the documents.
    pub blobs: Arc<dyn BlobStore>,
}

impl fmt::Debug for FilesAndDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesAndDocuments").field("files", &self.files).finish_non_exhaustive()
    }
}

impl FilesAndDocuments {
    async fn document(&self, tenant: &TenantId, id: &FileId) -> Result<Option<Document>> {
        // The generated ids of other files contain no slash.
        let Some((dataset, document)) = id.as_str().split_once('/') else { return Ok(None) };
        let key = DocumentKey::new(&DatasetKey::new(tenant, dataset), document);
        self.documents.document(&key).await.map(Some)
    }
}

fn stored(document: &Document) -> StoredFile {
    StoredFile {
        id: document_file_id(&document.key),
        name: document.name.clone(),
        mime_type: crate::attachments::served_media_type(&document.name),
        size: document.size,
        session: None,
        user: None,
        created_ms: document.created_ms,
    }
}

#[async_trait]
impl FileStore for FilesAndDocuments {
    async fn put(&self, tenant: &TenantId, file: &StoredFile, bytes: Bytes) -> Result<()> {
        self.files.put(tenant, file, bytes).await
    }

    async fn find(&self, tenant: &TenantId, id: &FileId) -> Result<StoredFile> {
        match self.document(tenant, id).await? {
            Some(document) => Ok(stored(&document)),
            None => self.files.find(tenant, id).await,
        }
    }

    async fn read(&self, tenant: &TenantId, id: &FileId) -> Result<(StoredFile, Bytes)> {
        match self.document(tenant, id).await? {
            Some(document) => Ok((stored(&document), self.blobs.get(tenant, &document.blob).await?)),
            None => self.files.read(tenant, id).await,
        }
    }

    async fn remove(&self, tenant: &TenantId, ids: &[FileId]) -> Result<u64> {
        self.files.remove(tenant, ids).await
    }

    async fn older_than(&self, before_ms: i64, count_max: u64) -> Result<Vec<(TenantId, FileId)>> {
        self.files.older_than(before_ms, count_max).await
    }

    async fn of_session(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<StoredFile>> {
        self.files.of_session(tenant, session).await
    }

    async fn of_user(
        &self,
        tenant: &TenantId,
        user: &UserId,
        after: Option<(i64, &FileId)>,
        count_max: u64,
    ) -> Result<Vec<StoredFile>> {
        self.files.of_user(tenant, user, after, count_max).await
    }
}

/// Runs pipelines on the engine.
#[derive(Clone)]
pub struct Pipelines {
    app: App,
}

impl fmt::Debug for Pipelines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipelines").finish_non_exhaustive()
    }
}

impl Pipelines {
    /// Creates a runner for the pipelines of this app.
    pub fn of(app: &App) -> Self {
        Self { app: app.clone() }
    }

    /// Returns the first ingestion that has not ended unsuccessfully.
    async fn reading(&self, document: &Document) -> Result<RunKey> {
        for reading in 0..READINGS_MAX {
            let run = run_of(document, reading);
            let ending = found(self.app.runs.get(&run).await)?.and_then(|stored| stored.ending);
            if ending.is_none_or(|ending| ending == Ending::Succeeded) {
                return Ok(run);
            }
        }
        Err(Error::invalid(format!("the pipeline failed {READINGS_MAX} times"))
            .help("start parsing the document again"))
    }

    /// Waits for the end of a run, even one in another process.
    async fn ended(&self, work: &Work) -> Result<Ending> {
        loop {
            match self.app.begin_work(work).await? {
                Begun::Ended(ending) => return Ok(ending),
                Begun::Elsewhere => tokio::time::sleep(LOOK_EVERY).await,
                Begun::Running(mut handle) => {
                    // Only its end matters.
                    while handle.entries.next().await?.is_some() {}
                    if self.app.runs.get(&handle.key).await?.ending.is_none() {
                        // It was left without an end, and is resumed at the next check.
                        tokio::time::sleep(LOOK_EVERY).await;
                    }
                }
            }
        }
    }
}

#[async_trait]
impl PipelineRunner for Pipelines {
    async fn run(&self, pipeline: &CanvasId, document: &Document) -> Result<Json> {
        let run = self.reading(document).await?;
        let file = stored(document);
        let file = serde_json::json!({"id": file.id, "name": file.name, "mime_type": file.mime_type, "size": file.size});
        let work = Work {
            run: run.clone(),
            canvas: pipeline.clone(),
            session: None,
            input: TurnInput { query: document.name.clone(), files: vec![file], ..TurnInput::default() },
            source: String::new(),
            due_ms: self.app.clock.now_ms(),
        };
        let gone = |error: Error| match error.kind {
            ErrorKind::NotFound => Error::invalid(format!("the pipeline {pipeline} does not exist"))
                .because(error)
                .help("choose another one in the settings of the dataset, or a `chunk_method`"),
            _ => error,
        };
        let ending = self.ended(&work).await.map_err(gone)?;
        let entries = self.app.engine.journal(&run).await?;
        let last = entries.last().map(|Entry { record, .. }| record);
        match (ending, last) {
            (Ending::Succeeded, Some(Record::RunFinished { outputs, .. })) => {
                serde_json::to_value(&**outputs)
                    .map_err(|cause| Error::internal("cannot read the output of a pipeline").because(cause))
            }
            (_, Some(Record::RunFinished { error: Some(error), .. })) => {
                Err(Error::invalid(format!("the pipeline failed: {error}"))
                    .help(format!("see its run {}", run.id)))
            }
            (ending, _) => Err(Error::invalid(format!("the pipeline ended as `{}`", ending.as_str()))
                .help(format!("see its run {}", run.id))),
        }
    }

    async fn stop(&self, document: &Document) {
        // If the store does not respond, the run ends at its own time limit.
        let Ok(run) = self.reading(document).await else { return };
        // The run does not exist if it was never started.
        if let Err(error) = self.app.engine.cancel(&run).await
            && error.kind != ErrorKind::NotFound
        {
            tracing::warn!(run.id = %run.id, error = error.detail(), "a pipeline cannot be stopped");
        }
    }
}
