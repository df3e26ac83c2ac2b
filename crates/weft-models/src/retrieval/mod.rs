//! Models for searching: those that compute vectors of texts, and those that rank passages. HTTP requests have the
//! forms in [`wire`]; what is common to all of them is in [`HttpEmbedder`] and [`HttpReranker`].

mod cut;
mod embedder;
mod kept_queries;
mod reranker;
mod wire;

use std::sync::Arc;

use weft_core::seam::{Embedder, Reranker};
use weft_core::{Error, Result};

use crate::config::ModelEntry;
use crate::factories::Provider;

use embedder::HttpEmbedder;
use kept_queries::KeptQueries;
use reranker::HttpReranker;

/// The embedding model of an entry.
///
/// # Errors
/// `Invalid` when its provider has none, or a required setting is missing.
pub(crate) fn embedder(entry: &ModelEntry, client: &reqwest::Client) -> Result<Arc<dyn Embedder>> {
    if entry.wire() == Provider::Local {
        return local(entry);
    }
    let Some(wire) = entry.wire().embedding_wire() else {
        return Err(without(entry, "has no embedding models"));
    };
    Ok(Arc::new(KeptQueries::new(HttpEmbedder::new(entry, wire, client)?)))
}

/// The reranker of an entry.
///
/// # Errors
/// As for [`embedder`].
pub(crate) fn reranker(entry: &ModelEntry, client: &reqwest::Client) -> Result<Arc<dyn Reranker>> {
    if entry.wire() == Provider::Local {
        return local_reranker(entry);
    }
    let Some(wire) = entry.wire().rerank_wire() else {
        return Err(without(entry, "has no rerankers"));
    };
    Ok(Arc::new(HttpReranker::new(entry, wire, client)?))
}

fn without(entry: &ModelEntry, what: &str) -> Error {
    let provider = entry.wire().as_str();
    Error::invalid(format!("the provider `{provider}` of the model `{}` {what}", entry.name))
        .help("choose a `kind` that the `provider` supports; docs/models.md has a table")
}

#[cfg(feature = "local-embedder")]
fn local(entry: &ModelEntry) -> Result<Arc<dyn Embedder>> {
    let prefix = |prefix: &Option<String>| prefix.clone().unwrap_or_default();
    let model = crate::local::LocalEmbedder::open(entry.full_name(), folder(entry)?)?;
    let model = model.with_prefixes(prefix(&entry.query_prefix), prefix(&entry.passage_prefix));
    Ok(Arc::new(KeptQueries::new(model)))
}

#[cfg(feature = "local-embedder")]
fn local_reranker(entry: &ModelEntry) -> Result<Arc<dyn Reranker>> {
    Ok(Arc::new(crate::local::LocalReranker::open(entry.full_name(), folder(entry)?)?))
}

#[cfg(feature = "local-embedder")]
fn folder(entry: &ModelEntry) -> Result<&std::path::Path> {
    entry.path.as_deref().ok_or_else(|| {
        let error = Error::invalid(format!("the local model `{}` has no folder", entry.name));
        error.help("set `path` to the folder with its files")
    })
}

#[cfg(not(feature = "local-embedder"))]
fn local(entry: &ModelEntry) -> Result<Arc<dyn Embedder>> {
    Err(not_built(entry))
}

#[cfg(not(feature = "local-embedder"))]
fn local_reranker(entry: &ModelEntry) -> Result<Arc<dyn Reranker>> {
    Err(not_built(entry))
}

#[cfg(not(feature = "local-embedder"))]
fn not_built(entry: &ModelEntry) -> Error {
    let error =
        Error::invalid(format!("the model `{}` is local, but this build has no local models", entry.name));
    error.help("build with `--features local-embedder`")
}
