//! Searchable datasets, on top of a store, an index and models.

mod documents;
mod graphs;
mod search;
mod sources;
mod there;
mod unindexed;

use std::collections::HashSet;
use std::sync::Arc;

use weft_core::id::{ChunkId, DatasetId, DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Counting, Dataset, DatasetFilter, DatasetStore};
use weft_core::seam::knowledge::{
    self, ContentsEntry, DatasetBrief, EntityKind, Found, GraphFound, GraphRequest, Knowledge, MetadataKey,
    Passage, Scope, SearchRequest,
};
use weft_core::seam::{Index, ModelDirectory};
use weft_core::{Result, TenantId, async_trait};

use crate::graph::merge::Graph;
use crate::graph::{apart, find};
use graphs::Graphs;
use sources::SearchSources;

/// Number of datasets read at a time.
const DATASETS_AT_ONCE: u64 = 1_000;
/// Number of names or ids looked up at a time.
const NAMED_AT_ONCE: usize = 200;

/// Searchable datasets. Cheap to clone; all clones are the same.
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
    /// Creates the datasets of a store, searched by an index.
    pub fn new(store: Arc<dyn DatasetStore>, index: Arc<dyn Index>, models: Arc<dyn ModelDirectory>) -> Self {
        Self { store, index, models, graphs: Arc::default() }
    }

    /// Returns all datasets of the tenant that match the filter, oldest first.
    async fn listed(&self, tenant: &TenantId, filter: &DatasetFilter) -> Result<Vec<Dataset>> {
        let mut all = Vec::new();
        loop {
            let page = DatasetFilter {
                ascending: true,
                counting: Counting::Without,
                offset: all.len() as u64,
                limit: DATASETS_AT_ONCE,
                ..filter.clone()
            };
            let (some, total) = self.store.datasets(tenant, &page).await?;
            // An empty page ends it, too: while datasets are being removed, the total may never be reached.
            let none = some.is_empty();
            all.extend(some);
            if none || all.len() as u64 >= total {
                return Ok(all);
            }
        }
    }

    /// Returns those of the given datasets that still exist, in the given order.
    async fn those(&self, tenant: &TenantId, ids: &[DatasetId]) -> Result<Vec<Dataset>> {
        let mut datasets = Vec::with_capacity(ids.len());
        for some in ids.chunks(NAMED_AT_ONCE) {
            let filter = DatasetFilter { ids: Some(some.to_vec()), ..DatasetFilter::default() };
            let mut found = self.listed(tenant, &filter).await?;
            found.sort_by_key(|dataset| some.iter().position(|id| *id == dataset.key.id));
            datasets.extend(found);
        }
        Ok(datasets)
    }

    async fn graph_of(&self, tenant: &TenantId, scope: &Scope) -> Result<Arc<Graph>> {
        let datasets = self.those(tenant, &scope.datasets).await?;
        self.graphs.of(&*self.store, &datasets, scope).await
    }
}

fn brief(dataset: Dataset) -> DatasetBrief {
    DatasetBrief {
        id: dataset.key.id,
        name: dataset.name,
        embedder: dataset.embedder,
        similarity_threshold: dataset.similarity_threshold,
        vector_weight: dataset.vector_similarity_weight,
    }
}

#[async_trait]
impl Knowledge for Datasets {
    async fn datasets(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        if !names.is_empty()
            && let Ok(chosen) = knowledge::chosen(self.candidates(tenant, names).await?, names)
        {
            return Ok(chosen);
        }
        // Returns all of them, or the error that names the existing ones.
        let all = self.listed(tenant, &DatasetFilter::default()).await?;
        knowledge::chosen(all.into_iter().map(brief).collect(), names)
    }

    async fn datasets_of(&self, tenant: &TenantId, ids: &[DatasetId]) -> Result<Vec<DatasetBrief>> {
        let known: Vec<DatasetBrief> = self.those(tenant, ids).await?.into_iter().map(brief).collect();
        knowledge::chosen_by_id(&known, ids)
    }

    async fn candidates(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        let mut known: Vec<DatasetBrief> = Vec::new();
        for some in names.chunks(NAMED_AT_ONCE) {
            // A name may have been written with surrounding spaces, and may itself have some.
            let named = some.iter().flat_map(|name| [name.clone(), name.trim().to_owned()]).collect();
            let filter = DatasetFilter { names: Some(named), ..DatasetFilter::default() };
            known.extend(self.listed(tenant, &filter).await?.into_iter().map(brief));
        }
        // A name takes precedence over an id: a text that is one need not be looked up as the other.
        let names_one = |text: &&String| {
            let folded = text.trim().to_lowercase();
            known.iter().any(|brief| brief.name.trim().to_lowercase() == folded)
        };
        let ids: Vec<DatasetId> =
            names.iter().filter(|text| !names_one(text)).map(|text| DatasetId::from(text.trim())).collect();
        known.extend(self.those(tenant, &ids).await?.into_iter().map(brief));
        let mut seen = HashSet::new();
        known.retain(|brief| seen.insert(brief.id.clone()));
        Ok(known)
    }

    async fn metadata(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        values_max: usize,
    ) -> Result<Vec<MetadataKey>> {
        documents::metadata(&*self.store, tenant, datasets, values_max).await
    }

    async fn search(&self, tenant: &TenantId, request: &SearchRequest) -> Result<Found> {
        let datasets = self.those(tenant, &request.datasets).await?;
        let parts = SearchSources { store: &*self.store, index: &*self.index, models: &*self.models, tenant };
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

    async fn graph_kinds(&self, tenant: &TenantId, scope: &Scope) -> Result<Vec<EntityKind>> {
        let graph = self.graph_of(tenant, scope).await?;
        apart(move || graph.kinds()).await
    }

    async fn graph(&self, tenant: &TenantId, request: &GraphRequest) -> Result<GraphFound> {
        let graph = self.graph_of(tenant, &request.scope).await?;
        let request = request.clone();
        apart(move || find::find(&graph, &request)).await
    }
}
