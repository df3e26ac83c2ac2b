//! Chunks that people add and change by hand.

use weft_core::id::{ChunkId, DocumentKey};
use weft_core::seam::dataset_store::{ChunkFilter, Document, StoredChunk};
use weft_core::seam::document_reader::{PieceKind, Position};
use weft_core::seam::embedder::Purpose;
use weft_core::seam::index::IndexChange;
use weft_core::{Error, ErrorKind, Result};

use super::embed;
use super::ids::Namer;
use super::indexing::{adding, indexed_document, missing_chunk, stem};
use super::library::Library;
use super::plan::Plan;

/// A chunk that somebody writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewChunk {
    /// Its text.
    pub content: String,
    /// Words that it is to be found by.
    pub keywords: Vec<String>,
    /// Questions that it answers.
    pub questions: Vec<String>,
}

/// What is to change of a chunk. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkEdit {
    /// Its text.
    pub content: Option<String>,
    /// Words that it is to be found by.
    pub keywords: Option<Vec<String>>,
    /// Questions that it answers.
    pub questions: Option<Vec<String>>,
    /// Where it is in the document.
    pub positions: Option<Vec<Position>>,
    /// Whether it is found.
    pub available: Option<bool>,
}

/// Whether chunks are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// They are.
    Found,
    /// They are kept, and not found.
    Hidden,
}

/// About as many tokens as a text has: one for each character of scripts without blanks, and for four of
/// others.
fn tokens(text: &str) -> u32 {
    let wide = text.chars().filter(|c| ('\u{2e80}'..='\u{d7ff}').contains(c)).count();
    let narrow = text.chars().count() - wide;
    u32::try_from(wide + narrow.div_ceil(4)).unwrap_or(u32::MAX)
}

impl Library {
    /// Adds a chunk to a document, at its end.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` without a text; what its embedder fails with.
    pub async fn add_chunk(&self, key: &DocumentKey, new: NewChunk) -> Result<StoredChunk> {
        if new.content.trim().is_empty() {
            return Err(Error::invalid("the chunk has no text"));
        }
        let document = self.parts.store.document(key).await?;
        let _lock = self.lock(key).await;
        let (id, ordinal) = self.free_id(key, &new.content).await?;
        let mut chunk = StoredChunk {
            id,
            document: key.clone(),
            ordinal,
            kind: PieceKind::Text,
            tokens: tokens(&new.content),
            content: new.content,
            searched: None,
            headings: Vec::new(),
            positions: Vec::new(),
            keywords: new.keywords,
            questions: new.questions,
            fields: serde_json::Map::new(),
            parent: None,
            available: true,
            vector: None,
            created_ms: self.now_ms(),
        };
        chunk.vector = self.vector(&document, &chunk).await?;
        self.put(&document, vec![chunk.clone()]).await?;
        Ok(chunk)
    }

    /// An id for a text that no chunk of the document has, and the place after the last one.
    async fn free_id(&self, key: &DocumentKey, content: &str) -> Result<(ChunkId, u64)> {
        let last = ChunkFilter::default();
        let (_, total) = self.parts.store.chunks(key, &last).await?;
        let last = ChunkFilter { offset: total.saturating_sub(1), limit: 1, ..ChunkFilter::default() };
        let (last, _) = self.parts.store.chunks(key, &last).await?;
        let ordinal = last.last().map_or(0, |chunk| chunk.ordinal + 1);
        let mut namer = Namer::new(&key.id);
        loop {
            let id = namer.chunk(content);
            if self.parts.store.chunks_by_id(&key.dataset.tenant, std::slice::from_ref(&id)).await?.is_empty()
            {
                return Ok((id, ordinal));
            }
        }
    }

    /// Changes a chunk, which keeps its id. As it is then.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` without a text; what its embedder fails with.
    pub async fn update_chunk(
        &self,
        key: &DocumentKey,
        id: &ChunkId,
        edit: ChunkEdit,
    ) -> Result<StoredChunk> {
        if edit.content.as_ref().is_some_and(|content| content.trim().is_empty()) {
            return Err(Error::invalid("the chunk has no text"));
        }
        let document = self.parts.store.document(key).await?;
        let _lock = self.lock(key).await;
        let mut chunk = self.with_vector(key, id).await?;
        let before = embed::text(&chunk);
        let ChunkEdit { content, keywords, questions, positions, available } = edit;
        if let Some(content) = content.filter(|content| *content != chunk.content) {
            chunk.tokens = tokens(&content);
            chunk.content = content;
            // What was searched in its place was made of the old text.
            chunk.searched = None;
        }
        chunk.keywords = keywords.unwrap_or(chunk.keywords);
        chunk.questions = questions.unwrap_or(chunk.questions);
        chunk.positions = positions.unwrap_or(chunk.positions);
        chunk.available = available.unwrap_or(chunk.available);
        if chunk.vector.is_none() || embed::text(&chunk) != before {
            chunk.vector = self.vector(&document, &chunk).await?;
        }
        self.put(&document, vec![chunk.clone()]).await?;
        Ok(chunk)
    }

    /// Makes chunks of a document found or not found; ids that it does not have are passed over. How many
    /// there were.
    ///
    /// # Errors
    /// `NotFound` without the document.
    pub async fn switch_chunks(&self, key: &DocumentKey, ids: &[ChunkId], into: Availability) -> Result<u64> {
        let available = into == Availability::Found;
        let document = self.parts.store.document(key).await?;
        let _lock = self.lock(key).await;
        let mut chunks = Vec::new();
        for id in ids {
            match self.with_vector(key, id).await {
                Ok(chunk) => chunks.push(StoredChunk { available, ..chunk }),
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let count = chunks.len() as u64;
        self.put(&document, chunks).await?;
        Ok(count)
    }

    /// Removes chunks of a document. How many were there.
    ///
    /// # Errors
    /// `NotFound` without the document.
    pub async fn remove_chunks(&self, key: &DocumentKey, ids: &[ChunkId]) -> Result<u64> {
        let _lock = self.lock(key).await;
        self.parts.queue.unindexed(key).await?;
        let removed = self.parts.store.remove_chunks(key, ids).await?;
        self.parts.index.write(&key.dataset, vec![IndexChange::RemoveChunks(ids.to_vec())]).await?;
        self.parts.queue.indexed(key).await?;
        Ok(removed)
    }

    /// A chunk of a document that is listed, with its vector.
    async fn with_vector(&self, key: &DocumentKey, id: &ChunkId) -> Result<StoredChunk> {
        let found = self.parts.store.chunks_by_id(&key.dataset.tenant, std::slice::from_ref(id)).await?;
        let found = found.into_iter().find(|chunk| chunk.document == *key);
        let found = found.ok_or_else(|| missing_chunk(id))?;
        // Its neighbours in the list have the same place only when people have added chunks.
        for offset in (0..).step_by(PAGE as usize) {
            let filter = ChunkFilter { vectors: true, offset, limit: PAGE, ..ChunkFilter::default() };
            let (page, total) = self.parts.store.chunks(key, &filter).await?;
            if let Some(chunk) = page.into_iter().find(|chunk| chunk.id == found.id) {
                return Ok(chunk);
            }
            if offset + PAGE >= total {
                break;
            }
        }
        Err(missing_chunk(id))
    }

    /// The vector of a chunk, with the share of its file's name; nothing without an embedder.
    async fn vector(&self, document: &Document, chunk: &StoredChunk) -> Result<Option<Vec<f32>>> {
        let dataset = self.parts.store.dataset(&document.key.dataset).await?;
        if dataset.embedder.is_empty() {
            return Ok(None);
        }
        let embedder = self.parts.models.embedder(&dataset.key.tenant, &dataset.embedder)?;
        let share = Plan::new(&document.settings).name_share;
        let texts = [embed::text(chunk), stem(&document.name).to_owned()];
        let mut vectors = embedder.embed(Purpose::Passage, &texts).await?.vectors.into_iter();
        let (text, name) = (vectors.next(), vectors.next());
        Ok(text.map(|text| embed::mixed(text, name.as_deref(), share)))
    }

    /// Keeps chunks and brings the index to them. Under the lock of the document.
    async fn put(&self, document: &Document, chunks: Vec<StoredChunk>) -> Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        let key = &document.key;
        self.parts.queue.unindexed(key).await?;
        self.parts.store.put_chunks(key, &chunks).await?;
        let hidden = chunks.iter().filter(|chunk| !chunk.available).map(|chunk| chunk.id.clone()).collect();
        let changes = vec![
            IndexChange::Document(indexed_document(document)),
            IndexChange::RemoveChunks(hidden),
            adding(document, chunks),
        ];
        self.parts.index.write(&key.dataset, changes).await?;
        self.parts.queue.indexed(key).await
    }
}

/// Chunks that are looked through at once for one of them.
const PAGE: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_about_right() {
        assert_eq!((tokens(""), tokens("four"), tokens("five5"), tokens("四个汉字")), (0, 1, 2, 4));
    }
}
