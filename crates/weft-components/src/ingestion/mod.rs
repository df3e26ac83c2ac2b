//! Ingestion pipelines: the steps that a document goes through on its way into a dataset.

pub(crate) mod compiler;
pub(crate) mod extractor;
pub(crate) mod file;
pub(crate) mod one_chunker;
pub(crate) mod parser;
pub(crate) mod presentation_chunker;
pub(crate) mod qa_chunker;
pub(crate) mod table_chunker;
pub(crate) mod tag_chunker;
pub(crate) mod title_chunker;
pub(crate) mod token_chunker;
pub(crate) mod tokenizer;

mod by_method;
mod passed;

use weft_core::ComponentSpec;
use weft_core::pipeline::DOCUMENT;

/// Whether a component is a pipeline step, which works on the document that the previous step outputs.
pub(crate) fn is_step(spec: &ComponentSpec) -> bool {
    spec.outputs.iter().any(|output| output.name == DOCUMENT)
}

#[cfg(test)]
mod tests;
