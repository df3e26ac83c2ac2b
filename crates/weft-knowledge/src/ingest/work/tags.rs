//! Tags from tag sets: each chunk gets the tags of the most similar texts in the sets, as words by which it is found.

use std::collections::HashMap;

use weft_core::id::{ChunkId, DatasetId, DatasetKey};
use weft_core::seam::dataset_store::StoredChunk;
use weft_core::seam::index::{IndexQuery, TextQuery};
use weft_core::seam::ingest_queue::Amended;
use weft_core::{ErrorKind, Result};

use super::{DocumentWork, ENRICHED_AT_ONCE, part};

/// Number of texts from the sets whose tags are considered.
const NEIGHBOURS: usize = 30;
/// Number of characters of a chunk that are compared.
const COMPARED_MAX: usize = 4_000;

impl DocumentWork<'_> {
    /// Adds what a model contributes, then tags.
    pub(super) async fn enrich_and_tag(&self) -> Result<()> {
        self.enrich().await?;
        self.tag().await
    }

    /// Tags the chunks, if the document names tag sets. A set that does not exist is reported.
    async fn tag(&self) -> Result<()> {
        let sets = self.tag_sets().await?;
        if sets.is_empty() {
            return Ok(());
        }
        let count = self.count().await?;
        let (mut done, mut pages) = (0, self.pages(ENRICHED_AT_ONCE));
        while let Some(page) = pages.next_page().await? {
            done += page.len() as u64;
            let mut amended = Vec::new();
            for chunk in page.iter().filter(|chunk| chunk.available) {
                let tags = self.tags_of(&sets, chunk).await?;
                let new = tags.into_iter().filter(|tag| !chunk.keywords.contains(tag));
                let keywords: Vec<String> = chunk.keywords.iter().cloned().chain(new).collect();
                if keywords.len() > chunk.keywords.len() {
                    let (id, keywords) = (chunk.id.clone(), Some(keywords));
                    amended.push(Amended { id, keywords, questions: None, vector: None });
                }
            }
            self.amend(&amended).await?;
            let all = weft_core::value::plural(count, "chunk");
            self.say(self.stage(), part(done, count), &format!(": tags for {done} of {all}"));
        }
        Ok(())
    }

    /// Returns the indexes of the sets.
    async fn tag_sets(&self) -> Result<Vec<DatasetId>> {
        let mut sets = Vec::new();
        for id in &self.plan.tag_sets {
            let key = DatasetKey::new(&self.dataset.key.tenant, id.as_str());
            match self.library.parts.store.dataset_uncounted(&key).await {
                Ok(set) => {
                    let index = set.index();
                    if self.library.parts.index.size(&index).await?.chunks == 0 {
                        self.warn(format!(
                            "The tag set `{}` has no searchable texts: read its documents first",
                            set.name
                        ));
                    }
                    sets.push(index.id);
                }
                Err(error) if error.kind == ErrorKind::NotFound => {
                    self.warn(format!("The tag set `{id}` does not exist"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(sets)
    }

    /// Returns the tags of the most similar texts, those with the largest sum of scores first.
    async fn tags_of(&self, sets: &[DatasetId], chunk: &StoredChunk) -> Result<Vec<String>> {
        let tenant = &self.dataset.key.tenant;
        // Each word is searched for in the whole set, so a very long chunk would cost as much as many short ones.
        let text: String = chunk.content.chars().take(COMPARED_MAX).collect();
        let query = IndexQuery {
            datasets: sets.to_vec(),
            text: Some(TextQuery { text, keywords: Vec::new() }),
            count_max: NEIGHBOURS,
            ..IndexQuery::default()
        };
        let answer = self.library.parts.index.search(tenant, &query).await?;
        let scores: HashMap<ChunkId, f32> =
            answer.hits.into_iter().map(|hit| (hit.chunk, hit.text)).collect();
        if scores.is_empty() {
            return Ok(Vec::new());
        }
        let mut ids: Vec<ChunkId> = scores.keys().cloned().collect();
        // In a fixed order, because sums of floating-point numbers depend on it.
        ids.sort();
        let found = self.library.parts.store.chunks_by_id(tenant, &ids).await?;
        let mut tags: HashMap<String, f32> = HashMap::new();
        // A document of a set may itself name the set: its own chunk, as processed before, is the most similar one.
        for neighbour in found.iter().filter(|neighbour| neighbour.id != chunk.id) {
            let score = scores.get(&neighbour.id).copied().unwrap_or_default();
            for tag in &neighbour.keywords {
                *tags.entry(tag.clone()).or_default() += score;
            }
        }
        let mut tags: Vec<(String, f32)> = tags.into_iter().collect();
        // Ties are ordered by name, so that a document that is processed again gets the same tags.
        tags.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        tags.truncate(self.plan.tags_max);
        Ok(tags.into_iter().map(|(tag, _)| tag).collect())
    }
}
