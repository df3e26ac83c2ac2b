//! Sources, and the small numbers by which they are cited: `[ID:n]`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::value::Json;

/// A passage of a source that an answer may quote, in the format that clients of the compatible API read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// The chunk's own id.
    pub id: String,
    /// Its text.
    pub content: String,
    /// The document it is part of.
    pub document_id: String,
    /// That document's name.
    pub document_name: String,
    /// The dataset it is part of.
    pub dataset_id: String,
    /// An image of it, if there is one.
    pub image_id: Option<String>,
    /// Positions in the document: page, left, right, top, bottom.
    #[serde(default)]
    pub positions: Vec<Json>,
    /// The address at which it can be read.
    pub url: Option<String>,
    /// The fused score, 0 to 1.
    pub similarity: Option<f64>,
    /// The vector part of the score, 0 to 1.
    pub vector_similarity: Option<f64>,
    /// The full-text part of the score, 0 to 1.
    pub term_similarity: Option<f64>,
    /// `table`, `image` and the like; absent for text.
    pub doc_type: Option<String>,
}

/// A chunk with the number it is cited by in this turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cited {
    /// The n of `[ID:n]`, counted from 0.
    pub number: u32,
    /// The cited chunk.
    pub chunk: Arc<Chunk>,
}

/// The sources of one turn. Numbers are consecutive and assigned in order of first appearance. A chunk keeps its
/// number for the whole turn, so two sources never share one.
#[derive(Clone, Debug, Default)]
pub struct Citations(Arc<KnownSources>);

#[derive(Debug, Default)]
struct KnownSources {
    chunks: Mutex<Vec<Arc<Chunk>>>,
    /// Whether a search for sources took place, whatever it found.
    searched: AtomicBool,
}

impl Citations {
    /// Restores the sources that a paused turn had when it stopped.
    pub fn restore(cited: impl IntoIterator<Item = Cited>) -> Self {
        let mut cited: Vec<_> = cited.into_iter().collect();
        // The position in the list becomes the number again.
        cited.sort_by_key(|c| c.number);
        let chunks = Mutex::new(cited.into_iter().map(|c| c.chunk).collect());
        Self(Arc::new(KnownSources { chunks, searched: AtomicBool::new(false) }))
    }

    /// Adds chunks and returns them with their numbers.
    pub fn number(&self, chunks: impl IntoIterator<Item = Chunk>) -> Vec<Cited> {
        // A list that only grows is whole after every step: a panic while it was locked has broken nothing.
        let mut known = self.0.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks
            .into_iter()
            .map(|chunk| {
                // Compared by id: the same passage found again with another score is one source.
                let index = known.iter().position(|k| k.id == chunk.id).unwrap_or_else(|| {
                    known.push(Arc::new(chunk));
                    known.len() - 1
                });
                Cited { number: u32::try_from(index).unwrap_or(u32::MAX), chunk: Arc::clone(&known[index]) }
            })
            .collect()
    }

    /// Records that a search took place. Even if it found nothing, a citation mark in an answer then refers to a
    /// source that does not exist.
    pub fn note_search(&self) {
        // Relaxed, because it orders nothing else.
        self.0.searched.store(true, Ordering::Relaxed);
    }

    /// Returns whether a search took place or there are any sources.
    pub fn was_searched(&self) -> bool {
        let found = || !self.0.chunks.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        self.0.searched.load(Ordering::Relaxed) || found()
    }

    /// Returns the sources after the first `count`.
    pub fn since(&self, count: usize) -> Vec<Cited> {
        let known = self.0.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let new = (0..).zip(known.iter()).skip(count);
        new.map(|(number, chunk)| Cited { number, chunk: Arc::clone(chunk) }).collect()
    }

    /// Returns every source so far.
    pub fn all(&self) -> Vec<Cited> {
        let known = self.0.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        (0..).zip(known.iter()).map(|(number, chunk)| Cited { number, chunk: Arc::clone(chunk) }).collect()
    }

    /// Returns the sources whose mark `[ID:n]` appears in `text`, in order of their numbers.
    pub fn cited_in(&self, text: &str) -> Vec<Cited> {
        let marks = marks(text);
        self.all().into_iter().filter(|c| marks.contains(&c.number)).collect()
    }
}

/// Returns sources in the format that clients of the compatible API read: `{chunks: {n: …}, doc_aggs: {name: …}}`.
pub fn reference(cited: &[Cited]) -> Json {
    let mut chunks = serde_json::Map::new();
    let mut documents: indexmap::IndexMap<&str, (&str, u64)> = indexmap::IndexMap::new();
    for Cited { number, chunk } in cited {
        chunks.insert(number.to_string(), serde_json::json!(chunk));
        documents.entry(&chunk.document_name).or_insert((&chunk.document_id, 0)).1 += 1;
    }
    let documents = documents.into_iter().map(|(name, (id, count))| {
        (name.to_owned(), serde_json::json!({"doc_name": name, "doc_id": id, "count": count}))
    });
    serde_json::json!({"chunks": chunks, "doc_aggs": documents.collect::<serde_json::Map<_, _>>()})
}

/// Returns the numbers of all `[ID:n]` marks in a text.
pub fn marks(text: &str) -> Vec<u32> {
    text.split("[ID:")
        .skip(1)
        .filter_map(|rest| rest.split_once(']'))
        .filter_map(|(number, _)| number.trim().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable_and_never_shared() {
        let chunk = |id: &str| Chunk { id: id.to_owned(), ..Chunk::default() };
        let citations = Citations::default();
        let first = citations.number([chunk("a"), chunk("b")]);
        let again = citations.number([chunk("b"), chunk("c")]);
        let numbers = |cited: &[Cited]| cited.iter().map(|c| c.number).collect::<Vec<_>>();
        assert_eq!(numbers(&first), [0, 1]);
        assert_eq!(numbers(&again), [1, 2]);
        assert_eq!(numbers(&citations.cited_in("x [ID:2] y [ID: 0] z [ID:9]")), [0, 2]);
    }

    #[test]
    fn a_search_is_recorded_even_without_hits() {
        let citations = Citations::default();
        citations.number([]);
        assert!(!citations.was_searched());
        citations.note_search();
        assert!(citations.was_searched() && citations.all().is_empty());
        let found = Citations::default();
        found.number([Chunk::default()]);
        assert!(Citations::restore(found.all()).was_searched());
    }
}
