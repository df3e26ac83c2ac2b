//! Names that mean the same in the graphs of several documents. Each document has found those of its own.

use serde_json::json;
use weft_core::Result;
use weft_core::seam::dataset_store::Extra;

use super::DocumentWork;
use crate::additions;
use crate::graph::Subgraph;
use crate::graph::resolve::names_across;
use crate::raptor::dataset::has_resolution;

impl DocumentWork<'_> {
    /// Has a model compare names of different documents, if these ask for it. What it has said before is kept.
    pub(super) async fn resolve_names(&self) -> Result<()> {
        let parts = &self.library.parts;
        let document = &self.taken.document;
        if !has_resolution(&document.settings) {
            return Ok(());
        }
        if let Some(note) = additions::nobody_writes(self.models.directory(), document)? {
            self.warn(format!("Incomplete: {note}"));
            return Ok(());
        }
        let (mut known, mut graphs) = (Subgraph::default(), Vec::new());
        for (id, json) in parts.store.extras(&document.key.dataset, Extra::Graph).await? {
            // What cannot be read is no graph; reading the document again makes it anew.
            let Ok(graph) = serde_json::from_value::<Subgraph>(json) else { continue };
            if id == document.key.id {
                known = graph;
            } else {
                graphs.push(graph);
            }
        }
        let asked = additions::model(self.models.directory(), document);
        let (found, notes) = names_across(&asked, graphs, known).await??;
        notes.iter().for_each(|note| self.warn(format!("Incomplete: {note}")));
        parts.queue.put_new_extra(&self.taken.lease, Extra::Graph, &json!(found)).await
    }
}
