//! The graphs of the documents of datasets, read some at a time, as far as there is room for them.

use weft_core::Result;
use weft_core::error::found;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::Extra;

use super::{Entity, Relation, Subgraph};
use crate::raptor::dataset::document_id;

/// Documents whose graphs are read at once.
pub const DOCUMENTS_AT_ONCE: u64 = 20;
/// Bytes that graphs of documents may take together while they are put together.
pub const BYTES_MAX: usize = 256 << 20;

/// Graphs of documents.
#[derive(Debug)]
pub struct GatheredGraphs {
    /// What each document says.
    pub parts: Vec<Subgraph>,
    room: usize,
    is_full: bool,
}

impl GatheredGraphs {
    /// None, with room for so many bytes.
    pub fn within(bytes_max: usize) -> Self {
        Self { parts: Vec::new(), room: bytes_max, is_full: false }
    }

    /// Adds the graphs of those documents of a dataset that pass, in the order of their ids and what is known of the names of all
    /// of them first, until there is no more room.
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

    /// What is to be told, when documents have no part for want of room.
    pub fn note(&self) -> Option<String> {
        let documents = self.parts.len();
        self.is_full.then(|| {
            format!("the knowledge graph is not whole: it is that of {documents} documents, and there is no room for more")
        })
    }
}

/// What a graph takes in memory, roughly.
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
