//! The embedded index: everything in memory, one set of postings for each tenant and dataset.
//!
//! Chunks are ranked by BM25. For the score, a chunk's BM25 sum is divided by the sum that a chunk of
//! average length gets for every word of the question once, and x becomes 1 − e^(−x). So a score lies
//! between 0 and 1 and does not depend on what else was found: every word once gives 0.63, the half of
//! them 0.39, a fifth of them 0.18, and only a chunk that is about nothing else comes near 0.9. Rare
//! words count more than common ones, and words that no chunk holds do not count at all.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;
use weft_core::citation::Chunk;
use weft_core::filter::Metadata;
use weft_core::id::{ChunkId, DatasetId};
use weft_core::seam::knowledge::{
    self, DatasetBrief, DocumentCount, Found, Knowledge, Passage, Scored, SearchRequest,
};
use weft_core::{Result, TenantId};

use crate::postings::Postings;
use crate::words::words;

/// Different words of one question that are looked for, at most.
pub const QUERY_WORDS_MAX: usize = 256;
/// Chunks of one answer, at most.
pub const RESULTS_MAX: usize = 1_024;

type Key = (TenantId, String);

/// A full-text index in memory.
#[derive(Debug, Default)]
pub struct MemoryIndex {
    datasets: RwLock<BTreeMap<Key, Postings>>,
}

impl MemoryIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The datasets of a tenant with the number of their chunks, by name.
    pub fn sizes(&self, tenant: &TenantId) -> Vec<(String, usize)> {
        let datasets = self.datasets.read().unwrap_or_else(PoisonError::into_inner);
        let own = datasets.iter().filter(|((owner, _), _)| owner == tenant);
        own.map(|((_, name), postings)| (name.clone(), postings.len())).collect()
    }

    /// Adds chunks to a dataset, which comes into being with its first chunk; a chunk whose id is there
    /// already is replaced.
    pub fn add(&self, tenant: &TenantId, dataset: &str, chunks: Vec<Chunk>) {
        if chunks.is_empty() {
            return;
        }
        let mut datasets = self.datasets.write().unwrap_or_else(PoisonError::into_inner);
        let postings = datasets.entry((tenant.clone(), dataset.to_owned())).or_default();
        for chunk in chunks {
            postings.add(Chunk { dataset_id: dataset.to_owned(), ..chunk });
        }
    }

    /// Looks at the chosen datasets of a tenant; those that are not there are passed over.
    fn with<T>(&self, tenant: &TenantId, chosen: &[DatasetId], look: impl FnOnce(&[&Postings]) -> T) -> T {
        let datasets = self.datasets.read().unwrap_or_else(PoisonError::into_inner);
        let chosen: BTreeSet<&DatasetId> = chosen.iter().collect();
        let find = |id: &DatasetId| datasets.get(&(tenant.clone(), id.as_str().to_owned()));
        look(&chosen.into_iter().filter_map(find).collect::<Vec<_>>())
    }
}

/// Whether the conditions let anything through: these documents have no metadata.
fn fits(request: &SearchRequest) -> bool {
    request.filter.as_ref().is_none_or(|filter| filter.matches(&Metadata::new()))
}

/// How many documents pass the conditions.
fn fitting(chosen: &[&Postings], request: &SearchRequest) -> u64 {
    let documents = chosen.iter().map(|postings| postings.documents()).sum::<usize>();
    if fits(request) { documents as u64 } else { 0 }
}

/// What was found, best first. Equal scores are sorted by id, so that the same question always gets the
/// same answer.
fn found<'a>(chosen: &[&'a Postings], request: &SearchRequest) -> Vec<(f64, &'a Chunk)> {
    if !fits(request) {
        return Vec::new();
    }
    let average = average(chosen);
    let mut best: HashMap<(&str, &str), (f64, &Chunk)> = HashMap::new();
    for question in &request.questions {
        let mut seen = HashSet::new();
        let mut asked = words(question);
        asked.extend(request.keywords.iter().flat_map(|keyword| words(keyword)));
        asked.retain(|word| seen.insert(word.clone()));
        asked.truncate(QUERY_WORDS_MAX);
        let weights = weights(chosen, &asked);
        for (score, chunk) in chosen.iter().flat_map(|postings| postings.scored(&weights, average)) {
            let known = best.entry((&chunk.dataset_id, &chunk.id)).or_insert((score, chunk));
            known.0 = known.0.max(score);
        }
    }
    let wanted = |chunk: &Chunk| {
        let documents = request.documents.as_ref();
        documents.is_none_or(|ids| ids.iter().any(|id| id.as_str() == chunk.document_id))
    };
    let mut found: Vec<_> = best.into_values().collect();
    found.retain(|(score, chunk)| *score >= request.similarity_min && wanted(chunk));
    found.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.id.cmp(&other.id)));
    found.truncate(request.candidates_max.min(RESULTS_MAX));
    found
}

fn documents(found: &[(f64, &Chunk)]) -> Vec<DocumentCount> {
    let mut counts: Vec<DocumentCount> = Vec::new();
    for (_, chunk) in found {
        match counts.iter_mut().find(|count| count.id.as_str() == chunk.document_id) {
            Some(count) => count.count += 1,
            None => counts.push(DocumentCount {
                id: chunk.document_id.as_str().into(),
                name: chunk.document_name.clone(),
                count: 1,
            }),
        }
    }
    counts.sort_by_key(|count| std::cmp::Reverse(count.count));
    counts
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// The words that are anywhere, each with its rarity: the logarithm of how much rarer it is than a
/// word that is everywhere.
fn weights<'a>(chosen: &[&Postings], asked: &'a [String]) -> Vec<(&'a str, f64)> {
    let total = count(chosen.iter().map(|postings| postings.len()).sum());
    let mut weights = Vec::new();
    for word in asked {
        let holding = count(chosen.iter().map(|postings| postings.frequency(word)).sum());
        if holding > 0.0 {
            weights.push((word.as_str(), (1.0 + (total - holding + 0.5) / (holding + 0.5)).ln()));
        }
    }
    weights
}

fn average(chosen: &[&Postings]) -> f64 {
    let chunks: usize = chosen.iter().map(|postings| postings.len()).sum();
    let length: u64 = chosen.iter().map(|postings| postings.length()).sum();
    count(usize::try_from(length).unwrap_or(usize::MAX)) / count(chunks).max(1.0)
}

#[async_trait]
impl Knowledge for MemoryIndex {
    async fn datasets(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        let brief = |(name, _): (String, usize)| DatasetBrief {
            id: name.as_str().into(),
            name,
            embedder: String::new(),
            similarity_threshold: 0.2,
            vector_weight: 0.0,
        };
        knowledge::chosen(self.sizes(tenant).into_iter().map(brief).collect(), names)
    }

    async fn search(&self, tenant: &TenantId, request: &SearchRequest) -> Result<Found> {
        let scored = |(similarity, chunk): &(f64, &Chunk)| Scored {
            chunk: chunk.id.as_str().into(),
            document: chunk.document_id.as_str().into(),
            dataset: chunk.dataset_id.as_str().into(),
            parent: None,
            similarity: *similarity,
            term: *similarity,
            vector: None,
        };
        let note = "documents in memory are ranked by their words alone, not by a model".to_owned();
        let notes = (!request.reranker.is_empty()).then_some(note).into_iter().collect();
        Ok(self.with(tenant, &request.datasets, |chosen| {
            let found = found(chosen, request);
            let passages = found.iter().skip(request.offset).take(request.limit).map(scored).collect();
            let fitting = request.filter.is_some().then(|| fitting(chosen, request));
            Found { passages, total: found.len(), documents: documents(&found), fitting, notes }
        }))
    }

    async fn passages(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        ids: &[ChunkId],
    ) -> Result<Vec<Passage>> {
        Ok(self.with(tenant, datasets, |chosen| {
            let find = |id: &ChunkId| chosen.iter().find_map(|postings| postings.chunk(id.as_str()));
            let passage = |chunk: &Chunk| Passage { chunk: chunk.clone(), ..Passage::default() };
            ids.iter().filter_map(find).map(passage).collect()
        }))
    }
}
