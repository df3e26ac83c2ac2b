//! Dataset queries of a run: every answer is stored with the run, so that repeated work gets the same answers.

use serde::Serialize;
use serde::de::DeserializeOwned;
use weft_core::context::Signal;
use weft_core::effect::Delivery;
use weft_core::id::{ChunkId, DatasetId, DocumentId};
use weft_core::seam::Knowledge;
use weft_core::seam::chat_model::Usage;
use weft_core::seam::knowledge::{
    ContentsEntry, DatasetBrief, EntityKind, Found, GraphFound, GraphRequest, MetadataKey, Passage, Scope,
    SearchRequest,
};
use weft_core::usage::UsedModel;
use weft_core::{NodeContext, Result, TenantId, async_trait};

/// The datasets of an activation.
#[derive(Debug)]
pub(super) struct RecordedDatasets<'a>(pub &'a NodeContext);

impl RecordedDatasets<'_> {
    async fn call<T: Serialize + DeserializeOwned>(
        &self,
        kind: &'static str,
        asks: impl Serialize,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let question = self.0.effects.question(kind, &asks);
        self.0.effect_asking(kind, Delivery::Idempotent, question, call).await.map(|(answer, _)| answer)
    }

    fn outside(&self) -> &dyn Knowledge {
        &*self.0.run.seams.knowledge
    }
}

#[async_trait]
impl Knowledge for RecordedDatasets<'_> {
    async fn datasets(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        self.call("datasets", names, self.outside().datasets(tenant, names)).await
    }

    async fn datasets_of(&self, tenant: &TenantId, ids: &[DatasetId]) -> Result<Vec<DatasetBrief>> {
        self.call("datasets_of", ids, self.outside().datasets_of(tenant, ids)).await
    }

    async fn candidates(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        self.call("candidates", names, self.outside().candidates(tenant, names)).await
    }

    async fn metadata(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        values_max: usize,
    ) -> Result<Vec<MetadataKey>> {
        self.call("metadata", datasets, self.outside().metadata(tenant, datasets, values_max)).await
    }

    async fn search(&self, tenant: &TenantId, request: &SearchRequest) -> Result<Found> {
        let question = self.0.effects.question("search", &request);
        let search = self.outside().search(tenant, request);
        let (found, made_now) =
            self.0.effect_asking::<Found>("search", Delivery::Idempotent, question, search).await?;
        // Usage that was reported before a crash was reported to this same run.
        if made_now || self.0.effects.are_recorded() {
            for read in &found.used {
                let usage = Usage { prompt_tokens: read.tokens, calls: 1, ..Usage::default() };
                let used = UsedModel { model: read.model.as_str().into(), usage, micros: 0 };
                self.0.signal(Signal::Used(Box::new(used))).await?;
            }
        }
        Ok(found)
    }

    async fn passages(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        ids: &[ChunkId],
    ) -> Result<Vec<Passage>> {
        self.call("passages", ids, self.outside().passages(tenant, datasets, ids)).await
    }

    async fn contents(
        &self,
        tenant: &TenantId,
        dataset: &DatasetId,
        document: &DocumentId,
    ) -> Result<Vec<ContentsEntry>> {
        let call = self.outside().contents(tenant, dataset, document);
        self.call("contents", (dataset, document), call).await
    }

    async fn graph_kinds(&self, tenant: &TenantId, scope: &Scope) -> Result<Vec<EntityKind>> {
        self.call("graph_kinds", scope, self.outside().graph_kinds(tenant, scope)).await
    }

    async fn graph(&self, tenant: &TenantId, request: &GraphRequest) -> Result<GraphFound> {
        self.call("graph", request, self.outside().graph(tenant, request)).await
    }
}
