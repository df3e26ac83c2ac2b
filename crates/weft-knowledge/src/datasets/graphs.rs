//! Graphs of datasets, put together when they are asked for and kept as long as nothing changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use weft_core::Result;
use weft_core::id::DatasetKey;
use weft_core::seam::dataset_store::{Dataset, DatasetStore, Extra};

use crate::graph::Subgraph;
use crate::graph::merge::{Graph, merge};

/// Graphs that are kept, at most.
const KEPT_MAX: usize = 8;

/// What a graph was made of: datasets, when they were changed, and how much they held then.
type Made = Vec<(DatasetKey, i64, u64, u64)>;

/// The graphs.
#[derive(Debug, Default)]
pub struct Graphs(Mutex<HashMap<Made, Arc<Graph>>>);

impl Graphs {
    /// The graph of these datasets together.
    pub async fn of(&self, store: &dyn DatasetStore, datasets: &[Dataset]) -> Result<Arc<Graph>> {
        let state = |dataset: &Dataset| {
            let counts = dataset.counts;
            (dataset.key.clone(), dataset.updated_ms, counts.documents, counts.chunks)
        };
        let made: Made = datasets.iter().map(state).collect();
        if let Some(graph) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&made) {
            return Ok(Arc::clone(graph));
        }
        let mut parts: Vec<Subgraph> = Vec::new();
        for dataset in datasets {
            let kept = store.extras(&dataset.key, Extra::Graph).await?;
            // What cannot be read is no graph; reading the document again makes it anew.
            parts.extend(kept.into_iter().filter_map(|(_, json)| serde_json::from_value(json).ok()));
        }
        let graph = Arc::new(merge(parts));
        let mut graphs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What was made of an earlier state of the same datasets is of no more use.
        let same = |one: &Made| one.iter().map(|(key, ..)| key).eq(made.iter().map(|(key, ..)| key));
        graphs.retain(|other, _| !same(other));
        if graphs.len() >= KEPT_MAX {
            graphs.clear();
        }
        graphs.insert(made, Arc::clone(&graph));
        Ok(graph)
    }
}
