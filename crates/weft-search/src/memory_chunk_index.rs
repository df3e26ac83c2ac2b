//! The simple index: everything is in memory, and every question looks at every chunk. Meant for a handful of
//! documents, and as a reference for the larger index in tests.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use weft_core::id::{ChunkId, DatasetId, DatasetKey, DocumentId, TenantId};
use weft_core::seam::Index;
use weft_core::seam::index::{
    Hit, IndexAnswer, IndexChange, IndexQuery, IndexSize, IndexedChunk, IndexedDocument, TextQuery,
};
use weft_core::{Result, async_trait};

use crate::analysis::{each_word_of, language_of};
use crate::best::Best;
use crate::question::{self, Scale, Word};
use crate::{HITS_MAX, bm25, fields, no_direction, no_document, wrong_dimension};

/// An index of chunks by words and vectors, in memory.
#[derive(Debug, Default)]
pub struct MemoryChunkIndex {
    datasets: RwLock<HashMap<DatasetKey, MemoryDataset>>,
}

#[derive(Clone, Debug, Default)]
struct MemoryDataset {
    documents: BTreeMap<DocumentId, IndexedDocument>,
    chunks: BTreeMap<ChunkId, MemoryChunk>,
}

#[derive(Clone, Debug)]
struct MemoryChunk {
    document: DocumentId,
    parent: Option<ChunkId>,
    words: HashMap<String, usize>,
    length: usize,
    vector: Option<Vec<f32>>,
}

impl MemoryChunkIndex {
    /// Creates an empty index.
    pub fn new() -> Self {
        Self::default()
    }
}

impl MemoryChunk {
    fn new(document: &DocumentId, chunk: IndexedChunk) -> Self {
        let (mut words, mut length) = (HashMap::new(), 0);
        let text = fields::joined(&chunk);
        let language = language_of(&text);
        fields::each(&text, |field, count| {
            each_word_of(field, language, &mut |term, _, _| {
                *words.entry(term.to_owned()).or_default() += count;
                length += count;
            });
        });
        let vector = chunk.vector.map(|vector| {
            let size = size(&vector);
            vector.into_iter().map(|value| value / size).collect()
        });
        Self { document: document.clone(), parent: chunk.parent, words, length, vector }
    }
}

fn size(vector: &[f32]) -> f32 {
    vector.iter().map(|value| value * value).sum::<f32>().sqrt()
}

fn has_direction(vector: &[f32]) -> bool {
    let size = size(vector);
    size.is_finite() && size > f32::MIN_POSITIVE
}

impl MemoryDataset {
    fn dimension(&self) -> Option<usize> {
        self.chunks.values().find_map(|chunk| chunk.vector.as_ref().map(Vec::len))
    }

    fn change(&mut self, dataset: &DatasetId, change: IndexChange) -> Result<()> {
        match change {
            IndexChange::Document(document) => {
                self.documents.insert(document.id.clone(), document);
            }
            IndexChange::Chunks(document, chunks) => {
                if !self.documents.contains_key(&document) {
                    return Err(no_document(dataset, &document));
                }
                for (id, chunk) in chunks {
                    // Removed first: a chunk that replaces the only one with a vector may bring another dimension.
                    self.chunks.remove(&id);
                    let vector = chunk.vector.as_deref();
                    if vector.is_some_and(|vector| !has_direction(vector)) {
                        return Err(no_direction(&id));
                    }
                    if let (Some(given), Some(known)) = (vector.map(<[f32]>::len), self.dimension())
                        && given != known
                    {
                        return Err(wrong_dimension(dataset, given, known));
                    }
                    self.chunks.insert(id, MemoryChunk::new(&document, chunk));
                }
            }
            IndexChange::RemoveChunks(ids) => self.chunks.retain(|id, _| !ids.contains(id)),
            IndexChange::Clear(document) => self.chunks.retain(|_, chunk| chunk.document != document),
            IndexChange::RemoveDocument(document) => {
                self.chunks.retain(|_, chunk| chunk.document != document);
                self.documents.remove(&document);
            }
        }
        Ok(())
    }
}

/// The chunks of the selected datasets, and which of them pass the conditions.
struct SearchedChunks<'a> {
    chunks: Vec<(&'a DatasetId, &'a ChunkId, &'a MemoryChunk)>,
    passing: Vec<bool>,
    /// Number of documents that pass.
    fitting: usize,
}

impl<'a> SearchedChunks<'a> {
    fn new(datasets: &'a [(DatasetId, &'a MemoryDataset)], query: &IndexQuery) -> Self {
        let mut searched = Self { chunks: Vec::new(), passing: Vec::new(), fitting: 0 };
        for (id, dataset) in datasets {
            let passes = |document: &&IndexedDocument| {
                document.available
                    && query.documents.as_ref().is_none_or(|chosen| chosen.contains(&document.id))
                    && query.filter.as_ref().is_none_or(|filter| filter.matches(&document.metadata))
            };
            let passing: HashSet<&DocumentId> =
                // All chunks and not only those that pass: the rarity of a word must not depend on the conditions.
                dataset.documents.values().filter(passes).map(|document| &document.id).collect();
            searched.fitting += passing.len();
            for (chunk_id, chunk) in &dataset.chunks {
                searched.chunks.push((id, chunk_id, chunk));
                searched.passing.push(passing.contains(&chunk.document));
            }
        }
        searched
    }

    /// Returns each chunk's score for the words, and the score of an average chunk that contains each word once.
    fn scores(&self, words: &[Word]) -> (Vec<f32>, f32) {
        let length: usize = self.chunks.iter().map(|(_, _, chunk)| chunk.length).sum();
        let average = bm25::real(length) / bm25::real(self.chunks.len().max(1));
        let (mut scores, mut scale) = (vec![0.0; self.chunks.len()], Scale::default());
        for word in words {
            let frequency = |chunk: &MemoryChunk| chunk.words.get(&word.term).copied().unwrap_or_default();
            let holding = self.chunks.iter().filter(|(_, _, chunk)| frequency(chunk) > 0).count();
            // A word that no chunk contains would count as the rarest of all, and lower all scores.
            if holding == 0 {
                continue;
            }
            let worth = word.weight * bm25::rarity(self.chunks.len(), holding);
            scale.add(word, worth);
            for (score, (_, _, chunk)) in scores.iter_mut().zip(&self.chunks) {
                let damping = bm25::damping(bm25::real(chunk.length), average);
                *score += worth * bm25::share(bm25::real(frequency(chunk)), damping);
            }
        }
        (scores, scale.sum())
    }

    fn best(&self, count_max: usize, score: impl Fn(usize) -> Option<f32>) -> Vec<usize> {
        let mut best = Best::new(count_max);
        for at in (0..self.chunks.len()).filter(|at| self.passing[*at]) {
            if let Some(score) = score(at) {
                best.push(score, at);
            }
        }
        best.into_sorted().into_iter().map(|(_, at)| at).collect()
    }
}

fn search(datasets: &[(DatasetId, &MemoryDataset)], query: &IndexQuery) -> Result<IndexAnswer> {
    if let Some(vector) = &query.vector {
        for (id, dataset) in datasets {
            if let Some(known) = dataset.dimension().filter(|known| *known != vector.vector.len()) {
                return Err(wrong_dimension(id, vector.vector.len(), known));
            }
        }
    }
    let count_max = query.count_max.min(HITS_MAX);
    let searched = SearchedChunks::new(datasets, query);
    let words = query.text.as_ref().map(question::words).unwrap_or_default();
    let (scores, bm25_scale) = searched.scores(&words);
    let wanted = query.vector.as_ref().filter(|vector| has_direction(&vector.vector));
    let cosine = |at: usize| {
        let (own, wanted) = (searched.chunks[at].2.vector.as_ref()?, &wanted?.vector);
        Some(own.iter().zip(wanted).map(|(a, b)| a * b).sum::<f32>() / size(wanted))
    };
    let cosines: Vec<f32> = (0..searched.chunks.len()).filter_map(cosine).collect();
    let cosine_count = cosines.len();
    let cosine_mean = cosines.iter().sum::<f32>() / bm25::real(cosine_count.max(1));
    let floor = query.vector.as_ref().map_or(0.0, |vector| vector.cosine_min);
    let found = |at: usize| (scores[at] > 0.0).then(|| scores[at]);
    let by_text = searched.best(count_max, found);
    let by_vector = searched.best(count_max, |at| cosine(at).filter(|cosine| *cosine >= floor));
    let mut hits: BTreeMap<usize, Hit> = BTreeMap::new();
    let hit = |at: usize| {
        let (dataset, id, chunk) = searched.chunks[at];
        Hit {
            dataset: dataset.clone(),
            document: chunk.document.clone(),
            chunk: id.clone(),
            parent: chunk.parent.clone(),
            text: scores[at],
            cosine: cosine(at),
            text_rank: None,
            vector_rank: None,
        }
    };
    for (rank, at) in by_text.into_iter().enumerate() {
        hits.entry(at).or_insert_with(|| hit(at)).text_rank = Some(rank);
    }
    for (rank, at) in by_vector.into_iter().enumerate() {
        hits.entry(at).or_insert_with(|| hit(at)).vector_rank = Some(rank);
    }
    let text_total = (0..scores.len()).filter(|at| searched.passing[*at] && scores[*at] > 0.0).count();
    let (hits, fitting): (Vec<Hit>, usize) = (hits.into_values().collect(), searched.fitting);
    let names = names(datasets, &hits);
    Ok(IndexAnswer { hits, names, bm25_scale, cosine_mean, cosine_count, text_total, fitting })
}

fn names(datasets: &[(DatasetId, &MemoryDataset)], hits: &[Hit]) -> BTreeMap<DocumentId, String> {
    let name = |hit: &Hit| {
        let (_, dataset) = datasets.iter().find(|(id, _)| *id == hit.dataset)?;
        Some((hit.document.clone(), dataset.documents.get(&hit.document)?.name.clone()))
    };
    hits.iter().filter_map(name).collect()
}

#[async_trait]
impl Index for MemoryChunkIndex {
    async fn write(&self, dataset: &DatasetKey, changes: Vec<IndexChange>) -> Result<()> {
        let mut datasets = self.datasets.write().unwrap_or_else(PoisonError::into_inner);
        // Applied to a copy: if one of the changes is refused, none of them takes effect.
        let mut next = datasets.get(dataset).cloned().unwrap_or_default();
        for change in changes {
            next.change(&dataset.id, change)?;
        }
        datasets.insert(dataset.clone(), next);
        Ok(())
    }

    async fn remove(&self, dataset: &DatasetKey) -> Result<()> {
        self.datasets.write().unwrap_or_else(PoisonError::into_inner).remove(dataset);
        Ok(())
    }

    async fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer> {
        let datasets = self.datasets.read().unwrap_or_else(PoisonError::into_inner);
        let mut chosen: Vec<(DatasetId, &MemoryDataset)> = Vec::new();
        for id in &query.datasets {
            // If named twice, a dataset would count twice in the averages.
            if chosen.iter().any(|(known, _)| known == id) {
                continue;
            }
            if let Some(dataset) = datasets.get(&DatasetKey::new(tenant, id.clone())) {
                chosen.push((id.clone(), dataset));
            }
        }
        search(&chosen, query)
    }

    async fn size(&self, dataset: &DatasetKey) -> Result<IndexSize> {
        let datasets = self.datasets.read().unwrap_or_else(PoisonError::into_inner);
        let Some(dataset) = datasets.get(dataset) else { return Ok(IndexSize::default()) };
        Ok(IndexSize {
            documents: dataset.documents.len(),
            chunks: dataset.chunks.len(),
            vectors: dataset.chunks.values().filter(|chunk| chunk.vector.is_some()).count(),
            dimension: dataset.dimension().unwrap_or_default(),
        })
    }

    fn marks(&self, text: &str, query: &TextQuery) -> Vec<Range<usize>> {
        question::marks(text, query)
    }
}
