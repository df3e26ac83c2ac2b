//! One dataset: its chunks, and which words are in which of them.

use std::collections::HashMap;

use weft_core::citation::Chunk;

use crate::words::words;

/// How soon a further occurrence of a word in a chunk counts less (Robertson's k1).
const SATURATION: f64 = 1.2;
/// How much a long chunk counts less than a short one (Robertson's b).
const LENGTH: f64 = 0.75;
/// A word of the document's name counts as this many in the text.
const TITLE_WEIGHT: u32 = 2;

/// The chunks of one dataset by word.
#[derive(Debug, Default)]
pub struct Postings {
    chunks: Vec<Option<Entry>>,
    places: HashMap<String, usize>,
    words: HashMap<String, Vec<(usize, u32)>>,
    length: u64,
}

#[derive(Debug)]
struct Entry {
    chunk: Chunk,
    length: u32,
}

impl Postings {
    /// How many chunks there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// A chunk by its id.
    pub fn chunk(&self, id: &str) -> Option<&Chunk> {
        self.chunks.get(*self.places.get(id)?)?.as_ref().map(|entry| &entry.chunk)
    }

    /// How many documents the chunks are from.
    pub fn documents(&self) -> usize {
        let ids = self.chunks.iter().flatten().map(|entry| entry.chunk.document_id.as_str());
        ids.collect::<std::collections::HashSet<_>>().len()
    }

    /// Adds a chunk, in place of the one with the same id.
    pub fn add(&mut self, chunk: Chunk) {
        self.remove(&chunk.id);
        let counts = counts(&chunk);
        let length = counts.values().sum();
        let place = self.chunks.len();
        for (word, count) in counts {
            self.words.entry(word).or_default().push((place, count));
        }
        self.length += u64::from(length);
        self.places.insert(chunk.id.clone(), place);
        self.chunks.push(Some(Entry { chunk, length }));
    }

    fn remove(&mut self, id: &str) {
        let Some(place) = self.places.remove(id) else { return };
        let Some(entry) = self.chunks[place].take() else { return };
        self.length -= u64::from(entry.length);
        for word in counts(&entry.chunk).into_keys() {
            if let Some(list) = self.words.get_mut(&word) {
                list.retain(|(other, _)| *other != place);
            }
        }
    }

    /// How many chunks hold a word.
    pub fn frequency(&self, word: &str) -> usize {
        self.words.get(word).map_or(0, Vec::len)
    }

    /// The sum of all chunks' lengths in words.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Every chunk that holds one of the words, with its score from 0 to 1. `weights` are the words
    /// with their rarity.
    pub fn scored(&self, weights: &[(&str, f64)], average: f64) -> Vec<(f64, &Chunk)> {
        // In a chunk of average length, a word that occurs once adds its rarity.
        let each_once: f64 = weights.iter().map(|(_, rarity)| rarity).sum();
        let mut scores: HashMap<usize, f64> = HashMap::new();
        for (word, rarity) in weights {
            for (place, count) in self.words.get(*word).into_iter().flatten() {
                let Some(Some(entry)) = self.chunks.get(*place) else { continue };
                let count = f64::from(*count);
                let length = 1.0 - LENGTH + LENGTH * f64::from(entry.length) / average.max(1.0);
                let score = rarity * count * (SATURATION + 1.0) / (count + SATURATION * length);
                *scores.entry(*place).or_default() += score;
            }
        }
        let share = |score: f64| if each_once > 0.0 { 1.0 - (-score / each_once).exp() } else { 0.0 };
        let entries = scores.into_iter().filter_map(|(place, score)| {
            let entry = self.chunks.get(place)?.as_ref()?;
            Some((share(score), &entry.chunk))
        });
        entries.collect()
    }
}

fn counts(chunk: &Chunk) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for word in words(&chunk.content) {
        *counts.entry(word).or_default() += 1;
    }
    for word in words(&chunk.document_name) {
        *counts.entry(word).or_default() += TITLE_WEIGHT;
    }
    counts
}
