//! Shared by the chunkers that apply one chunking method and have no parameters.

use std::sync::Arc;

use serde_json::Map;
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{Component, Finished, NodeContext, NodeSource, ParamProblem, Result, Shape, async_trait};

use crate::ingestion::passed::Passed;
use crate::params::Params;

/// Chunks a document by one of the methods of datasets.
struct MethodChunker {
    passed: Passed,
    method: ChunkMethod,
}

/// Builds a chunker without parameters.
///
/// # Errors
/// When no edge leads to it.
pub(super) fn build(
    source: &NodeSource<'_>,
    method: ChunkMethod,
) -> Result<Arc<dyn Component>, Vec<ParamProblem>> {
    let mut params = Params::of(source);
    let passed = Passed::of(&mut params);
    params.finish(MethodChunker { passed, method })
}

#[async_trait]
impl Component for MethodChunker {
    fn shape(&self) -> Shape {
        self.passed.shape("chunks", &[])
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        self.passed.cut(ctx, self.method, &Map::new()).await
    }
}
