//! Checks whether changes may be written.

use std::collections::{HashMap, HashSet};

use weft_core::Result;
use weft_core::id::{ChunkId, DatasetId, DocumentId};
use weft_core::seam::index::IndexChange;

use super::snapshot::Snapshot;
use crate::vectors::row;
use crate::{no_direction, no_document, wrong_dimension};

/// Changes on top of a state.
pub(super) struct PendingChanges<'a> {
    dataset: &'a DatasetId,
    before: &'a Snapshot,
    /// Documents that were added or removed.
    documents: HashMap<DocumentId, Presence>,
    /// Documents of the state whose chunks were removed.
    cleared: HashSet<DocumentId>,
    /// Chunks that were removed, either from the state or from `added`.
    removed: HashSet<ChunkId>,
    /// Chunks that were added: their document and the dimension of their vector.
    added: HashMap<ChunkId, (DocumentId, usize)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Presence {
    There,
    Gone,
}

impl<'a> PendingChanges<'a> {
    /// Creates an empty set of changes.
    pub(super) fn new(dataset: &'a DatasetId, before: &'a Snapshot) -> Self {
        Self {
            dataset,
            before,
            documents: HashMap::new(),
            cleared: HashSet::new(),
            removed: HashSet::new(),
            added: HashMap::new(),
        }
    }

    /// Adds changes, all or none. `accepted` are the changes added before, in order.
    ///
    /// # Errors
    /// When one of them may not be made.
    pub(super) fn accept<'b>(
        &mut self,
        changes: &[IndexChange],
        accepted: impl Iterator<Item = &'b [IndexChange]>,
    ) -> Result<()> {
        let refused = changes.iter().try_for_each(|change| self.add(change));
        if refused.is_err() {
            // Refusals are rare, so the state is rebuilt afterwards instead of being copied beforehand.
            *self = Self::new(self.dataset, self.before);
            for changes in accepted {
                changes.iter().try_for_each(|change| self.add(change))?;
            }
        }
        refused
    }

    fn add(&mut self, change: &IndexChange) -> Result<()> {
        match change {
            IndexChange::Document(document) => {
                self.documents.insert(document.id.clone(), Presence::There);
            }
            IndexChange::Chunks(document, chunks) => {
                if !self.has(document) {
                    return Err(no_document(self.dataset, document));
                }
                for (id, chunk) in chunks {
                    let dimension = chunk.vector.as_ref().map_or(0, Vec::len);
                    if chunk.vector.as_ref().is_some_and(|vector| row(vector).is_none()) {
                        return Err(no_direction(id));
                    }
                    // The chunk that is replaced no longer counts.
                    self.removed.insert(id.clone());
                    self.added.remove(id);
                    if dimension != 0
                        && let Some(known) = self.dimension()
                        && known != dimension
                    {
                        return Err(wrong_dimension(self.dataset, dimension, known));
                    }
                    self.added.insert(id.clone(), (document.clone(), dimension));
                }
            }
            IndexChange::RemoveChunks(ids) => {
                for id in ids {
                    self.added.remove(id);
                    self.removed.insert(id.clone());
                }
            }
            IndexChange::Clear(document) => self.clear(document),
            IndexChange::RemoveDocument(document) => {
                self.clear(document);
                self.documents.insert(document.clone(), Presence::Gone);
            }
        }
        Ok(())
    }

    fn clear(&mut self, document: &DocumentId) {
        self.added.retain(|_, (of, _)| of != document);
        self.cleared.insert(document.clone());
    }

    fn has(&self, document: &DocumentId) -> bool {
        match self.documents.get(document) {
            Some(presence) => *presence == Presence::There,
            None => self.before.documents.number(document.as_str()).is_some(),
        }
    }

    /// Returns the dimension of the vectors that would exist.
    fn dimension(&self) -> Option<usize> {
        if let Some((_, dimension)) = self.added.values().find(|(_, dimension)| *dimension != 0) {
            return Some(*dimension);
        }
        let size = self.before.size;
        // Looks at the chunks only if all vectors may be gone, and stops at the first one that remains.
        let stays = |(document, id, has_vector): (u32, &str, bool)| {
            let document = self.before.documents.get(document);
            has_vector
                && !self.removed.contains(id)
                && document.is_some_and(|document| !self.cleared.contains(&document.id))
        };
        (size.vectors > 0 && self.before.chunks().any(stays)).then_some(size.dimension)
    }
}
