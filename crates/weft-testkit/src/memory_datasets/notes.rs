//! In-memory records of documents that may differ from the index, and of removed documents.

use weft_core::Result;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{DocumentState, IngestStage};
use weft_core::seam::ingest_queue::{IndexNote, NotedFilter, Removed, ToBeFound};

use super::{KeptDocument, MemoryDatasets, bounded};

impl KeptDocument {
    /// Whether a worker is writing it to the index.
    fn is_busy(&self) -> bool {
        self.document.state == DocumentState::Running
            && self.taken_ms.is_some()
            && self.stage == IngestStage::Indexing
    }

    /// Records that the document may differ from the index.
    pub(super) fn noted(&mut self) -> IndexNote {
        let first = self.unindexed <= 0;
        self.note();
        IndexNote { number: self.unindexed, first, busy: self.is_busy() }
    }
}

impl MemoryDatasets {
    pub(super) fn note_unindexed(&self, document: &DocumentKey) -> Result<IndexNote> {
        let mut tables = self.tables();
        Ok(tables.kept(document)?.noted())
    }

    pub(super) fn note_all_unindexed(&self, dataset: &DatasetKey) {
        let mut tables = self.tables();
        let all = tables.documents.values_mut().filter(|kept| kept.document.key.dataset == *dataset);
        all.for_each(KeptDocument::note);
    }

    pub(super) fn note_indexed(&self, document: &DocumentKey, number: i64) -> bool {
        let mut tables = self.tables();
        let Ok(kept) = tables.kept(document) else { return true };
        let same = kept.unindexed == number && !kept.is_busy();
        if same {
            kept.unindexed = -number;
        } else {
            kept.note();
        }
        same
    }

    pub(super) fn noted(&self, filter: &NotedFilter) -> Vec<DocumentKey> {
        let tables = self.tables();
        let noted = |kept: &&KeptDocument| {
            let key = &kept.document.key;
            kept.unindexed > 0
                && !(kept.is_busy() && kept.at_ms > filter.now_ms)
                && filter.dataset.as_ref().is_none_or(|dataset| key.dataset == *dataset)
                && filter.after.as_ref().is_none_or(|after| key.id > *after)
        };
        let found = tables.documents.values().filter(noted);
        let mut found: Vec<DocumentKey> = found.map(|kept| kept.document.key.clone()).collect();
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found.truncate(bounded(filter.count_max));
        found
    }

    pub(super) fn count_to_be_found(&self, dataset: &DatasetKey) -> ToBeFound {
        let tables = self.tables();
        let found = |kept: &KeptDocument| {
            let found = kept.chunks.iter().filter(|chunk| !chunk.is_parent && chunk.chunk.available);
            found.count() as u64
        };
        ToBeFound {
            chunks: tables.of(dataset).map(found).sum(),
            changing: tables.of(dataset).any(|kept| kept.unindexed > 0 || kept.is_busy()),
        }
    }

    pub(super) fn list_removed(&self, now_ms: i64, count_max: u64) -> Vec<Removed> {
        let tables = self.tables();
        let ripe = tables.removed.iter().filter(|(_, from_ms)| *from_ms <= now_ms);
        let mut found: Vec<Removed> = ripe.map(|(removed, _)| removed.clone()).collect();
        // The entries of documents come before the entry of their dataset, which names no document.
        found.sort_by_key(|one| {
            (one.dataset.tenant.clone(), one.dataset.id.clone(), std::cmp::Reverse(one.document.clone()))
        });
        found.truncate(bounded(count_max));
        found
    }

    pub(super) fn forget_removed(&self, dataset: &DatasetKey, document: Option<&DocumentId>, now_ms: i64) {
        self.tables().removed.retain(|(one, from_ms)| {
            one.dataset != *dataset
                || document.is_some_and(|id| one.document.as_ref() != Some(id))
                || *from_ms > now_ms
        });
    }
}
