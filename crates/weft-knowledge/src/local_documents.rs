//! Documents beside canvases: processed anew by every process, searched like datasets, and gone when the
//! process ends.

use std::sync::Arc;

use bytes::Bytes;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{
    Dataset, DatasetCounts, DatasetStore, Document, DocumentState, Settings,
};
use weft_core::seam::document_reader::{ChunkMethod, ReadDocument, ReadRequest};
use weft_core::seam::index::IndexChange;
use weft_core::seam::{Clock, DocumentReader, Index, ModelDirectory};
use weft_core::{ErrorKind, Result};

use crate::datasets::Datasets;
use crate::ingest::{ids, indexing};

/// Maximum number of tokens of a piece. Smaller than for datasets: a canvas with a handful of documents
/// should cite the exact section.
const PIECE_TOKENS: u32 = 128;

/// What documents beside canvases need. The store and the index must be used for them alone.
#[derive(Clone)]
pub struct LocalDocumentsParts {
    /// Stores them for the lifetime of the process.
    pub store: Arc<dyn DatasetStore>,
    /// Finds them.
    pub index: Arc<dyn Index>,
    /// Reads them.
    pub reader: Arc<dyn DocumentReader>,
    /// Reranking models, for searches that ask for one.
    pub models: Arc<dyn ModelDirectory>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// Documents beside canvases. They are searched by words alone, so that commands need not compute vectors
/// when they start. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct LocalDocuments(LocalDocumentsParts);

impl std::fmt::Debug for LocalDocuments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalDocuments").finish_non_exhaustive()
    }
}

impl LocalDocuments {
    /// Creates an empty collection.
    pub fn new(parts: LocalDocumentsParts) -> Self {
        Self(parts)
    }

    /// Returns the documents as searchable datasets.
    pub fn datasets(&self) -> Datasets {
        let LocalDocumentsParts { store, index, models, .. } = &self.0;
        Datasets::new(Arc::clone(store), Arc::clone(index), Arc::clone(models))
    }

    /// Reads a file and makes it searchable, replacing what was there under its name. The dataset is created
    /// with its first file, and its id is its name. Returns the number of pieces of the file.
    ///
    /// Ids derive from names and texts alone, so a run that is resumed in another process finds what it found before.
    ///
    /// # Errors
    /// As [`DocumentReader::read`]; otherwise when the store or the index cannot be written.
    pub async fn add(&self, dataset: &DatasetKey, name: &str, bytes: Bytes) -> Result<usize> {
        let size = bytes.len() as u64;
        let settings: Settings = [("chunk_token_num".to_owned(), PIECE_TOKENS.into())].into_iter().collect();
        let request =
            ReadRequest { name: name.to_owned(), method: ChunkMethod::Naive, settings: settings.clone() };
        let read = self.0.reader.read(&dataset.tenant, &request, bytes).await?;
        let now_ms = self.0.clock.now_ms();
        let document = Document {
            size,
            method: request.method,
            settings,
            metadata: read.metadata.clone(),
            state: DocumentState::Done,
            progress: 1.0,
            ..Document::unread(DocumentKey::new(dataset, id(dataset, name)), name.to_owned(), now_ms)
        };
        self.put(&document, read).await
    }

    async fn put(&self, document: &Document, read: ReadDocument) -> Result<usize> {
        let LocalDocumentsParts { store, index, .. } = &self.0;
        let dataset = &document.key.dataset;
        match store.create(&empty(dataset, document.created_ms)).await {
            // The dataset exists from the first of its files on.
            Err(error) if error.kind != ErrorKind::Conflict => return Err(error),
            _ => {}
        }
        let id = document.key.id.clone();
        store.remove_documents(dataset, std::slice::from_ref(&id)).await?;
        store.add_document(document).await?;
        // They are gone with the process, which serves no pictures.
        let chunks = ids::chunks(&document.key, read, &ids::PictureNames::new(), document.created_ms);
        store.put_chunks(&document.key, &chunks, 0).await?;
        let count = chunks.len();
        let known = IndexChange::Document(indexing::indexed_document(document));
        let changes = vec![IndexChange::RemoveDocument(id), known, indexing::adding(document, chunks)];
        index.write(dataset, changes).await?;
        Ok(count)
    }
}

fn id(dataset: &DatasetKey, name: &str) -> DocumentId {
    let mut hasher = blake3::Hasher::new();
    // The length separates the end of one part from the beginning of the other.
    hasher.update(&(dataset.id.as_str().len() as u64).to_le_bytes());
    hasher.update(dataset.id.as_str().as_bytes()).update(name.as_bytes());
    DocumentId::new(&hasher.finalize().to_hex()[..16])
}

fn empty(key: &DatasetKey, now_ms: i64) -> Dataset {
    Dataset {
        key: key.clone(),
        name: key.id.as_str().to_owned(),
        avatar: String::new(),
        description: String::new(),
        language: String::new(),
        permission: "me".to_owned(),
        embedder: String::new(),
        method: ChunkMethod::Naive,
        settings: Settings::new(),
        similarity_threshold: 0.2,
        vector_similarity_weight: 0.0,
        pagerank: 0,
        generation: 0,
        created_ms: now_ms,
        updated_ms: now_ms,
        revision: 0,
        counts: DatasetCounts::default(),
    }
}
