//! The embedded index: everything in memory, one set of postings for each tenant and dataset.
//!
//! Chunks are ranked by BM25. For the score, a chunk's BM25 sum is divided by the sum that a chunk of
//! average length gets for every word of the question once, and x becomes 1 − e^(−x). So a score lies
//! between 0 and 1 and does not depend on what else was found: every word once gives 0.63, the half of
//! them 0.39, a fifth of them 0.18, and only a chunk that is about nothing else comes near 0.9. Rare
//! words count more than common ones, and words that no chunk holds do not count at all.

use std::collections::{BTreeMap, HashSet};
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;
use weft_core::citation::Chunk;
use weft_core::seam::search_index::{SearchIndex, SearchRequest};
use weft_core::{Error, Result, TenantId};

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
    pub fn datasets(&self, tenant: &TenantId) -> Vec<(String, usize)> {
        let datasets = self.datasets.read().unwrap_or_else(PoisonError::into_inner);
        let own = datasets.iter().filter(|((owner, _), _)| owner == tenant);
        own.map(|((_, name), postings)| (name.clone(), postings.len())).collect()
    }

    fn search_now(&self, tenant: &TenantId, request: &SearchRequest) -> Result<Vec<Chunk>> {
        let datasets = self.datasets.read().unwrap_or_else(PoisonError::into_inner);
        let chosen = chosen(&datasets, tenant, &request.datasets)?;
        let mut seen = HashSet::new();
        let mut asked = words(&request.query);
        asked.retain(|word| seen.insert(word.clone()));
        asked.truncate(QUERY_WORDS_MAX);
        let weights = weights(&chosen, &asked);
        let average = average(&chosen);
        let mut found: Vec<(f64, &Chunk)> =
            chosen.iter().flat_map(|postings| postings.scored(&weights, average)).collect();
        found.retain(|(score, _)| *score >= request.score_min);
        // Equal scores are sorted by id, so that the same question always gets the same answer.
        found.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.id.cmp(&other.id)));
        found.truncate(request.count_max.min(RESULTS_MAX));
        let scored = |(score, chunk): (f64, &Chunk)| Chunk {
            similarity: Some(score),
            term_similarity: Some(score),
            ..chunk.clone()
        };
        Ok(found.into_iter().map(scored).collect())
    }
}

fn chosen<'a>(
    datasets: &'a BTreeMap<Key, Postings>,
    tenant: &TenantId,
    names: &[String],
) -> Result<Vec<&'a Postings>> {
    if names.is_empty() {
        return Ok(datasets
            .iter()
            .filter(|((owner, _), _)| owner == tenant)
            .map(|(_, postings)| postings)
            .collect());
    }
    let names: std::collections::BTreeSet<&String> = names.iter().collect();
    let find = |name: &&String| {
        datasets.get(&(tenant.clone(), (*name).clone())).ok_or_else(|| {
            let known: Vec<&str> =
                datasets.keys().filter(|(owner, _)| owner == tenant).map(|(_, name)| name.as_str()).collect();
            let help = match known.is_empty() {
                true => "add documents to it first".to_owned(),
                false => format!("the datasets are: {}", known.join(", ")),
            };
            Error::not_found(format!("there is no dataset `{name}`")).help(help)
        })
    };
    names.iter().map(find).collect()
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
impl SearchIndex for MemoryIndex {
    async fn search(&self, tenant: &TenantId, request: SearchRequest) -> Result<Vec<Chunk>> {
        self.search_now(tenant, &request)
    }

    async fn add(&self, tenant: &TenantId, dataset: &str, chunks: Vec<Chunk>) -> Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        let mut datasets = self.datasets.write().unwrap_or_else(PoisonError::into_inner);
        let postings = datasets.entry((tenant.clone(), dataset.to_owned())).or_default();
        for chunk in chunks {
            postings.add(Chunk { dataset_id: dataset.to_owned(), ..chunk });
        }
        Ok(())
    }
}
