//! Finds names that mean the same in the graphs of several documents. Each document has found those within itself.

use serde_json::json;
use weft_core::Result;
use weft_core::error::found;
use weft_core::seam::dataset_store::Extra;

use super::DocumentWork;
use crate::additions;
use crate::graph::Subgraph;
use crate::graph::gather::{BYTES_MAX, GatheredGraphs};
use crate::graph::resolve::names_across;
use crate::raptor::dataset::has_resolution;

impl DocumentWork<'_> {
    /// Lets a model compare names of different documents, if these ask for it. Its earlier answers are kept.
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
        let (store, key) = (&*parts.store, &document.key);
        let known = found(store.extra(key, Extra::Graph).await)?.flatten();
        // A stored graph that cannot be read is rebuilt.
        let known = known.and_then(|known| serde_json::from_value::<Subgraph>(known).ok());
        let mut gathered = GatheredGraphs::within(BYTES_MAX);
        gathered.add(store, &key.dataset, |id| *id != key.id).await?;
        gathered.note().iter().for_each(|note| self.warn(format!("Incomplete: {note}")));
        let asked = additions::model(self.models.directory(), document);
        let (same, notes) = names_across(&asked, gathered.parts, known.unwrap_or_default()).await??;
        notes.iter().for_each(|note| self.warn(format!("Incomplete: {note}")));
        parts.queue.put_new_extra(&self.taken.lease, Extra::Graph, &json!(same)).await
    }
}
