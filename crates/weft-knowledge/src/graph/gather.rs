//! Gathers the graphs of documents from datasets, in batches, as far as there is room.

use weft_core::Result;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::Extra;

use super::{Entity, Relation, Subgraph};
use crate::raptor::dataset::document_id;

/// Number of documents whose graphs are read at a time.
pub const DOCUMENTS_AT_ONCE: u64 = 20;
/// Maximum size in bytes of all documents' graphs while they are merged.
pub const BYTES_MAX: usize = 256 << 20;

/// Gathered graphs of documents.
#[derive(Debug)]
pub struct GatheredGraphs {
    /// The graph of each document.
    pub parts: Vec<Subgraph>,
    room: usize,
    is_full: bool,
}

impl GatheredGraphs {
    /// Creates an empty collection with room for `bytes_max` bytes.
    pub fn within(bytes_max: usize) -> Self {
        Self { parts: Vec::new(), room: bytes_max, is_full: false }
    }

    /// Adds the graphs of the documents of a dataset that pass, until there is no more room: first what is
    /// known about the names of all documents, then the documents in the order of their ids.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn add(
        &mut self,
        store: &dyn DatasetStore,
        dataset: &DatasetKey,
        passes: impl Fn(&DocumentId) -> bool,
    ) -> Result<()> {
        let together = document_id(dataset);
        if passes(&together) {
            let key = DocumentKey::new(dataset, together.clone());
            let kept = found(store.extra(&key, Extra::Graph).await)?.flatten();
            self.take(kept.and_then(|kept| Subgraph::of(together.clone(), kept)));
        }
        let mut after: Option<DocumentId> = None;
        while !self.is_full {
            let page = store.extras(dataset, Extra::Graph, after.as_ref(), DOCUMENTS_AT_ONCE).await?;
            let is_last = (page.len() as u64) < DOCUMENTS_AT_ONCE;
            after = page.last().map(|(id, _)| id.clone());
            for (id, kept) in page.into_iter().filter(|(id, _)| *id != together && passes(id)) {
                self.take(Subgraph::of(id, kept));
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, part: Option<Subgraph>) {
        let Some(part) = part.filter(|_| !self.is_full) else { return };
        match self.room.checked_sub(bytes(&part)) {
            Some(room) => {
                self.room = room;
                self.parts.push(part);
            }
            None => self.is_full = true,
        }
    }

    /// Returns a note if documents were left out for lack of room.
    pub fn note(&self) -> Option<String> {
        let documents = self.parts.len();
        self.is_full.then(|| {
            format!(
                "the knowledge graph is incomplete: it covers {} and has no room for more",
                weft_core::value::plural(documents, "document")
            )
        })
    }
}

/// Approximate size of a graph in memory, in bytes.
fn bytes(part: &Subgraph) -> usize {
    let entity = |one: &Entity| size_of::<Entity>() + one.name.len() + one.kind.len() + one.description.len();
    let relation =
        |one: &Relation| size_of::<Relation>() + one.source.len() + one.target.len() + one.description.len();
    let names =
        |names: &Vec<String>| names.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>();
    let reports = part.reports.iter().map(|one| one.title.len() + one.text.len() + names(&one.entities));
    size_of::<Subgraph>()
        + part.entities.iter().map(entity).sum::<usize>()
        + part.relations.iter().map(relation).sum::<usize>()
        + part.aliases.iter().chain(&part.different).map(names).sum::<usize>()
        + reports.sum::<usize>()
}
