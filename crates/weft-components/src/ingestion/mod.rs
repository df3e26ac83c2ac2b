//! What a document goes through on its way into a dataset: an ingestion pipeline.

pub mod extractor;
pub mod file;
pub mod parser;
pub mod title_chunker;
pub mod token_chunker;
pub mod tokenizer;

mod passed;

#[cfg(test)]
mod tests;
