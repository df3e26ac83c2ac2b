//! Chunks that are added and changed by hand.

use std::collections::HashSet;

use tokio::sync::oneshot;
use weft_core::id::{ChunkId, DocumentKey};
use weft_core::seam::Embedder;
use weft_core::seam::dataset_store::{
    ChunkReplacement, Dataset, Document, DocumentChange, DocumentState, StoredChunk,
};
use weft_core::seam::document_reader::{PieceKind, Position};
use weft_core::seam::embedder::EmbeddingPurpose;
use weft_core::seam::index::IndexChange;
use weft_core::{Error, ErrorKind, Result, changes};

use super::embed;
use super::gather::{self, Arriving};
use super::ids::Namer;
use super::indexing::{adding, indexed_document, missing_chunk, stem};
use super::library::Library;
use super::plan::IngestPlan;

/// A chunk written by hand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewChunk {
    /// Its text.
    pub content: String,
    /// Keywords by which it is found.
    pub keywords: Vec<String>,
    /// Questions that it answers.
    pub questions: Vec<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its positions in the document.
    pub positions: Vec<Position>,
}

/// Changes of a chunk. Whatever is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkEdit {
    /// Its text.
    pub content: Option<String>,
    /// Keywords by which it is found.
    pub keywords: Option<Vec<String>>,
    /// Questions that it answers.
    pub questions: Option<Vec<String>>,
    /// Its tags.
    pub tags: Option<Vec<String>>,
    /// Its positions in the document.
    pub positions: Option<Vec<Position>>,
    /// Whether it can be found.
    pub available: Option<bool>,
}

/// Whether chunks can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// They can be found.
    Found,
    /// They are stored, but not found.
    Hidden,
}

/// Estimates the number of tokens of a text: one per character in scripts without spaces, and one per four
/// characters in others.
fn tokens(text: &str) -> u32 {
    let wide = text.chars().filter(|c| ('\u{2e80}'..='\u{d7ff}').contains(c)).count();
    let narrow = text.chars().count() - wide;
    u32::try_from(wide + narrow.div_ceil(4)).unwrap_or(u32::MAX)
}

impl Library {
    /// Adds a chunk at the end of a document.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` without text; `Conflict` while the document is being processed; any error of its
    /// embedder.
    pub async fn add_chunk(&self, key: &DocumentKey, new: NewChunk) -> Result<StoredChunk> {
        if new.content.trim().is_empty() {
            return Err(Error::invalid("the chunk has no text"));
        }
        let mut chunk = StoredChunk {
            // The id and the ordinal are assigned under the lock.
            id: ChunkId::from(""),
            document: key.clone(),
            ordinal: 0,
            kind: PieceKind::Text,
            tokens: tokens(&new.content),
            content: new.content,
            searched: None,
            headings: Vec::new(),
            positions: new.positions,
            keywords: new.keywords,
            questions: new.questions,
            fields: serde_json::Map::new(),
            parent: None,
            picture: None,
            available: true,
            vector: None,
            created_ms: self.now_ms(),
        };
        chunk.set_tags(new.tags);
        for _ in 0..TRIES_MAX {
            let document = self.parts.store.document(key).await?;
            // The result of the processing will replace all chunks.
            not_being_read(&document)?;
            // Without the lock: a model may take long, and other changes would have to wait.
            let dataset = self.parts.store.dataset_uncounted(&key.dataset).await?;
            chunk.vector = self.vector(&dataset, &document, &chunk).await?;
            let (new, generation) = (chunk.clone(), dataset.generation);
            let add = async move |library: Self| library.add_if(document, new, generation).await;
            if let Some(added) = self.whole(add).await? {
                return Ok(added);
            }
        }
        Err(restless(key))
    }

    /// Adds a chunk whose vector was computed for a state of a document, unless that has changed since.
    /// Chunks added concurrently are included: one transaction and one index commit for all of them.
    async fn add_if(
        &self,
        before: Document,
        chunk: StoredChunk,
        generation: u64,
    ) -> Result<Option<StoredChunk>> {
        let key = before.key.clone();
        let (done, mut told) = oneshot::channel();
        self.arrivals.add(&key, Arriving { before, chunk, generation, done });
        loop {
            let _lock = self.lock(&key).await;
            // The previous holder of the lock may have added it together with its own.
            match told.try_recv() {
                Ok(outcome) => return outcome,
                Err(oneshot::error::TryRecvError::Empty) => self.add_arrived(&key).await,
                Err(oneshot::error::TryRecvError::Closed) => {
                    return Err(Error::internal("a change of a document stopped unexpectedly"));
                }
            }
        }
    }

    /// Adds the chunks waiting for a document, up to the size of one change. Requires the document's lock.
    async fn add_arrived(&self, key: &DocumentKey) {
        let arrived = self.arrivals.take(key);
        let (mut chunks, mut added) = (Vec::new(), Vec::new());
        let (dataset, document) = match self.dataset_and_document(key).await {
            Ok(both) => both,
            Err(error) => return gather::failed(arrived.into_iter().map(|one| one.done), &error),
        };
        if let Err(error) = not_being_read(&document) {
            // Processing began while vectors were being computed, and its end would remove the chunks.
            return gather::failed(arrived.into_iter().map(|one| one.done), &error);
        }
        for Arriving { before, chunk, generation, done } in arrived {
            if generation == dataset.generation && same_vectors(&before, &document) {
                chunks.push(chunk);
                added.push(done);
            } else {
                // A caller that has gone away needs no answer.
                let _ = done.send(Ok(None));
            }
        }
        let put = async {
            for _ in 0..TRIES_MAX {
                self.name(key, &mut chunks).await?;
                let new = chunks.iter().cloned().map(ChunkReplacement::added).collect();
                if self.put(&document, new, dataset.generation).await? {
                    return Ok(());
                }
                // Another process has given the same ids, which derive from the texts, to chunks of its own.
            }
            Err(restless(key))
        };
        match put.await {
            Err(error) => gather::failed(added, &error),
            Ok(()) => chunks.into_iter().zip(added).for_each(|(chunk, done)| {
                let _ = done.send(Ok(Some(chunk)));
            }),
        }
    }

    pub(super) async fn dataset_and_document(&self, key: &DocumentKey) -> Result<(Dataset, Document)> {
        let store = &self.parts.store;
        Ok((store.dataset_uncounted(&key.dataset).await?, store.document(key).await?))
    }

    /// Assigns ids that no chunk of the document has, and ordinals after the last one.
    async fn name(&self, key: &DocumentKey, chunks: &mut [StoredChunk]) -> Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        let first = self.parts.store.next_ordinal(key).await?;
        let mut namer = Namer::new(&key.id);
        for (chunk, ordinal) in chunks.iter_mut().zip(first..) {
            (chunk.ordinal, chunk.id) = (ordinal, namer.chunk(&chunk.content));
        }
        loop {
            let ids: Vec<ChunkId> = chunks.iter().map(|chunk| chunk.id.clone()).collect();
            let heads = self.parts.store.chunk_heads(&key.dataset.tenant, &ids).await?;
            let taken: HashSet<ChunkId> = heads.into_iter().map(|head| head.id).collect();
            if taken.is_empty() {
                return Ok(());
            }
            // A text that the document already contains has used up the first ids derived from it.
            for chunk in chunks.iter_mut().filter(|chunk| taken.contains(&chunk.id)) {
                chunk.id = namer.chunk(&chunk.content);
            }
        }
    }

    /// Changes a chunk, which keeps its id. Returns the changed chunk.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` without text; `Conflict` while the document is being processed; any error of its
    /// embedder.
    pub async fn update_chunk(
        &self,
        key: &DocumentKey,
        id: &ChunkId,
        edit: ChunkEdit,
    ) -> Result<StoredChunk> {
        if edit.content.as_ref().is_some_and(|content| content.trim().is_empty()) {
            return Err(Error::invalid("the chunk has no text"));
        }
        for _ in 0..TRIES_MAX {
            let edited = self.edited(key, id, edit.clone()).await?;
            let after = edited.after.clone();
            let replace = async move |library: Self| library.replace_if(edited).await;
            if self.whole(replace).await? {
                return Ok(after);
            }
        }
        // Other changes were faster each time. Now they have to wait while the vector is computed.
        let (key, id) = (key.clone(), id.clone());
        let replace = async move |library: Self| {
            let _lock = library.lock(&key).await;
            let EditedChunk { dataset, document, before, after } = library.edited(&key, &id, edit).await?;
            let changed = ChunkReplacement { before: Some(before), after: after.clone() };
            let kept = library.put(&document, vec![changed], dataset.generation).await?;
            if kept { Ok(after) } else { Err(restless(&key)) }
        };
        self.whole(replace).await
    }

    /// Applies an edit to a chunk as it is now.
    async fn edited(&self, key: &DocumentKey, id: &ChunkId, edit: ChunkEdit) -> Result<EditedChunk> {
        let (dataset, document) = self.dataset_and_document(key).await?;
        not_being_read(&document)?;
        let before = self.with_vector(key, id).await?;
        let mut after = edit.of(before.clone());
        if after.vector.is_none() || embed::text(&after) != embed::text(&before) {
            after.vector = self.vector(&dataset, &document, &after).await?;
        }
        Ok(EditedChunk { dataset, document, before, after })
    }

    /// Replaces a chunk, unless it, the document or the model has changed since. Returns whether it was replaced.
    async fn replace_if(&self, edited: EditedChunk) -> Result<bool> {
        let EditedChunk { dataset, document: before, before: old, after } = edited;
        let key = &before.key;
        let _lock = self.lock(key).await;
        let (within, document) = self.dataset_and_document(key).await?;
        // Processing may have begun while a vector was being computed.
        not_being_read(&document)?;
        if within.generation != dataset.generation || !same_vectors(&before, &document) {
            return Ok(false);
        }
        let changed = ChunkReplacement { before: Some(old), after };
        self.put(&document, vec![changed], dataset.generation).await
    }

    /// Makes chunks of a document found or hidden; ids that it does not have are ignored. Returns how many
    /// chunks there were.
    ///
    /// # Errors
    /// `NotFound` if the document does not exist.
    pub async fn switch_chunks(&self, key: &DocumentKey, ids: &[ChunkId], into: Availability) -> Result<u64> {
        let available = into == Availability::Found;
        let mut count = 0;
        for some in ids.chunks(CHUNKS_AT_ONCE) {
            let (key, some) = (key.clone(), some.to_vec());
            let switch = async move |library: Self| {
                let _lock = library.lock(&key).await;
                let with = |chunk: StoredChunk| StoredChunk { available, ..chunk };
                // The lock is local to this process; others may change the same chunks.
                changes::made("chunk", || async {
                    let (dataset, document) = library.dataset_and_document(&key).await?;
                    let chunks = library.parts.store.chunks_with_vectors(&key, &some).await?;
                    let count = chunks.len() as u64;
                    let changed = chunks.into_iter().map(|chunk| ChunkReplacement::of(chunk, with)).collect();
                    let kept = library.put(&document, changed, dataset.generation).await?;
                    Ok::<_, Error>(kept.then_some(count))
                })
                .await
            };
            count += self.whole(switch).await?;
        }
        Ok(count)
    }

    /// Removes chunks of a document, and the pictures beside it that no other chunk is shown with. Returns
    /// how many chunks there were.
    ///
    /// # Errors
    /// `NotFound` if the document does not exist.
    pub async fn remove_chunks(&self, key: &DocumentKey, ids: &[ChunkId]) -> Result<u64> {
        let (key, ids) = (key.clone(), ids.to_vec());
        let remove = async move |library: Self| {
            let _lock = library.lock(&key).await;
            let remove = library.parts.store.remove_chunks(&key, &ids);
            let (removed, note) = library.noted(&key, remove).await?;
            library.chunks_changed(&key).await?;
            library.follow_behind(&key, note, vec![IndexChange::RemoveChunks(ids.clone())]).await?;
            if let Err(error) = library.remove_pictures(&key, &removed.pictures).await {
                // They are removed when the document is processed again, or together with it.
                tracing::warn!(
                    document.id = %key.id,
                    error = error.detail(),
                    "unreferenced pictures could not be removed"
                );
            }
            Ok(removed.count)
        };
        self.whole(remove).await
    }

    async fn with_vector(&self, key: &DocumentKey, id: &ChunkId) -> Result<StoredChunk> {
        let mut found = self.parts.store.chunks_with_vectors(key, std::slice::from_ref(id)).await?;
        found.pop().ok_or_else(|| missing_chunk(id))
    }

    /// Returns the vector of a chunk, including the share of its file's name; `None` without an embedder.
    async fn vector(
        &self,
        dataset: &Dataset,
        document: &Document,
        chunk: &StoredChunk,
    ) -> Result<Option<Vec<f32>>> {
        if dataset.embedder.is_empty() {
            return Ok(None);
        }
        let models = self.models_for(&dataset.key);
        let embedder = models.directory().embedder(&dataset.key.tenant, &dataset.embedder)?;
        let vector = Self::vector_by(&*embedder, document, chunk).await;
        models.note(self.now_ms()).await;
        vector
    }

    /// Returns a model's vector of a chunk.
    pub(super) async fn vector_by(
        embedder: &dyn Embedder,
        document: &Document,
        chunk: &StoredChunk,
    ) -> Result<Option<Vec<f32>>> {
        let share = IngestPlan::new(&document.settings).name_share;
        let texts = [embed::text(chunk), stem(&document.name).to_owned()];
        let mut vectors = embedder.embed(EmbeddingPurpose::Passage, &texts).await?.vectors.into_iter();
        let (text, name) = (vectors.next(), vectors.next());
        Ok(text.map(|text| embed::mixed(text, name.as_deref(), share)))
    }

    /// Stores chunks with vectors of the given generation and updates the index. Requires the lock of the
    /// document, which must have been read under it. Returns `false` if another process has changed one of
    /// the chunks since it was read.
    pub(super) async fn put(
        &self,
        document: &Document,
        changed: Vec<ChunkReplacement>,
        generation: u64,
    ) -> Result<bool> {
        if changed.is_empty() {
            return Ok(true);
        }
        let key = &document.key;
        let Some(note) = self.parts.store.replace_chunks(key, &changed, generation).await? else {
            return Ok(false);
        };
        self.chunks_changed(key).await?;
        let chunks: Vec<StoredChunk> = changed.into_iter().map(|one| one.after).collect();
        let hidden = chunks.iter().filter(|chunk| !chunk.available).map(|chunk| chunk.id.clone()).collect();
        let changes = vec![
            IndexChange::Document(indexed_document(document)),
            IndexChange::RemoveChunks(hidden),
            adding(document, chunks),
        ];
        self.follow_behind(key, self.of_change(key, note), changes).await?;
        Ok(true)
    }

    /// Changes a document and returns it; `None` if it is no longer at the revision of the change. Requires
    /// the document's lock.
    pub(super) async fn change_document(
        &self,
        key: &DocumentKey,
        change: &DocumentChange,
    ) -> Result<Option<Document>> {
        let before = self.parts.store.document(key).await?;
        let recut = change.method.is_some_and(|method| method != before.method);
        let resets = change.settings.as_ref().is_some_and(|settings| *settings != before.settings);
        // Processing began with the previous method and settings, so its result would contradict the new ones.
        if recut || resets {
            not_being_read(&before)?;
        }
        let update = self.parts.store.update_document(key, change, self.now_ms());
        let Some((changed, note)) = self.noted_if(key, update).await? else { return Ok(None) };
        if recut {
            // Chunks produced by another method must not be found under the new one.
            self.reset_document(key).await?;
            return self.parts.store.document(key).await.map(Some);
        }
        if note.level && changed.name != before.name {
            // The name is one of the things by which its chunks are found. The chunks stay in the index meanwhile.
            self.fill(&changed, Vec::new()).await?;
            self.followed(key, note).await?;
        } else {
            self.follow(key, note, vec![IndexChange::Document(indexed_document(&changed))]).await?;
        }
        Ok(Some(changed))
    }

    /// Resets a document to its state before it was processed. Requires the document's lock.
    pub(super) async fn reset_document(&self, key: &DocumentKey) -> Result<()> {
        let reset = self.parts.store.reset_document(key, self.now_ms());
        let ((), note) = self.noted(key, reset).await?;
        self.follow(key, note, vec![IndexChange::Clear(key.id.clone())]).await?;
        self.clear_pictures(key, &HashSet::new()).await
    }
}

/// A chunk before and after a change, in a document as it was then.
struct EditedChunk {
    dataset: Dataset,
    document: Document,
    before: StoredChunk,
    after: StoredChunk,
}

/// Number of chunks switched in one step.
const CHUNKS_AT_ONCE: usize = 500;

/// How often a vector is computed for a document that has changed by the time it is ready.
const TRIES_MAX: u32 = 4;

/// Whether vectors computed for a document are the same as those that it would get now.
fn same_vectors(before: &Document, now: &Document) -> bool {
    before.name == now.name && before.settings == now.settings
}

pub(super) fn not_being_read(document: &Document) -> Result<()> {
    if document.state != DocumentState::Running {
        return Ok(());
    }
    let message = format!("the document `{}` is being read", document.name);
    Err(Error::new(ErrorKind::Conflict, message).help("stop it first, or wait until it is done"))
}

fn restless(key: &DocumentKey) -> Error {
    let message = format!("the document `{}` is being changed concurrently", key.id);
    Error::new(ErrorKind::Conflict, message).help("try again")
}

impl ChunkEdit {
    /// Returns the edited chunk. The vector is kept.
    fn of(self, mut chunk: StoredChunk) -> StoredChunk {
        let Self { content, keywords, questions, tags, positions, available } = self;
        if let Some(content) = content.filter(|content| *content != chunk.content) {
            chunk.tokens = tokens(&content);
            chunk.content = content;
            // The text that was searched in its place was derived from the old text.
            chunk.searched = None;
        }
        chunk.keywords = keywords.unwrap_or(chunk.keywords);
        chunk.questions = questions.unwrap_or(chunk.questions);
        if let Some(tags) = tags {
            chunk.set_tags(tags);
        }
        chunk.positions = positions.unwrap_or(chunk.positions);
        chunk.available = available.unwrap_or(chunk.available);
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_counts_are_approximate() {
        assert_eq!((tokens(""), tokens("four"), tokens("five5"), tokens("四个汉字")), (0, 1, 2, 4));
    }
}
