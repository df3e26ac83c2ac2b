//! Contracts of datasets, of the document queue and of blobs. A suite works in tenants of its own, so it may run
//! against a database with other contents, and repeatedly.

mod at_once;
mod blob_store;
mod dataset_store;
mod index_notes;
mod ingest_queue;
mod reading_log;
mod reembedding_store;
mod replaced;

pub use blob_store::blob_store_keeps_its_contract;
pub use dataset_store::dataset_store_keeps_its_contract;
pub use ingest_queue::ingest_queue_keeps_its_contract;
pub use reading_log::reading_log_keeps_its_contract;
pub use reembedding_store::reembedding_store_keeps_its_contract;

use serde_json::json;
use weft_core::id::{ChunkId, DatasetId, DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::dataset_store::{
    Dataset, DatasetCounts, DatasetFilter, Document, DocumentFilter, Settings, StoredChunk,
};
use weft_core::seam::document_reader::{ChunkMethod, PieceKind, Position};
use weft_core::value::Json;

use super::tenant;

/// Longer than the small text types of any database.
const LARGE: usize = 300_000;

fn map(json: Json) -> Settings {
    match json {
        Json::Object(map) => map,
        _ => Settings::new(),
    }
}

/// A typical dataset.
pub fn dataset(tenant: &TenantId, name: &str) -> Dataset {
    Dataset {
        key: DatasetKey::new(tenant, DatasetId::generate()),
        name: name.to_owned(),
        avatar: "data:image/png;base64,AA==".to_owned(),
        description: "What? 🦜 ' \" \\ %".to_owned(),
        language: "English".to_owned(),
        permission: "me".to_owned(),
        embedder: "bge-m3@Ollama".to_owned(),
        method: ChunkMethod::Naive,
        settings: map(json!({"chunk_token_num": 512, "delimiter": "\n", "raptor": {"use_raptor": false}})),
        similarity_threshold: 0.2,
        vector_similarity_weight: 0.3,
        pagerank: 7,
        generation: 0,
        created_ms: 1_000,
        updated_ms: 1_001,
        revision: 0,
        counts: DatasetCounts::default(),
    }
}

/// A newly uploaded document.
pub fn document(dataset: &DatasetKey, name: &str) -> Document {
    let id = DocumentId::generate();
    Document {
        blob: format!("documents/{id}"),
        size: 12,
        method: ChunkMethod::Qa,
        settings: map(json!({"a": [1, "zwei", null]})),
        metadata: map(json!({"author": ["Ada", "Grace"], "year": 1952})),
        ..Document::unread(DocumentKey::new(dataset, id), name.to_owned(), 1_000)
    }
}

/// A chunk of a document.
pub fn chunk(document: &DocumentKey, ordinal: u64, content: &str) -> StoredChunk {
    StoredChunk {
        id: ChunkId::new(format!("{}-{ordinal}", document.id)),
        document: document.clone(),
        ordinal,
        kind: PieceKind::Table,
        content: content.to_owned(),
        searched: Some("instead".to_owned()),
        headings: vec!["One".to_owned(), "Zwei \"three\"".to_owned()],
        positions: vec![Position { page: 1, left: 0.5, right: 10.25, top: 3.0, bottom: 4.0 }],
        keywords: vec!["Wörter".to_owned()],
        questions: vec!["Why?".to_owned()],
        fields: map(json!({"price": 1.5, "name": "x"})),
        parent: None,
        picture: None,
        available: true,
        tokens: 3,
        vector: None,
        created_ms: 1_234,
    }
}

fn all_datasets() -> DatasetFilter {
    DatasetFilter { limit: u64::MAX, ..DatasetFilter::default() }
}

fn all_documents() -> DocumentFilter {
    DocumentFilter { limit: u64::MAX, ..DocumentFilter::default() }
}
