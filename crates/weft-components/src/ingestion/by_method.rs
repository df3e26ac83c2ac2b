//! What chunkers have in common that cut a document in one way and have nothing to say about it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Map;
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{Component, Finished, NodeContext, NodeSource, ParamProblem, Result, Shape};

use crate::ingestion::passed::Passed;
use crate::params::Params;

/// Cuts a document as datasets do by a method.
struct MethodChunker {
    passed: Passed,
    method: ChunkMethod,
}

/// A chunker without parameters.
///
/// # Errors
/// When nothing leads to it.
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
