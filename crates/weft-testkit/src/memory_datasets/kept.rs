//! A document with all data that belongs to it.

use std::collections::{BTreeMap, BTreeSet};

use weft_core::Result;
use weft_core::id::{ChunkId, DocumentKey};
use weft_core::seam::dataset_store::{
    ChunkReplacement, Document, DocumentFilter, IngestStage, RemovedChunks, StoredChunk,
};
use weft_core::seam::ingest_queue::{IndexNote, Removed, Wanted};

use super::{DatasetTables, KeptDocument, conflict};

/// A chunk with its staged vector.
#[derive(Clone, Debug)]
pub(super) struct KeptChunk {
    pub(super) chunk: StoredChunk,
    pub(super) is_parent: bool,
    /// Its vector of the next generation.
    pub(super) next: Option<Vec<f32>>,
}

impl KeptChunk {
    /// A chunk that was added by hand.
    pub(super) fn new(chunk: &StoredChunk) -> Self {
        Self { chunk: chunk.clone(), is_parent: false, next: None }
    }

    /// A chunk produced by reading: there an unavailable chunk is a parent of others.
    pub(super) fn read(chunk: &StoredChunk) -> Self {
        Self { is_parent: !chunk.available, ..Self::new(chunk) }
    }
}

impl KeptDocument {
    pub(super) fn new(document: &Document) -> Self {
        Self {
            document: Document { chunk_count: 0, token_count: 0, picture: None, ..document.clone() },
            chunks: Vec::new(),
            fresh: Vec::new(),
            extras: BTreeMap::new(),
            fresh_extras: BTreeMap::new(),
            pictures: BTreeMap::new(),
            stage: IngestStage::Reading,
            taken_ms: None,
            at_ms: document.created_ms,
            fence: 0,
            attempts: 0,
            wanted: Wanted::GoOn,
            unindexed: 0,
            staged: None,
        }
    }

    /// Records that the searchable contents have changed.
    pub(super) fn note(&mut self) {
        self.unindexed = self.unindexed.abs() + 1;
    }

    pub(super) fn left(&self) -> (Removed, i64) {
        let from_ms = if self.taken_ms.is_some() { self.at_ms } else { 0 };
        let DocumentKey { dataset, id } = self.document.key.clone();
        (Removed { dataset, document: Some(id), blob: self.document.blob.clone() }, from_ms)
    }

    pub(super) fn count(&mut self) {
        let found = || self.chunks.iter().filter(|chunk| !chunk.is_parent);
        self.document.chunk_count = found().count() as u64;
        self.document.token_count = found().map(|chunk| u64::from(chunk.chunk.tokens)).sum();
    }

    /// The picture of the first chunk that has one.
    pub(super) fn first_picture(&self) -> Option<String> {
        let shown = self.chunks.iter().filter(|chunk| !chunk.is_parent && chunk.chunk.picture.is_some());
        let first = shown.min_by(|a, b| (a.chunk.ordinal, &a.chunk.id).cmp(&(b.chunk.ordinal, &b.chunk.id)));
        first.and_then(|chunk| chunk.chunk.picture.clone())
    }

    /// Removes chunks, and the pictures that no other chunk refers to.
    pub(super) fn take_out(&mut self, ids: &[ChunkId]) -> RemovedChunks {
        let gone: Vec<KeptChunk> = self.chunks.extract_if(.., |one| ids.contains(&one.chunk.id)).collect();
        self.count();
        self.note();
        let all = || self.chunks.iter().chain(&self.fresh);
        let parents: BTreeSet<&ChunkId> = gone.iter().filter_map(|one| one.chunk.parent.as_ref()).collect();
        let of_parents = all().filter(|one| parents.contains(&one.chunk.id));
        let with_parts: BTreeSet<&ChunkId> = all().filter_map(|one| one.chunk.parent.as_ref()).collect();
        let is_shown = |one: &&KeptChunk| !one.is_parent || with_parts.contains(&one.chunk.id);
        let shown: BTreeSet<&String> =
            all().filter(is_shown).filter_map(|one| one.chunk.picture.as_ref()).collect();
        let left = gone.iter().chain(of_parents).filter_map(|one| one.chunk.picture.as_ref());
        let left: BTreeSet<String> = left.filter(|name| !shown.contains(name)).cloned().collect();
        if self.document.picture.as_ref().is_some_and(|picture| left.contains(picture)) {
            self.document.picture = self.first_picture();
        }
        self.pictures.retain(|name, _| !left.contains(name));
        RemovedChunks { count: gone.len() as u64, pictures: left.into_iter().collect() }
    }

    pub(super) fn fits(&self, filter: &DocumentFilter) -> bool {
        let document = &self.document;
        let folded = document.name.to_lowercase();
        let suffix = folded.rsplit_once('.').map_or("", |(_, suffix)| suffix);
        let ends = |of: &[String]| of.iter().any(|one| one.trim_start_matches('.').to_lowercase() == suffix);
        filter.ids.as_ref().is_none_or(|ids| ids.contains(&document.key.id))
            && filter.name.as_ref().is_none_or(|name| name.to_lowercase() == folded)
            && filter.keywords.as_ref().is_none_or(|words| folded.contains(&words.to_lowercase()))
            && (filter.suffixes.is_empty() || ends(&filter.suffixes))
            && !ends(&filter.other_suffixes)
            && (!filter.bare || document.metadata.is_empty())
            && (filter.states.is_empty() || filter.states.contains(&document.state))
            && filter.metadata.as_ref().is_none_or(|wanted| wanted.matches(&document.metadata))
            && filter.from_ms.is_none_or(|from| document.created_ms >= from)
            && filter.to_ms.is_none_or(|to| document.created_ms <= to)
    }
}

impl DatasetTables {
    /// Stores chunks, replacing those with the same ids.
    pub(super) fn keep(
        &mut self,
        document: &DocumentKey,
        chunks: &[StoredChunk],
        generation: u64,
    ) -> Result<IndexNote> {
        self.kept(document)?;
        if self.dataset(&document.dataset)?.generation != generation {
            return Err(conflict("the dataset got other vectors or another embedder meanwhile"));
        }
        let elsewhere = |id: &ChunkId| {
            self.documents.values().any(|kept| {
                kept.document.key.dataset.tenant == document.dataset.tenant
                    && kept.document.key != *document
                    && kept.chunks.iter().any(|chunk| chunk.chunk.id == *id)
            })
        };
        if chunks.iter().any(|chunk| elsewhere(&chunk.id)) {
            return Err(conflict("a chunk with this id exists already, in another document"));
        }
        let kept = self.kept(document)?;
        for chunk in chunks {
            match kept.chunks.iter_mut().find(|before| before.chunk.id == chunk.id) {
                Some(before) => {
                    *before = KeptChunk { is_parent: before.is_parent, ..KeptChunk::new(chunk) };
                }
                None => kept.chunks.push(KeptChunk::new(chunk)),
            }
        }
        kept.count();
        Ok(kept.noted())
    }

    /// Stores chunks like `keep`, provided that each still replaces the chunk that it was derived from.
    pub(super) fn replace(
        &mut self,
        document: &DocumentKey,
        replacements: &[ChunkReplacement],
        generation: u64,
    ) -> Result<Option<IndexNote>> {
        let kept = self.kept(document)?;
        let there = |id: &ChunkId| kept.chunks.iter().map(|one| &one.chunk).find(|one| one.id == *id);
        if !replacements.iter().all(|one| one.is_of(there(&one.after.id))) {
            return Ok(None);
        }
        let chunks: Vec<StoredChunk> = replacements.iter().map(|one| one.after.clone()).collect();
        self.keep(document, &chunks, generation).map(Some)
    }
}
