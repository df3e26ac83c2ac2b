//! Implements the dataset seam by delegating each call to the rows.

use weft_core::id::{ChunkId, DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{
    ChunkFilter, ChunkHead, ChunkReplacement, Counting, Dataset, DatasetFilter, Document, DocumentChange,
    DocumentFilter, DocumentHead, DocumentQuota, Extra, Heads, RemovedChunks, StoredChunk,
};
use weft_core::seam::ingest_queue::IndexNote;
use weft_core::value::Json;
use weft_core::{Result, async_trait};

use crate::Store;
use crate::open::repeated;
use crate::rows::dataset;

#[async_trait]
impl DatasetStore for Store {
    async fn tenants(&self) -> Result<Vec<TenantId>> {
        self.dataset_tenants().await
    }

    async fn create(&self, dataset: &Dataset) -> Result<()> {
        self.create_dataset(dataset).await
    }

    async fn dataset(&self, key: &DatasetKey) -> Result<Dataset> {
        self.read_dataset(key, Counting::With).await
    }

    async fn dataset_uncounted(&self, key: &DatasetKey) -> Result<Dataset> {
        self.read_dataset(key, Counting::Without).await
    }

    async fn datasets(&self, tenant: &TenantId, filter: &DatasetFilter) -> Result<(Vec<Dataset>, u64)> {
        self.list_datasets(tenant, filter).await
    }

    async fn update(&self, dataset: &Dataset) -> Result<bool> {
        self.update_dataset(dataset).await
    }

    async fn remove(&self, key: &DatasetKey) -> Result<Vec<String>> {
        let removed = repeated(|| self.delete_dataset(key)).await;
        removed.map_err(|error| self.fail("remove the dataset", error))?.ok_or_else(|| dataset::missing(key))
    }

    async fn add_document_within(&self, document: &Document, quota: DocumentQuota) -> Result<()> {
        self.create_document(document, None, quota).await.map(drop)
    }

    async fn replace_document(&self, document: &Document, replaced: &DocumentId) -> Result<String> {
        let blob = self.create_document(document, Some(replaced), DocumentQuota::default()).await?;
        Ok(blob.unwrap_or_default())
    }

    async fn document(&self, key: &DocumentKey) -> Result<Document> {
        self.read_document(key).await
    }

    async fn documents(&self, dataset: &DatasetKey, filter: &DocumentFilter) -> Result<(Vec<Document>, u64)> {
        self.list_documents(dataset, filter).await
    }

    async fn document_heads(&self, dataset: &DatasetKey, wanted: &Heads) -> Result<Vec<DocumentHead>> {
        self.list_document_heads(dataset, wanted).await
    }

    async fn update_document(
        &self,
        key: &DocumentKey,
        change: &DocumentChange,
        now_ms: i64,
    ) -> Result<Option<Document>> {
        self.change_document(key, change, now_ms).await
    }

    async fn remove_documents(&self, dataset: &DatasetKey, ids: &[DocumentId]) -> Result<Vec<String>> {
        let removed = repeated(|| self.delete_documents(dataset, ids)).await;
        removed.map_err(|error| self.fail("remove the documents", error))
    }

    async fn chunks(&self, document: &DocumentKey, filter: &ChunkFilter) -> Result<(Vec<StoredChunk>, u64)> {
        self.list_chunks(document, filter).await
    }

    async fn chunks_by_id(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<StoredChunk>> {
        self.read_chunks(tenant, ids).await
    }

    async fn chunk_heads(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<ChunkHead>> {
        self.read_chunk_heads(tenant, ids).await
    }

    async fn chunks_with_vectors(&self, document: &DocumentKey, ids: &[ChunkId]) -> Result<Vec<StoredChunk>> {
        self.some_chunks(document, ids).await
    }

    async fn put_chunks(
        &self,
        document: &DocumentKey,
        chunks: &[StoredChunk],
        generation: u64,
    ) -> Result<IndexNote> {
        self.keep_chunks(document, chunks, generation).await
    }

    async fn replace_chunks(
        &self,
        document: &DocumentKey,
        replacements: &[ChunkReplacement],
        generation: u64,
    ) -> Result<Option<IndexNote>> {
        self.keep_replacements(document, replacements, generation).await
    }

    async fn next_ordinal(&self, document: &DocumentKey) -> Result<u64> {
        self.find_next_ordinal(document).await
    }

    async fn remove_chunks(&self, document: &DocumentKey, ids: &[ChunkId]) -> Result<RemovedChunks> {
        self.drop_chunks(document, ids).await
    }

    async fn reset_document(&self, key: &DocumentKey, now_ms: i64) -> Result<()> {
        let reset = repeated(|| self.unread_document(key, now_ms)).await;
        reset.map_err(|error| self.fail("take the document back", error))?
    }

    async fn put_extra(&self, document: &DocumentKey, extra: Extra, value: &Json) -> Result<()> {
        self.keep_extra(document, extra, value).await
    }

    async fn extra(&self, document: &DocumentKey, extra: Extra) -> Result<Option<Json>> {
        self.read_extra(document, extra).await
    }

    async fn extras(
        &self,
        dataset: &DatasetKey,
        extra: Extra,
        after: Option<&DocumentId>,
        count_max: u64,
    ) -> Result<Vec<(DocumentId, Json)>> {
        self.list_extras(dataset, extra, after, count_max).await
    }
}
