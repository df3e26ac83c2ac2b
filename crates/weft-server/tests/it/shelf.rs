//! Datasets in memory for the bench, with a reader of lines, and requests as clients send them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use weft_app::pipelines::FilesAndDocuments;
use weft_core::filter::Metadata;
use weft_core::seam::document_reader::{
    DocumentPiece, DocumentReader, FoundPicture, FoundPictures, Position, ReadDocument, ReadRequest,
};
use weft_core::seam::picture_reader::Picture;
use weft_core::seam::{Clock, DatasetStore, FileStore, ModelDirectory, ReadingLog, ReembeddingStore};
use weft_core::{Error, Result, TenantId, async_trait};
use weft_knowledge::datasets::Datasets;
use weft_knowledge::ingest::{
    IngestWorker, Library, LibraryLimits, LibraryParts, Reembedder, ReembedderPace, WorkerPace,
};
use weft_knowledge::local_documents::{LocalDocuments, LocalDocumentsParts};
use weft_search::MemoryChunkIndex;
use weft_testkit::memory_datasets::{MemoryBlobs, MemoryDatasets};

use crate::support::{Bench, Reading};

/// Each line of a file is a piece. A file with the word `broken` cannot be read, and one with `endless` is never
/// finished. Text after `figure: ` counts as read from a picture.
struct Lines;

/// The start of a line that counts as read from a picture.
const FIGURE: &str = "figure: ";

#[async_trait]
impl DocumentReader for Lines {
    async fn read(&self, _: &TenantId, request: &ReadRequest, bytes: bytes::Bytes) -> Result<ReadDocument> {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.contains("broken") {
            return Err(Error::invalid(format!("`{}` is broken", request.name)));
        }
        if text.contains("endless") {
            std::future::pending::<()>().await;
        }
        let place = Position { page: 1, left: 1.0, right: 2.0, top: 3.0, bottom: 4.0 };
        let mut figures = 0..;
        let piece = |line: &str| DocumentPiece {
            content: line.to_owned(),
            positions: vec![place],
            picture: figures.next().filter(|_| line.starts_with(FIGURE)),
            tokens: 3,
            ..DocumentPiece::default()
        };
        let pieces = text.lines().filter(|line| !line.is_empty()).map(piece).collect();
        Ok(ReadDocument { pieces, metadata: Metadata::new(), ..ReadDocument::default() })
    }

    async fn pictures(&self, _: &TenantId, _: &ReadRequest, bytes: bytes::Bytes) -> Result<FoundPictures> {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let found = |line: &str| {
            let bytes = format!("GIF89a of {}", line.trim_start_matches(FIGURE)).into();
            let picture = Picture { media_type: "image/gif".to_owned(), width: 99, height: 99, bytes };
            FoundPicture { picture, ..FoundPicture::default() }
        };
        let pictures = text.lines().filter(|line| !line.is_empty()).map(found).collect();
        Ok(FoundPictures { pictures, warnings: Vec::new() })
    }

    fn knows(&self, name: &str) -> bool {
        !name.ends_with(".unknown")
    }
}

/// The size limit of a file on the bench.
pub(crate) const FILE_BYTES_MAX: u64 = 2_000;

/// Other views of the store of the datasets.
pub(crate) struct OtherFaces {
    pub files: Arc<dyn FileStore>,
    pub readings: Arc<dyn ReadingLog>,
    pub reembeddings: Arc<dyn ReembeddingStore>,
}

/// An empty set of datasets, its search, and its documents, with these files.
pub(crate) fn shelf(
    models: Arc<dyn ModelDirectory>,
    clock: Arc<dyn Clock>,
    files: Arc<dyn FileStore>,
) -> (Arc<Library>, Datasets, OtherFaces) {
    let store = Arc::new(MemoryDatasets::new());
    let blobs = Arc::new(MemoryBlobs::default());
    let documents: Arc<dyn DatasetStore> = store.clone();
    let readings: Arc<dyn ReadingLog> = store.clone();
    let reembeddings: Arc<dyn ReembeddingStore> = store.clone();
    let files = FilesAndDocuments { files, documents, blobs: blobs.clone() };
    let index = Arc::new(MemoryChunkIndex::new());
    let datasets = Datasets::new(store.clone(), index.clone(), Arc::clone(&models));
    let parts = LibraryParts {
        store: store.clone(),
        queue: store,
        blobs,
        index,
        reader: Arc::new(Lines),
        models,
        clock,
        additions: vec![
            Arc::new(weft_knowledge::additions::Graph),
            Arc::new(weft_knowledge::additions::MindMap),
        ],
    };
    let library =
        Library::new(parts, LibraryLimits { file_bytes_max: FILE_BYTES_MAX, ..LibraryLimits::default() });
    (Arc::new(library), datasets, OtherFaces { files: Arc::new(files), readings, reembeddings })
}

/// No documents beside canvases.
pub(crate) fn beside(models: Arc<dyn ModelDirectory>, clock: Arc<dyn Clock>) -> LocalDocuments {
    let (store, index) = (Arc::new(MemoryDatasets::new()), Arc::new(MemoryChunkIndex::new()));
    LocalDocuments::new(LocalDocumentsParts { store, index, reader: Arc::new(Lines), models, clock })
}

/// The body of a form, and its content type.
pub(crate) fn form(files: &[(&str, &str)]) -> (String, String) {
    let mut body = String::new();
    for (name, text) in files {
        let head = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"");
        body.push_str(&format!("--frontier\r\n{head}\r\nContent-Type: text/html\r\n\r\n{text}\r\n"));
    }
    body.push_str("--frontier--\r\n");
    (body, "multipart/form-data; boundary=frontier".to_owned())
}

impl Bench {
    /// Creates a dataset and returns its path.
    pub(crate) async fn dataset(&self, name: &str) -> String {
        let created = self.post("/api/v1/datasets", json!({"name": name})).await.data();
        format!("/api/v1/datasets/{}", created["id"].as_str().unwrap())
    }

    pub(crate) async fn upload(&self, dataset: &str, files: &[(&str, &str)]) -> Reading {
        let (body, kind) = form(files);
        self.send(self.upload_of(dataset, body, &kind)).await
    }

    pub(crate) fn upload_of(&self, dataset: &str, body: String, kind: &str) -> Request<Body> {
        Request::builder()
            .method("POST")
            .uri(format!("{dataset}/documents"))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", kind)
            .body(Body::from(body))
            .unwrap()
    }

    /// Uploads a file and returns its id.
    pub(crate) async fn document(&self, dataset: &str, name: &str, text: &str) -> String {
        let kept = self.upload(dataset, &[(name, text)]).await.data();
        kept[0]["id"].as_str().unwrap().to_owned()
    }

    /// Starts parsing documents, and waits until none of the dataset is being parsed.
    pub(crate) async fn read(&self, dataset: &str, ids: &[&str]) -> Json {
        self.post(&format!("{dataset}/chunks"), json!({"document_ids": ids})).await.data();
        self.work(dataset).await
    }

    /// Works until no document of the dataset is being parsed.
    pub(crate) async fn work(&self, dataset: &str) -> Json {
        let stop = CancellationToken::new();
        let pace = WorkerPace { look_every: Duration::from_millis(5), ..WorkerPace::default() };
        let pipelines = Arc::new(weft_app::pipelines::Pipelines::of(&self.app));
        let worker = IngestWorker::new(Arc::clone(&self.app.library), pace).with_pipelines(pipelines);
        let done = async {
            loop {
                let listed = self.get(&format!("{dataset}/documents?run=RUNNING")).await.data();
                if listed["total"] == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stop.cancel();
        };
        futures::join!(worker.run(&stop, Duration::from_secs(5)), done);
        self.get(&format!("{dataset}/documents?page_size=100&desc=false")).await.data()
    }

    /// Recomputes vectors, as far as requested and possible now.
    pub(crate) async fn embed_anew(&self) {
        let (library, tasks) = (Arc::clone(&self.app.library), Arc::clone(&self.app.reembeddings));
        let worker = Reembedder::new(library, tasks, ReembedderPace::default());
        while worker.next(&CancellationToken::new()).await.unwrap() {}
    }

    /// The same requests with another tenant's token.
    pub(crate) async fn as_stranger(&self) -> Self {
        let token = self.stranger().await;
        let (app, router) = (self.app.clone(), self.router.clone());
        Self { app, router, token, model: self.model.clone(), store: self.store.clone() }
    }
}
