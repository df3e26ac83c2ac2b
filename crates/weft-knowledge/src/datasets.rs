//! Datasets to ask, over what a store keeps, an index finds and models say.

mod documents;
mod graphs;
mod search;

use std::sync::Arc;

use async_trait::async_trait;
use weft_core::filter::{Filter, Metadata};
use weft_core::id::{ChunkId, DatasetId, DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Dataset, DatasetFilter, DatasetStore, DocumentFilter, Extra};
use weft_core::seam::knowledge::{
    self, ContentsEntry, DatasetBrief, EntityKind, Found, GraphFound, GraphRequest, Knowledge, MetadataKey,
    Passage, SearchRequest,
};
use weft_core::seam::{Index, ModelDirectory};
use weft_core::{ErrorKind, Result, TenantId};

use crate::graph::find;
use graphs::Graphs;

/// Datasets of a tenant that are known by name, at most.
const DATASETS_MAX: u64 = 1_000;
/// Rows that are read at once.
pub(crate) const ROWS_AT_ONCE: u64 = 500;

/// Datasets to ask. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Datasets {
    store: Arc<dyn DatasetStore>,
    index: Arc<dyn Index>,
    models: Arc<dyn ModelDirectory>,
    graphs: Arc<Graphs>,
}

impl std::fmt::Debug for Datasets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Datasets").finish_non_exhaustive()
    }
}

impl Datasets {
    /// Datasets of this store, found by this index.
    pub fn new(store: Arc<dyn DatasetStore>, index: Arc<dyn Index>, models: Arc<dyn ModelDirectory>) -> Self {
        Self { store, index, models, graphs: Arc::default() }
    }

    /// The chosen ones of those that are still there.
    async fn those(&self, tenant: &TenantId, ids: &[DatasetId]) -> Result<Vec<Dataset>> {
        let mut datasets = Vec::with_capacity(ids.len());
        for id in ids {
            match self.store.dataset(&DatasetKey::new(tenant, id.clone())).await {
                Ok(dataset) => datasets.push(dataset),
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(datasets)
    }
}

#[async_trait]
impl Knowledge for Datasets {
    async fn datasets(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        let filter = DatasetFilter { ascending: true, limit: DATASETS_MAX, ..DatasetFilter::default() };
        let (datasets, _) = self.store.datasets(tenant, &filter).await?;
        let brief = |dataset: Dataset| DatasetBrief {
            id: dataset.key.id,
            name: dataset.name,
            embedder: dataset.embedder,
            similarity_threshold: dataset.similarity_threshold,
            vector_weight: dataset.vector_similarity_weight,
        };
        knowledge::chosen(datasets.into_iter().map(brief).collect(), names)
    }

    async fn metadata(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        values_max: usize,
    ) -> Result<Vec<MetadataKey>> {
        documents::metadata(&*self.store, tenant, datasets, values_max).await
    }

    async fn fitting(&self, tenant: &TenantId, datasets: &[DatasetId], filter: &Filter) -> Result<u64> {
        let filter = DocumentFilter { metadata: Some(filter.clone()), limit: 1, ..DocumentFilter::default() };
        let mut count = 0;
        for dataset in datasets {
            count += self.store.documents(&DatasetKey::new(tenant, dataset.clone()), &filter).await?.1;
        }
        Ok(count)
    }

    async fn search(&self, tenant: &TenantId, request: &SearchRequest) -> Result<Found> {
        let datasets = self.those(tenant, &request.datasets).await?;
        let parts = search::Parts { store: &*self.store, index: &*self.index, models: &*self.models, tenant };
        search::search(parts, &datasets, request).await
    }

    async fn passages(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        ids: &[ChunkId],
    ) -> Result<Vec<Passage>> {
        documents::passages(&*self.store, tenant, datasets, ids).await
    }

    async fn contents(
        &self,
        tenant: &TenantId,
        dataset: &DatasetId,
        document: &DocumentId,
    ) -> Result<Vec<ContentsEntry>> {
        let key = DocumentKey::new(&DatasetKey::new(tenant, dataset.clone()), document.clone());
        documents::contents(&*self.store, &key).await
    }

    async fn graph_kinds(&self, tenant: &TenantId, datasets: &[DatasetId]) -> Result<Vec<EntityKind>> {
        let datasets = self.those(tenant, datasets).await?;
        Ok(self.graphs.of(&*self.store, &datasets).await?.kinds())
    }

    async fn graph(&self, tenant: &TenantId, request: &GraphRequest) -> Result<GraphFound> {
        let datasets = self.those(tenant, &request.datasets).await?;
        Ok(find::find(&*self.graphs.of(&*self.store, &datasets).await?, request))
    }
}

/// Where a document can be read, as its metadata says it.
fn address(metadata: &Metadata) -> Option<String> {
    let url = metadata.get("url").or_else(|| metadata.get("URL"))?.as_str()?.trim();
    (url.starts_with("http://") || url.starts_with("https://")).then(|| url.to_owned())
}
