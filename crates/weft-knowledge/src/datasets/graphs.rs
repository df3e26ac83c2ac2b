//! Graphs of documents, merged on request and cached as long as nothing changes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use weft_core::Result;
use weft_core::id::{DatasetKey, DocumentId};
use weft_core::seam::dataset_store::{Dataset, DatasetStore, DocumentHead, Extra, Heads};
use weft_core::seam::knowledge::Scope;

use crate::graph::apart;
use crate::graph::gather::{BYTES_MAX, GatheredGraphs};
use crate::graph::merge::{Graph, merge};
use crate::raptor::dataset::document_id;

/// Maximum number of cached graphs.
// Each may take as much memory as the graphs from which it was merged.
const KEPT_MAX: usize = 8;

/// What a graph was built from: for each dataset, the documents that contribute to it and when each was
/// changed. A document whose graph is removed no longer contributes, and one that is processed again has been
/// changed.
type Made = Vec<(DatasetKey, Vec<(DocumentId, i64)>)>;

#[derive(Debug)]
struct CachedGraph {
    scope: Scope,
    made: Made,
    graph: Arc<Graph>,
}

/// The cached graphs, most recently used last.
#[derive(Debug, Default)]
pub(super) struct Graphs(Mutex<Vec<CachedGraph>>);

impl Graphs {
    /// Returns the graph of those documents of the datasets that are in the scope and can be found.
    pub(super) async fn of(
        &self,
        store: &dyn DatasetStore,
        datasets: &[Dataset],
        scope: &Scope,
    ) -> Result<Arc<Graph>> {
        let mut made = Made::new();
        for dataset in datasets {
            let heads = store.document_heads(&dataset.key, &Heads::With(Extra::Graph)).await?;
            made.push((dataset.key.clone(), passing(&dataset.key, heads, scope)));
        }
        // The heads show whether anything has changed, and are read much faster than the graphs.
        if let Some(graph) = self.known(&made) {
            return Ok(graph);
        }
        let mut gathered = GatheredGraphs::within(BYTES_MAX);
        for (dataset, documents) in made.iter().filter(|(_, documents)| !documents.is_empty()) {
            let passing: HashSet<&DocumentId> = documents.iter().map(|(id, _)| id).collect();
            gathered.add(store, dataset, |id| passing.contains(id)).await?;
        }
        let note = gathered.note();
        let graph = apart(move || Arc::new(Graph { note, ..merge(gathered.parts) }));
        let graph = graph.await?;
        self.keep(CachedGraph { scope: scope.clone(), made, graph: Arc::clone(&graph) });
        Ok(graph)
    }

    fn known(&self, made: &Made) -> Option<Arc<Graph>> {
        let mut graphs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = graphs.iter().position(|kept| kept.made == *made)?;
        let kept = graphs.remove(place);
        let graph = Arc::clone(&kept.graph);
        graphs.push(kept);
        Some(graph)
    }

    fn keep(&self, kept: CachedGraph) {
        let mut graphs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Graphs built from an earlier state of the same datasets are of no more use.
        let datasets = |one: &CachedGraph| one.made.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        let own = datasets(&kept);
        graphs.retain(|other| other.scope != kept.scope || datasets(other) != own);
        if graphs.len() >= KEPT_MAX {
            graphs.remove(0);
        }
        graphs.push(kept);
    }
}

/// Returns the documents in the scope, and the one that holds what is known about the names of all of them.
fn passing(dataset: &DatasetKey, heads: Vec<DocumentHead>, scope: &Scope) -> Vec<(DocumentId, i64)> {
    let chosen: Option<HashSet<&DocumentId>> = scope.documents.as_ref().map(|ids| ids.iter().collect());
    let together = document_id(dataset);
    let passes = |head: &DocumentHead| {
        if head.id == together {
            return true;
        }
        head.enabled
            && chosen.as_ref().is_none_or(|chosen| chosen.contains(&head.id))
            && scope.filter.as_ref().is_none_or(|filter| filter.matches(&head.metadata))
    };
    heads.into_iter().filter(passes).map(|head| (head.id, head.updated_ms)).collect()
}
