//! Combines two libraries into one, such as the documents beside a canvas and the stored datasets.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weft_core::id::{ChunkId, DatasetId, DocumentId};
use weft_core::seam::Knowledge;
use weft_core::seam::knowledge::{
    self, ContentsEntry, DatasetBrief, EntityKind, Found, GraphFound, GraphRequest, MetadataKey, Passage,
    Scope, SearchRequest,
};
use weft_core::{Result, TenantId, async_trait};

use crate::graph::find::{ENTITIES_MAX, RELATIONS_MAX};

/// Two libraries. If both have a dataset with the same name or id, that of the first is used.
#[derive(Clone)]
pub struct CombinedKnowledge {
    first: Arc<dyn Knowledge>,
    second: Arc<dyn Knowledge>,
}

impl std::fmt::Debug for CombinedKnowledge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CombinedKnowledge").finish_non_exhaustive()
    }
}

/// Datasets, split by the library that they belong to.
struct SplitDatasets {
    first: Vec<DatasetId>,
    second: Vec<DatasetId>,
}

impl CombinedKnowledge {
    /// Combines two libraries.
    pub fn new(first: Arc<dyn Knowledge>, second: Arc<dyn Knowledge>) -> Self {
        Self { first, second }
    }

    async fn parts(&self, tenant: &TenantId, datasets: &[DatasetId]) -> Result<SplitDatasets> {
        let own: HashSet<DatasetId> =
            self.first.datasets(tenant, &[]).await?.into_iter().map(|brief| brief.id).collect();
        let (first, second) = datasets.iter().cloned().partition(|id| own.contains(id));
        Ok(SplitDatasets { first, second })
    }

    async fn all(&self, tenant: &TenantId) -> Result<Vec<DatasetBrief>> {
        Ok(both(self.first.datasets(tenant, &[]).await?, self.second.datasets(tenant, &[]).await?))
    }
}

/// Returns the datasets of both; of two with the same id, the first.
fn both(mut first: Vec<DatasetBrief>, second: Vec<DatasetBrief>) -> Vec<DatasetBrief> {
    first.extend(second);
    let mut seen = HashSet::new();
    first.retain(|brief| seen.insert(brief.id.clone()));
    first
}

#[async_trait]
impl Knowledge for CombinedKnowledge {
    async fn datasets(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        let known =
            if names.is_empty() { self.all(tenant).await? } else { self.candidates(tenant, names).await? };
        match knowledge::chosen(known, names) {
            // The error names the existing ones.
            Err(_) => knowledge::chosen(self.all(tenant).await?, names),
            chosen => chosen,
        }
    }

    async fn datasets_of(&self, tenant: &TenantId, ids: &[DatasetId]) -> Result<Vec<DatasetBrief>> {
        // The first library is small, such as the documents beside a canvas: all of it is read, and the rest
        // is looked up.
        let mut known = self.first.datasets(tenant, &[]).await?;
        let others = ids.iter().filter(|id| known.iter().all(|brief| brief.id != **id));
        let others: Vec<DatasetId> = others.cloned().collect();
        known.extend(self.second.datasets_of(tenant, &others).await?);
        knowledge::chosen_by_id(&known, ids)
    }

    async fn candidates(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        let first = self.first.candidates(tenant, names).await?;
        Ok(both(first, self.second.candidates(tenant, names).await?))
    }

    async fn metadata(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        values_max: usize,
    ) -> Result<Vec<MetadataKey>> {
        let parts = self.parts(tenant, datasets).await?;
        let mut keys = self.first.metadata(tenant, &parts.first, values_max).await?;
        for more in self.second.metadata(tenant, &parts.second, values_max).await? {
            match keys.iter_mut().find(|known| known.key == more.key) {
                Some(known) => join(known, more, values_max),
                None => keys.push(more),
            }
        }
        keys.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(keys)
    }

    async fn search(&self, tenant: &TenantId, request: &SearchRequest) -> Result<Found> {
        let parts = self.parts(tenant, &request.datasets).await?;
        if parts.first.is_empty() {
            return self.second.search(tenant, request).await;
        }
        if parts.second.is_empty() {
            return self.first.search(tenant, request).await;
        }
        // A page of the combined result is cut from everything that both have up to its end.
        let limit = request.offset.saturating_add(request.limit);
        let of = |datasets| SearchRequest { datasets, offset: 0, limit, ..request.clone() };
        let mut found = self.first.search(tenant, &of(parts.first)).await?;
        let more = self.second.search(tenant, &of(parts.second)).await?;
        found.total += more.total;
        found.fitting = found.fitting.zip(more.fitting).map(|(one, other)| one + other);
        found.notes.extend(more.notes);
        found.used.extend(more.used);
        found.documents.extend(more.documents);
        found.documents.sort_by_key(|document| std::cmp::Reverse(document.count));
        found.passages.extend(more.passages);
        // Ties are ordered by id, or a passage could appear on two pages.
        found.passages.sort_by(|one, other| {
            other.similarity.total_cmp(&one.similarity).then_with(|| one.chunk.cmp(&other.chunk))
        });
        found.passages = found.passages.into_iter().skip(request.offset).take(request.limit).collect();
        Ok(found)
    }

    async fn passages(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        ids: &[ChunkId],
    ) -> Result<Vec<Passage>> {
        let parts = self.parts(tenant, datasets).await?;
        let mut passages = self.first.passages(tenant, &parts.first, ids).await?;
        passages.extend(self.second.passages(tenant, &parts.second, ids).await?);
        let places: HashMap<&str, usize> = ids.iter().enumerate().map(|(n, id)| (id.as_str(), n)).collect();
        passages.sort_by_key(|passage| places.get(passage.chunk.id.as_str()).copied());
        Ok(passages)
    }

    async fn contents(
        &self,
        tenant: &TenantId,
        dataset: &DatasetId,
        document: &DocumentId,
    ) -> Result<Vec<ContentsEntry>> {
        let parts = self.parts(tenant, std::slice::from_ref(dataset)).await?;
        let owner = if parts.first.is_empty() { &self.second } else { &self.first };
        owner.contents(tenant, dataset, document).await
    }

    async fn graph_kinds(&self, tenant: &TenantId, scope: &Scope) -> Result<Vec<EntityKind>> {
        let parts = self.parts(tenant, &scope.datasets).await?;
        let of = |datasets| Scope { datasets, ..scope.clone() };
        let mut kinds = self.first.graph_kinds(tenant, &of(parts.first)).await?;
        for more in self.second.graph_kinds(tenant, &of(parts.second)).await? {
            match kinds.iter_mut().find(|known| known.kind == more.kind) {
                Some(known) => known.samples.extend(more.samples),
                None => kinds.push(more),
            }
        }
        Ok(kinds)
    }

    async fn graph(&self, tenant: &TenantId, request: &GraphRequest) -> Result<GraphFound> {
        let parts = self.parts(tenant, &request.scope.datasets).await?;
        let of = |datasets| {
            let scope = Scope { datasets, ..request.scope.clone() };
            GraphRequest { scope, ..request.clone() }
        };
        let mut found = self.first.graph(tenant, &of(parts.first)).await?;
        let more = self.second.graph(tenant, &of(parts.second)).await?;
        found.entities.extend(more.entities);
        found.entities.sort_by(|one, other| other.score.total_cmp(&one.score));
        found.entities.truncate(ENTITIES_MAX);
        found.relations.extend(more.relations);
        found.relations.sort_by(|one, other| other.score.total_cmp(&one.score));
        found.relations.truncate(RELATIONS_MAX);
        // A passage contains one report, and documents beside a canvas have none.
        found.report = found.report.or(more.report);
        found.notes.extend(more.notes);
        Ok(found)
    }
}

/// Merges the counts of one key from two libraries. A value in both is counted in both; the number of
/// different values is then an upper bound.
fn join(known: &mut MetadataKey, more: MetadataKey, values_max: usize) {
    let mut both = 0;
    for (value, count) in more.values {
        match known.values.iter_mut().find(|(other, _)| *other == value) {
            Some((_, counted)) => {
                *counted += count;
                both += 1;
            }
            None => known.values.push((value, count)),
        }
    }
    known.distinct = (known.distinct + more.distinct).saturating_sub(both);
    known.values.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    known.values.truncate(values_max);
}
