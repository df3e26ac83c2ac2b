//! What a document goes through on its way into a dataset: an ingestion pipeline.

pub mod compiler;
pub mod extractor;
pub mod file;
pub mod one_chunker;
pub mod parser;
pub mod presentation_chunker;
pub mod qa_chunker;
pub mod table_chunker;
pub mod title_chunker;
pub mod token_chunker;
pub mod tokenizer;

mod by_method;
mod passed;

#[cfg(test)]
mod tests;
