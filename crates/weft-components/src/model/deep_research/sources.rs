//! The sources that a research searches.

use weft_agent::research::{Found, Source, SourceKind};
use weft_core::citation::Chunk;
use weft_core::{NodeContext, Result, async_trait};
use weft_knowledge::graph::question::TITLE;
use weft_knowledge::retrieve;

use crate::data::retrieval::search::DatasetSearch;
use crate::passages::formalized;
use crate::tools::search::ServiceNode;

fn found(ctx: &NodeContext, chunks: impl IntoIterator<Item = Chunk>) -> Found {
    let cited = ctx.run.citations.number(chunks);
    let text = formalized(&cited);
    Found { cited, text }
}

/// The datasets that the canvas chooses.
pub(super) struct DatasetSource<'a>(pub &'a DatasetSearch);

#[async_trait]
impl Source for DatasetSource<'_> {
    fn kind(&self) -> SourceKind {
        SourceKind::Dataset
    }

    async fn search(&self, ctx: &NodeContext, query: &str) -> Result<Found> {
        let how = retrieve::Retrieval { graph: false, ..self.0.how().clone() };
        let retrieved = self.0.retrieved_as(ctx, query.to_owned(), how).await?;
        Ok(found(ctx, retrieved.passages.into_iter().map(|passage| passage.chunk)))
    }
}

/// Their knowledge graph.
pub(super) struct GraphSource<'a>(pub &'a DatasetSearch);

#[async_trait]
impl Source for GraphSource<'_> {
    fn kind(&self) -> SourceKind {
        SourceKind::Graph
    }

    async fn search(&self, ctx: &NodeContext, query: &str) -> Result<Found> {
        // The graph's result comes before all passages.
        let how = retrieve::Retrieval {
            graph: true,
            limit: 1,
            keywords: false,
            contents: false,
            languages: Vec::new(),
            reranker: String::new(),
            ..self.0.how().clone()
        };
        let retrieved = self.0.retrieved_as(ctx, query.to_owned(), how).await?;
        let chunks = retrieved.passages.into_iter().map(|passage| passage.chunk);
        Ok(found(ctx, chunks.filter(|chunk| chunk.document_name == TITLE)))
    }
}

/// A web search engine.
pub(super) struct Web<'a>(pub &'a ServiceNode);

#[async_trait]
impl Source for Web<'_> {
    fn kind(&self) -> SourceKind {
        SourceKind::Web
    }

    async fn search(&self, ctx: &NodeContext, query: &str) -> Result<Found> {
        Ok(found(ctx, self.0.look_for(ctx, query).await?))
    }
}
