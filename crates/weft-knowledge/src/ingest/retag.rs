//! Counts, renames and removes the tags of all chunks of a document.

use std::collections::BTreeMap;

use weft_core::id::{ChunkId, DocumentKey};
use weft_core::seam::dataset_store::{ChunkFilter, ChunkReplacement, Document, StoredChunk};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{Error, Result, changes};

use super::edit::not_being_read;
use super::library::Library;
use super::pages::ChunkPages;

/// Number of chunks examined in one step.
const CHUNKS_AT_ONCE: u64 = 500;

/// A change to the tags of chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagChange {
    /// Renames a tag.
    Rename {
        /// Its current name.
        from: String,
        /// Its new name; chunks that already have a tag of this name keep it once.
        to: String,
    },
    /// Removes these tags.
    Remove(Vec<String>),
}

impl TagChange {
    fn touches(&self, tag: &str) -> bool {
        match self {
            Self::Rename { from, .. } => from == tag,
            Self::Remove(tags) => tags.iter().any(|one| one == tag),
        }
    }

    fn of(&self, tags: &[String]) -> Vec<String> {
        let mut changed: Vec<String> = Vec::with_capacity(tags.len());
        for tag in tags {
            let tag = match self {
                Self::Rename { to, .. } if self.touches(tag) => to,
                Self::Remove(_) if self.touches(tag) => continue,
                _ => tag,
            };
            if !changed.contains(tag) {
                changed.push(tag.clone());
            }
        }
        changed
    }

    /// Applies the change to a chunk of a document.
    fn in_chunk(&self, document: &Document, mut chunk: StoredChunk) -> StoredChunk {
        let own: Vec<String> = chunk.tags().into_iter().map(str::to_owned).collect();
        chunk.set_tags(self.of(&own));
        if is_tag_set(document) {
            chunk.keywords = self.of(&chunk.keywords);
        }
        chunk
    }
}

/// Whether the tags of a document's chunks are among their keywords, as in a tag set.
fn is_tag_set(document: &Document) -> bool {
    document.method == ChunkMethod::Tag
}

/// Returns the tags of a document's chunk.
fn tags<'a>(document: &Document, chunk: &'a StoredChunk) -> Vec<&'a str> {
    let mut tags = chunk.tags();
    if is_tag_set(document) {
        tags.extend(chunk.keywords.iter().map(String::as_str));
    }
    tags.sort_unstable();
    tags.dedup();
    tags
}

impl Library {
    /// Adds the tags of a document's chunks to `counts`, each with the number of chunks that have it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn count_tags(&self, document: &Document, counts: &mut BTreeMap<String, u64>) -> Result<()> {
        let mut pages = self.tagged_pages(&document.key);
        while let Some(chunks) = pages.next().await? {
            for tag in chunks.iter().flat_map(|chunk| tags(document, chunk)) {
                *counts.entry(tag.to_owned()).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Changes tags of all chunks of a document. Returns how many chunks have changed.
    ///
    /// # Errors
    /// `NotFound` if the document does not exist; `Conflict` while it is being processed.
    pub async fn retag(&self, document: &Document, change: &TagChange) -> Result<u64> {
        let mut count = 0;
        // A change of tags moves no chunk, so the pages stay the same.
        let mut pages = self.tagged_pages(&document.key);
        while let Some(chunks) = pages.next().await? {
            let touched = |chunk: &&StoredChunk| tags(document, chunk).iter().any(|tag| change.touches(tag));
            // Only these are stored again: each change of a chunk also goes to the index.
            let ids: Vec<ChunkId> = chunks.iter().filter(touched).map(|chunk| chunk.id.clone()).collect();
            if !ids.is_empty() {
                count += self.retag_some(document.key.clone(), ids, change.clone()).await?;
            }
        }
        Ok(count)
    }

    async fn retag_some(&self, key: DocumentKey, ids: Vec<ChunkId>, change: TagChange) -> Result<u64> {
        let retag = async move |library: Self| {
            let _lock = library.lock(&key).await;
            // The lock is local to this process; others may change the same chunks.
            changes::made("chunk", || async {
                let (dataset, document) = library.dataset_and_document(&key).await?;
                // The result of the processing will replace all chunks.
                not_being_read(&document)?;
                // Read again under the lock: the page was read without it, and the chunks may have changed since.
                let chunks = library.parts.store.chunks_with_vectors(&key, &ids).await?;
                let count = chunks.len() as u64;
                let with = |chunk: StoredChunk| change.in_chunk(&document, chunk);
                let changed = chunks.into_iter().map(|chunk| ChunkReplacement::of(chunk, with)).collect();
                let kept = library.put(&document, changed, dataset.generation).await?;
                Ok::<_, Error>(kept.then_some(count))
            })
            .await
        };
        self.whole(retag).await
    }

    fn tagged_pages<'a>(&'a self, document: &'a DocumentKey) -> ChunkPages<'a> {
        self.pages(document, ChunkFilter { limit: CHUNKS_AT_ONCE, ..ChunkFilter::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_renamed_to_an_existing_one_is_kept_once() {
        let tags = ["a", "b", "c"].map(str::to_owned);
        let rename = TagChange::Rename { from: "a".to_owned(), to: "c".to_owned() };
        assert_eq!(rename.of(&tags), ["c", "b"]);
        let remove = TagChange::Remove(vec!["b".to_owned(), "x".to_owned()]);
        assert_eq!(remove.of(&tags), ["a", "c"]);
    }
}
