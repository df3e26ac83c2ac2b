//! Lists documents and chunks without their contents.

use weft_core::id::DatasetKey;
use weft_core::seam::dataset_store::{
    ChunkHead, Document, DocumentFilter, DocumentHead, DocumentOrder, Heads, StoredChunk,
};

use super::{DatasetTables, KeptDocument, extra_number};

pub(super) fn of_chunk(chunk: StoredChunk) -> ChunkHead {
    ChunkHead { id: chunk.id, document: chunk.document, parent: chunk.parent, available: chunk.available }
}

fn of_document(document: &Document) -> DocumentHead {
    DocumentHead {
        id: document.key.id.clone(),
        name: document.name.clone(),
        metadata: document.metadata.clone(),
        enabled: document.enabled,
        revision: document.revision,
        updated_ms: document.updated_ms,
    }
}

impl DatasetTables {
    /// In the order of their ids.
    pub(super) fn heads(&self, dataset: &DatasetKey, wanted: &Heads) -> Vec<DocumentHead> {
        let fits = |kept: &&KeptDocument| match wanted {
            Heads::Of(ids) => ids.contains(&kept.document.key.id),
            Heads::With(extra) => kept.extras.contains_key(&extra_number(*extra)),
            Heads::Page(after, _) => after.as_ref().is_none_or(|after| kept.document.key.id > *after),
        };
        let limit = match wanted {
            Heads::Page(_, limit) => usize::try_from(*limit).unwrap_or(usize::MAX),
            Heads::Of(_) | Heads::With(_) => usize::MAX,
        };
        self.of(dataset).filter(fits).take(limit).map(|kept| of_document(&kept.document)).collect()
    }
}

/// Sorts documents in the order of a list.
pub(super) fn order(found: &mut [Document], filter: &DocumentFilter) {
    let at = |one: &Document| match filter.order {
        DocumentOrder::Created => (one.created_ms, String::new()),
        DocumentOrder::Updated => (one.updated_ms, String::new()),
        DocumentOrder::Name => (0, one.name.to_lowercase()),
    };
    found.sort_by(|a, b| (at(a), &a.key.id).cmp(&(at(b), &b.key.id)));
    if !filter.ascending {
        found.reverse();
    }
}
