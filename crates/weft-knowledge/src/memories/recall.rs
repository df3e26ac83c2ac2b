//! Searches memories. They are read completely, page by page, into an index in memory: the size of a memory
//! is bounded, everything in it is examined, and no index has to be kept in step.

use std::collections::HashMap;

use weft_core::id::{ChunkId, DatasetId, DatasetKey, DocumentId, MemoryKey, TenantId};
use weft_core::seam::ModelDirectory;
use weft_core::seam::embedder::EmbeddingPurpose;
use weft_core::seam::index::{
    IndexChange, IndexQuery, IndexedChunk, IndexedDocument, TextQuery, VectorQuery,
};
use weft_core::seam::memories::{MEMORIES_AT_ONCE_MAX, MemoryQuery, Recalled, Recollection};
use weft_core::seam::memory_store::{Memory, MemoryMessage, MessageFilter};
use weft_core::{Error, ErrorKind, Result};

use super::ConversationMemories;
use crate::rank::{Fusion, RankSettings, rank};

/// Number of messages read at a time.
const PAGE: u64 = 200;
/// Maximum number of messages returned by one search.
const LIMIT_MAX: usize = 1_024;

/// Returns the vectors of texts, one for each.
pub(super) async fn vectors(
    models: &dyn ModelDirectory,
    tenant: &TenantId,
    embedder: &str,
    purpose: EmbeddingPurpose,
    texts: &[String],
) -> Result<Vec<Vec<f32>>> {
    let vectors = models.embedder(tenant, embedder)?.embed(purpose, texts).await?.vectors;
    if vectors.len() != texts.len() {
        return Err(Error::new(ErrorKind::Garbled, format!("`{embedder}` returned no vector for each text")));
    }
    Ok(vectors)
}

impl ConversationMemories {
    pub(super) async fn find(&self, tenant: &TenantId, query: &MemoryQuery) -> Result<Recollection> {
        if query.memories.len() > MEMORIES_AT_ONCE_MAX {
            return Err(Error::invalid(format!("more than {MEMORIES_AT_ONCE_MAX} memories were requested"))
                .help("search them in several requests"));
        }
        let mut memories = Vec::with_capacity(query.memories.len());
        for id in &query.memories {
            memories.push(self.store.get(&MemoryKey::new(tenant, id.as_str())).await?);
        }
        let limit = query.limit.min(LIMIT_MAX);
        let mut found = Recollection::default();
        if query.question.trim().is_empty() || limit == 0 {
            return Ok(found);
        }
        let vector = self.question_vector(tenant, &memories, query, &mut found.notes).await?;
        // Acquired after the model was asked, so that no search waits for another one's model.
        let _turn =
            self.searches.acquire().await.map_err(|_| Error::internal("searches have been shut down"))?;
        // Memories without vectors are searched separately, so that they are scored by words alone.
        let (with, without): (Vec<&Memory>, Vec<&Memory>) =
            memories.iter().partition(|memory| vector.is_some() && !memory.settings.embedder.is_empty());
        for (group, vector) in [(with, vector.as_deref()), (without, None)] {
            if !group.is_empty() {
                found.messages.extend(self.find_in(&group, query, vector, limit).await?);
            }
        }
        found.messages.sort_by(in_order);
        found.messages.truncate(limit);
        Ok(found)
    }

    /// Returns the vector of the question, unless only words count.
    async fn question_vector(
        &self,
        tenant: &TenantId,
        memories: &[Memory],
        query: &MemoryQuery,
        notes: &mut Vec<String>,
    ) -> Result<Option<Vec<f32>>> {
        let mut embedders =
            memories.iter().map(|memory| memory.settings.embedder.as_str()).filter(|name| !name.is_empty());
        let Some(name) = embedders.next() else { return Ok(None) };
        if let Some(other) = embedders.find(|other| *other != name) {
            let message = format!("the memories have vectors from different models: `{name}` and `{other}`");
            return Err(Error::invalid(message).help("search them one after the other"));
        }
        if query.vector_weight <= 0.0 {
            return Ok(None);
        }
        let question = std::slice::from_ref(&query.question);
        match vectors(&*self.models, tenant, name, EmbeddingPurpose::Query, question).await {
            Ok(mut vectors) => Ok(vectors.pop()),
            Err(error) if query.vector_weight >= 1.0 => Err(error),
            Err(error) => {
                notes.push(format!("searched by words alone, because `{name}` failed: {}", error.full()));
                Ok(None)
            }
        }
    }

    /// Returns what matches in some memories, all in one index, so that the rarity of words is computed over
    /// all of them.
    async fn find_in(
        &self,
        memories: &[&Memory],
        query: &MemoryQuery,
        vector: Option<&[f32]>,
        limit: usize,
    ) -> Result<Vec<Recalled>> {
        let Some(tenant) = memories.first().map(|memory| &memory.key.tenant) else { return Ok(Vec::new()) };
        let index = (self.index)();
        let mut contents: HashMap<ChunkId, Recalled> = HashMap::new();
        let mut parts: Vec<DatasetId> = Vec::new();
        for (place, memory) in memories.iter().enumerate() {
            let mut filter = MessageFilter {
                agents: query.agents.clone(),
                session: query.session.clone(),
                user: query.user.clone(),
                found_only: true,
                limit: PAGE,
                ..MessageFilter::default()
            };
            loop {
                let (page, total) = self.store.messages(&memory.key, &filter).await?;
                if page.is_empty() {
                    break;
                }
                filter.offset += page.len() as u64;
                // Each page is a separate part: an index applies changes as a whole.
                let part = DatasetId::new(parts.len().to_string());
                let chunks = page.iter().map(|message| indexed(place, message, vector.map(<[f32]>::len)));
                index
                    .write(&DatasetKey::new(tenant, part.as_str()), as_document(&part, chunks.collect()))
                    .await?;
                parts.push(part);
                contents.extend(
                    page.into_iter().map(|message| (id(place, message.number), recalled(memory, message))),
                );
                // Splitting texts into words takes a while.
                tokio::task::yield_now().await;
                if filter.offset >= total {
                    break;
                }
            }
        }
        let asked = IndexQuery {
            datasets: parts,
            text: Some(TextQuery { text: query.question.clone(), keywords: Vec::new() }),
            vector: vector.map(|vector| VectorQuery { vector: vector.to_vec(), cosine_min: -1.0 }),
            // The list has room for everything: the threshold decides, not a number.
            count_max: contents.len().max(1),
            ..IndexQuery::default()
        };
        let answer = index.search(tenant, &asked).await?;
        #[expect(clippy::cast_possible_truncation, reason = "shares between 0 and 1")]
        let (vector_weight, threshold) = (query.vector_weight as f32, query.similarity_min as f32);
        let settings =
            RankSettings { fusion: Fusion::Weighted { vector_weight }, threshold, pageranks: HashMap::new() };
        let found = rank(&answer, &settings).into_iter().filter_map(|ranked| {
            let recalled = contents.remove(&ranked.hit.chunk)?;
            Some(Recalled { similarity: f64::from(ranked.similarity), ..recalled })
        });
        Ok(found.take(limit).collect())
    }
}

/// Returns an id that sorts later messages first among equally good ones.
fn id(place: usize, number: i64) -> ChunkId {
    ChunkId::new(format!("{place}-{:020}", i64::MAX - number))
}

fn recalled(memory: &Memory, message: MemoryMessage) -> Recalled {
    let (memory, content) = (memory.key.id.clone(), message.message.content);
    Recalled { memory, number: message.number, content, similarity: 0.0 }
}

fn as_document(part: &DatasetId, chunks: Vec<(ChunkId, IndexedChunk)>) -> Vec<IndexChange> {
    let id = DocumentId::from(part.as_str());
    let there = IndexedDocument {
        id: id.clone(),
        name: String::new(),
        metadata: serde_json::Map::default(),
        available: true,
    };
    vec![IndexChange::Document(there), IndexChange::Chunks(id, chunks)]
}

/// A vector of another dimension cannot be compared with the question.
fn indexed(place: usize, message: &MemoryMessage, dimension: Option<usize>) -> (ChunkId, IndexedChunk) {
    let vector = &message.message.vector;
    let vector = (!vector.is_empty() && Some(vector.len()) == dimension).then(|| vector.clone());
    (
        id(place, message.number),
        IndexedChunk { content: message.message.content.clone(), vector, ..IndexedChunk::default() },
    )
}

/// Sorts by score, best first; among equal ones of a memory, the latest first.
fn in_order(one: &Recalled, other: &Recalled) -> std::cmp::Ordering {
    let by_score = other.similarity.total_cmp(&one.similarity);
    by_score.then_with(|| one.memory.cmp(&other.memory)).then_with(|| other.number.cmp(&one.number))
}
