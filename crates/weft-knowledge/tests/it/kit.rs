//! A library with a store, index and models that are as simple as possible.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use weft_core::filter::Metadata;
use weft_core::id::{ChunkId, DatasetId, DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::chat_model::ModelInfo;
use weft_core::seam::dataset_store::{
    ChunkFilter, ChunkHead, ChunkReplacement, Counting, Dataset, DatasetCounts, DatasetFilter, DatasetStore,
    Document, DocumentChange, DocumentFilter, DocumentHead, DocumentQuota, DocumentState, Extra, Heads,
    RemovedChunks, StoredChunk,
};
use weft_core::seam::document_reader::{ChunkMethod, PieceKind, Position};
use weft_core::seam::embedder::{Embedded, EmbeddingPurpose};
use weft_core::seam::index::{Hit, IndexAnswer, IndexChange, IndexQuery, IndexSize};
use weft_core::seam::ingest_queue::IndexNote;
use weft_core::seam::reranker::Reranked;
use weft_core::seam::{ChatModel, Embedder, Index, Knowledge, ModelDirectory, Reranker};
use weft_core::{Error, ErrorKind, Json, Result, TenantId, async_trait};
use weft_knowledge::ask::{Ask, Step};
use weft_knowledge::datasets::Datasets;
use weft_knowledge::retrieve::{Chosen, Retrieval, Retrieved, retrieve};

pub(crate) const TENANT: &str = "t";

/// What the embedder of these tests knows: synonyms.
const MEANINGS: [&[&str]; 4] = [
    &["cat", "cats", "feline", "kitty", "猫", "katze"],
    &["money", "refund", "price", "退款", "cost"],
    &["car", "vehicle", "automobile", "汽车"],
    &["tree", "oak", "forest"],
];

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.to_lowercase().chars() {
        let wide = u32::from(c) >= 0x2e80;
        if wide || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().unwrap().push(c);
        }
        if wide {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

pub(crate) fn vector(text: &str) -> Vec<f32> {
    let text = text.to_lowercase();
    let holds = |meaning: &&[&str]| meaning.iter().any(|word| text.contains(*word));
    let mut vector: Vec<f32> = MEANINGS.iter().map(|m| if holds(m) { 1.0 } else { 0.0 }).collect();
    vector.push(0.1);
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
    vector
}

/// The contents of the store.
#[derive(Default)]
struct Shelves {
    datasets: Vec<Dataset>,
    documents: Vec<Document>,
    chunks: Vec<StoredChunk>,
    extras: HashMap<(DocumentId, Extra), Json>,
    /// Entries still in the index that are gone from the store.
    gone: HashSet<ChunkId>,
}

/// Everything that a search uses.
#[derive(Default)]
pub(crate) struct Outside {
    shelves: Mutex<Shelves>,
    /// The requests to the index.
    pub queries: Mutex<Vec<IndexQuery>>,
    /// The texts to embed.
    pub embedded: Mutex<Vec<String>>,
    /// The texts to rank.
    pub reranked: Mutex<Vec<String>>,
    /// How many times all documents of a dataset were counted.
    pub counted: Mutex<usize>,
    /// How many documents were listed page by page.
    pub paged: Mutex<usize>,
    /// How many times graphs were read from the store.
    pub graphs_read: Mutex<usize>,
    answers: Mutex<VecDeque<(Step, Result<String>)>>,
    /// The requests to the model.
    pub asked: Mutex<Vec<(Step, String)>>,
}

#[derive(Clone, Default)]
pub(crate) struct Library(pub Arc<Outside>);

impl Library {
    /// A dataset whose documents have one chunk for each text, named `document-0` and so on.
    pub(crate) fn with(self, dataset: &str, embedder: &str, documents: &[(&str, Json, &[&str])]) -> Self {
        self.of(TENANT, dataset, embedder, documents)
    }

    pub(crate) fn of(
        self,
        tenant: &str,
        dataset: &str,
        embedder: &str,
        documents: &[(&str, Json, &[&str])],
    ) -> Self {
        let key = DatasetKey::new(&tenant.into(), format!("{dataset}-id"));
        let mut shelves = self.0.shelves.lock().unwrap();
        shelves.datasets.push(Dataset {
            key: key.clone(),
            name: dataset.to_owned(),
            avatar: String::new(),
            description: String::new(),
            language: "English".to_owned(),
            permission: "me".to_owned(),
            embedder: embedder.to_owned(),
            method: ChunkMethod::Naive,
            settings: serde_json::Map::new(),
            similarity_threshold: 0.2,
            vector_similarity_weight: 0.3,
            pagerank: 0,
            generation: 0,
            created_ms: 0,
            updated_ms: 0,
            revision: 0,
            counts: DatasetCounts::default(),
        });
        for (name, metadata, texts) in documents {
            let document = DocumentKey::new(&key, *name);
            shelves.documents.push(stored(&document, metadata.as_object().cloned().unwrap_or_default()));
            for (place, text) in texts.iter().enumerate() {
                let chunk = chunk(&document, &format!("{name}-{place}"), text);
                shelves.chunks.push(StoredChunk { vector: Some(vector(text)), ..chunk });
            }
        }
        drop(shelves);
        self
    }

    /// Changes a chunk in the store.
    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut StoredChunk)) {
        let mut shelves = self.0.shelves.lock().unwrap();
        change(shelves.chunks.iter_mut().find(|chunk| chunk.id.as_str() == id).unwrap());
    }

    /// Removes a chunk from the store; the index still finds it.
    pub(crate) fn forget(&self, id: &str) {
        self.0.shelves.lock().unwrap().gone.insert(id.into());
    }

    /// Removes a document from the store; its chunks stay.
    pub(crate) fn forget_document(&self, id: &str) {
        self.0.shelves.lock().unwrap().documents.retain(|document| document.key.id.as_str() != id);
    }

    /// Adds a chunk that is shown and never found.
    pub(crate) fn parent(&self, like: &str, id: &str, text: &str) {
        let mut shelves = self.0.shelves.lock().unwrap();
        let like = shelves.chunks.iter().find(|chunk| chunk.id.as_str() == like).unwrap().document.clone();
        let parent = chunk(&like, id, text);
        shelves.chunks.push(StoredChunk { available: false, ..parent });
    }

    /// A document with its chunks.
    pub(crate) fn document(&self, name: &str) -> (Document, Vec<StoredChunk>) {
        let shelves = self.0.shelves.lock().unwrap();
        let document = shelves.documents.iter().find(|document| document.key.id.as_str() == name).unwrap();
        let own = shelves.chunks.iter().filter(|chunk| chunk.document == document.key).cloned();
        (document.clone(), own.collect())
    }

    pub(crate) fn dataset(&self, name: &str, change: impl FnOnce(&mut Dataset)) {
        let mut shelves = self.0.shelves.lock().unwrap();
        change(shelves.datasets.iter_mut().find(|dataset| dataset.name == name).unwrap());
    }

    pub(crate) fn change_document(&self, id: &str, change: impl FnOnce(&mut Document)) {
        let mut shelves = self.0.shelves.lock().unwrap();
        change(shelves.documents.iter_mut().find(|document| document.key.id.as_str() == id).unwrap());
    }

    /// Stores an extra with a document; null: none.
    pub(crate) fn extra(&self, document: &str, extra: Extra, value: Json) {
        let extras = &mut self.0.shelves.lock().unwrap().extras;
        if value.is_null() {
            extras.remove(&(document.into(), extra))
        } else {
            extras.insert((document.into(), extra), value)
        };
    }

    /// The model answers this to the next request of a step.
    pub(crate) fn answers(&self, step: Step, answer: &str) -> &Self {
        self.0.answers.lock().unwrap().push_back((step, Ok(answer.to_owned())));
        self
    }

    pub(crate) fn fails(&self, step: Step, kind: ErrorKind) -> &Self {
        self.0.answers.lock().unwrap().push_back((step, Err(Error::new(kind, "the model is away"))));
        self
    }

    pub(crate) fn knowledge(&self) -> Datasets {
        Datasets::new(Arc::new(self.clone()), Arc::new(self.clone()), Arc::new(self.clone()))
    }

    pub(crate) async fn try_ask(&self, asked: &Retrieval) -> Result<Retrieved> {
        retrieve(&self.knowledge() as &dyn Knowledge, self, &TENANT.into(), asked).await
    }

    pub(crate) async fn ask(&self, asked: &Retrieval) -> Retrieved {
        self.try_ask(asked).await.unwrap()
    }

    /// The ids of the hits.
    pub(crate) async fn ids(&self, asked: &Retrieval) -> Vec<String> {
        ids(&self.ask(asked).await)
    }
}

pub(crate) fn ids(retrieved: &Retrieved) -> Vec<String> {
    retrieved.passages.iter().map(|passage| passage.chunk.id.clone()).collect()
}

/// A question to datasets, with defaults and no threshold.
pub(crate) fn question(text: &str, datasets: &[&str]) -> Retrieval {
    Retrieval {
        datasets: if datasets.is_empty() {
            Chosen::All
        } else {
            Chosen::Named(datasets.iter().map(|name| (*name).to_owned()).collect())
        },
        question: text.to_owned(),
        similarity_min: 0.0,
        ..Retrieval::default()
    }
}

fn stored(key: &DocumentKey, metadata: Metadata) -> Document {
    let unread = Document::unread(key.clone(), format!("{}.pdf", key.id), 0);
    Document { metadata, state: DocumentState::Done, progress: 1.0, ..unread }
}

fn chunk(document: &DocumentKey, id: &str, text: &str) -> StoredChunk {
    StoredChunk {
        id: id.into(),
        document: document.clone(),
        ordinal: 0,
        kind: PieceKind::Text,
        content: text.to_owned(),
        searched: None,
        headings: Vec::new(),
        positions: vec![Position { page: 3, left: 1.0, right: 2.0, top: 3.0, bottom: 4.0 }],
        keywords: Vec::new(),
        questions: Vec::new(),
        fields: serde_json::Map::new(),
        parent: None,
        picture: None,
        available: true,
        tokens: u32::try_from(words(text).len()).unwrap(),
        vector: None,
        created_ms: 0,
    }
}

#[async_trait]
impl Ask for Library {
    async fn ask(&self, step: Step, _: &str, question: &str) -> Result<String> {
        self.0.asked.lock().unwrap().push((step, question.to_owned()));
        let (expected, answer) = self.0.answers.lock().unwrap().pop_front().expect("an answer is left");
        assert_eq!(step, expected);
        answer
    }

    async fn now_ms(&self) -> Result<i64> {
        Ok(1_700_000_000_000)
    }
}

/// Each word has weight one, and chunks with any of them are found.
#[async_trait]
impl Index for Library {
    async fn write(&self, _: &DatasetKey, _: Vec<IndexChange>) -> Result<()> {
        Ok(())
    }

    async fn remove(&self, _: &DatasetKey) -> Result<()> {
        Ok(())
    }

    async fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer> {
        self.0.queries.lock().unwrap().push(query.clone());
        let shelves = self.0.shelves.lock().unwrap();
        let wanted = |chunk: &&StoredChunk| {
            let document = shelves.documents.iter().find(|d| d.key == chunk.document);
            chunk.available
                && chunk.document.dataset.tenant == *tenant
                && query.datasets.contains(&chunk.document.dataset.id)
                && query.documents.as_ref().is_none_or(|ids| ids.contains(&chunk.document.id))
                && query
                    .filter
                    .as_ref()
                    .is_none_or(|filter| document.is_some_and(|d| filter.matches(&d.metadata)))
        };
        let text = query.text.clone().unwrap_or_default();
        let asked: HashSet<String> = words(&text.text).into_iter().collect();
        let score = |chunk: &StoredChunk| {
            let held: HashSet<String> = words(&chunk.content).into_iter().collect();
            let own = u8::try_from(asked.intersection(&held).count()).unwrap();
            let more = text.keywords.iter().filter(|(word, _)| held.contains(&word.to_lowercase()));
            f32::from(own) + more.map(|(_, weight)| weight).sum::<f32>()
        };
        let cosine = |chunk: &StoredChunk| {
            let (one, other) = (chunk.vector.as_ref()?, &query.vector.as_ref()?.vector);
            Some(one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>())
        };
        let mut hits: Vec<Hit> = shelves
            .chunks
            .iter()
            .filter(wanted)
            .map(|chunk| Hit {
                dataset: chunk.document.dataset.id.clone(),
                document: chunk.document.id.clone(),
                chunk: chunk.id.clone(),
                parent: chunk.parent.clone(),
                text: score(chunk),
                cosine: cosine(chunk),
                text_rank: None,
                vector_rank: None,
            })
            .collect();
        hits.sort_by(|a, b| b.text.total_cmp(&a.text).then_with(|| a.chunk.cmp(&b.chunk)));
        let text_total = hits.iter().filter(|hit| hit.text > 0.0).count();
        for (place, hit) in hits.iter_mut().filter(|hit| hit.text > 0.0).take(query.count_max).enumerate() {
            hit.text_rank = Some(place);
        }
        let near =
            |hit: &Hit| hit.cosine.filter(|c| *c > query.vector.as_ref().map_or(9.0, |v| v.cosine_min));
        hits.sort_by(|a, b| b.cosine.unwrap_or(-1.0).total_cmp(&a.cosine.unwrap_or(-1.0)));
        for (place, hit) in
            hits.iter_mut().filter(|hit| near(hit).is_some()).take(query.count_max).enumerate()
        {
            hit.vector_rank = Some(place);
        }
        hits.retain(|hit| hit.text_rank.is_some() || hit.vector_rank.is_some());
        let bm25_scale = f32::from(u8::try_from(asked.len().max(1)).unwrap());
        let fits = |document: &&Document| {
            query.datasets.contains(&document.key.dataset.id)
                && query.documents.as_ref().is_none_or(|ids| ids.contains(&document.key.id))
                && query.filter.as_ref().is_none_or(|filter| filter.matches(&document.metadata))
        };
        let fitting = shelves.documents.iter().filter(fits).count();
        let names = shelves.documents.iter().map(|document| (document.key.id.clone(), document.name.clone()));
        let names = names.collect();
        Ok(IndexAnswer { hits, names, bm25_scale, text_total, fitting, ..IndexAnswer::default() })
    }

    async fn size(&self, dataset: &DatasetKey) -> Result<IndexSize> {
        let shelves = self.0.shelves.lock().unwrap();
        let held = shelves.chunks.iter().filter(|chunk| chunk.document.dataset == *dataset);
        Ok(IndexSize { chunks: held.count(), ..IndexSize::default() })
    }
}

struct Meanings(String, Arc<Outside>);

#[async_trait]
impl Embedder for Meanings {
    fn name(&self) -> &str {
        &self.0
    }

    fn tokens_max(&self) -> usize {
        512
    }

    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        assert_eq!(purpose, EmbeddingPurpose::Query);
        self.1.embedded.lock().unwrap().extend(texts.iter().cloned());
        Ok(Embedded { vectors: texts.iter().map(|text| vector(text)).collect(), tokens: 1 })
    }
}

/// Prefers passages that say so.
struct Liking(Arc<Outside>);

#[async_trait]
impl Reranker for Liking {
    fn name(&self) -> &str {
        "liking@test"
    }

    async fn rerank(&self, _: &str, passages: &[String]) -> Result<Reranked> {
        self.0.reranked.lock().unwrap().extend(passages.iter().cloned());
        let scores = passages.iter().map(|text| if text.contains("LIKED") { 0.9 } else { 0.1 }).collect();
        Ok(Reranked { scores, tokens: 10 })
    }
}

impl ModelDirectory for Library {
    fn resolve(&self, _: &TenantId, id: &str) -> Result<Arc<dyn ChatModel>> {
        Err(Error::not_found(format!("MODEL_NOT_CONFIGURED: there is no model `{id}`")))
    }

    fn embedder(&self, _: &TenantId, id: &str) -> Result<Arc<dyn Embedder>> {
        match id {
            "down@test" => Err(Error::new(ErrorKind::Unavailable, "nobody answers")),
            id => Ok(Arc::new(Meanings(id.to_owned(), Arc::clone(&self.0)))),
        }
    }

    fn reranker(&self, _: &TenantId, id: &str) -> Result<Arc<dyn Reranker>> {
        match id {
            "liking@test" => Ok(Arc::new(Liking(Arc::clone(&self.0)))),
            "none@test" => Err(Error::not_found("there is no model `none@test`")),
            _ => Err(Error::new(ErrorKind::Unavailable, "nobody answers")),
        }
    }

    fn list(&self, _: &TenantId) -> Vec<ModelInfo> {
        Vec::new()
    }
}

fn not_here<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "a search does not do that"))
}

fn page<T>(mut all: Vec<T>, offset: u64, limit: u64) -> (Vec<T>, u64) {
    let total = all.len() as u64;
    all = all
        .into_iter()
        .skip(usize::try_from(offset).unwrap())
        .take(usize::try_from(limit).unwrap())
        .collect();
    (all, total)
}

#[async_trait]
impl DatasetStore for Library {
    async fn tenants(&self) -> Result<Vec<TenantId>> {
        not_here()
    }

    async fn create(&self, _: &Dataset) -> Result<()> {
        not_here()
    }

    async fn dataset(&self, key: &DatasetKey) -> Result<Dataset> {
        *self.0.counted.lock().unwrap() += 1;
        self.dataset_uncounted(key).await
    }

    async fn dataset_uncounted(&self, key: &DatasetKey) -> Result<Dataset> {
        let shelves = self.0.shelves.lock().unwrap();
        let found = shelves.datasets.iter().find(|dataset| dataset.key == *key).cloned();
        found.ok_or_else(|| Error::not_found("there is no such dataset"))
    }

    async fn datasets(&self, tenant: &TenantId, filter: &DatasetFilter) -> Result<(Vec<Dataset>, u64)> {
        let shelves = self.0.shelves.lock().unwrap();
        *self.0.counted.lock().unwrap() += usize::from(filter.counting == Counting::With);
        let named = |dataset: &Dataset, name: &String| name.to_lowercase() == dataset.name.to_lowercase();
        let wanted = |dataset: &&Dataset| {
            dataset.key.tenant == *tenant
                && filter.ids.as_ref().is_none_or(|ids| ids.contains(&dataset.key.id))
                && filter.names.as_ref().is_none_or(|names| names.iter().any(|name| named(dataset, name)))
        };
        let own = shelves.datasets.iter().filter(wanted).cloned().collect();
        Ok(page(own, filter.offset, filter.limit))
    }

    async fn update(&self, _: &Dataset) -> Result<bool> {
        not_here()
    }

    async fn remove(&self, _: &DatasetKey) -> Result<Vec<String>> {
        not_here()
    }

    async fn add_document_within(&self, _: &Document, _: DocumentQuota) -> Result<()> {
        not_here()
    }

    async fn replace_document(&self, _: &Document, _: &DocumentId) -> Result<String> {
        not_here()
    }

    async fn document(&self, _: &DocumentKey) -> Result<Document> {
        not_here()
    }

    /// Only asked about a dataset without chunks.
    async fn documents(&self, _: &DatasetKey, _: &DocumentFilter) -> Result<(Vec<Document>, u64)> {
        Ok((Vec::new(), 0))
    }

    async fn document_heads(&self, dataset: &DatasetKey, wanted: &Heads) -> Result<Vec<DocumentHead>> {
        let shelves = self.0.shelves.lock().unwrap();
        let mut own: Vec<&Document> =
            shelves.documents.iter().filter(|document| document.key.dataset == *dataset).collect();
        own.sort_by(|one, other| one.key.id.cmp(&other.key.id));
        match wanted {
            Heads::Of(ids) => own.retain(|document| ids.contains(&document.key.id)),
            Heads::With(extra) => {
                own.retain(|document| shelves.extras.contains_key(&(document.key.id.clone(), *extra)));
            }
            Heads::Page(after, limit) => {
                own.retain(|document| after.as_ref().is_none_or(|after| document.key.id > *after));
                own.truncate(usize::try_from(*limit).unwrap());
                *self.0.paged.lock().unwrap() += own.len();
            }
        }
        let head = |document: &Document| DocumentHead {
            id: document.key.id.clone(),
            name: document.name.clone(),
            metadata: document.metadata.clone(),
            enabled: document.enabled,
            revision: document.revision,
            updated_ms: document.updated_ms,
        };
        Ok(own.into_iter().map(head).collect())
    }

    async fn update_document(&self, _: &DocumentKey, _: &DocumentChange, _: i64) -> Result<Option<Document>> {
        not_here()
    }

    async fn remove_documents(&self, _: &DatasetKey, _: &[DocumentId]) -> Result<Vec<String>> {
        not_here()
    }

    async fn chunks(&self, _: &DocumentKey, _: &ChunkFilter) -> Result<(Vec<StoredChunk>, u64)> {
        not_here()
    }

    async fn chunks_by_id(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<StoredChunk>> {
        let shelves = self.0.shelves.lock().unwrap();
        let find = |id: &ChunkId| {
            let own = |chunk: &&StoredChunk| {
                chunk.id == *id && chunk.document.dataset.tenant == *tenant && !shelves.gone.contains(id)
            };
            shelves.chunks.iter().find(own).map(|chunk| StoredChunk { vector: None, ..chunk.clone() })
        };
        Ok(ids.iter().filter_map(find).collect())
    }

    async fn chunk_heads(&self, tenant: &TenantId, ids: &[ChunkId]) -> Result<Vec<ChunkHead>> {
        let head = |chunk: StoredChunk| ChunkHead {
            id: chunk.id,
            document: chunk.document,
            parent: chunk.parent,
            available: chunk.available,
        };
        Ok(self.chunks_by_id(tenant, ids).await?.into_iter().map(head).collect())
    }

    async fn chunks_with_vectors(&self, _: &DocumentKey, _: &[ChunkId]) -> Result<Vec<StoredChunk>> {
        not_here()
    }

    async fn put_chunks(&self, _: &DocumentKey, _: &[StoredChunk], _: u64) -> Result<IndexNote> {
        not_here()
    }

    async fn replace_chunks(
        &self,
        _: &DocumentKey,
        _: &[ChunkReplacement],
        _: u64,
    ) -> Result<Option<IndexNote>> {
        not_here()
    }

    async fn next_ordinal(&self, _: &DocumentKey) -> Result<u64> {
        not_here()
    }

    async fn remove_chunks(&self, _: &DocumentKey, _: &[ChunkId]) -> Result<RemovedChunks> {
        not_here()
    }

    async fn reset_document(&self, _: &DocumentKey, _: i64) -> Result<()> {
        not_here()
    }

    async fn put_extra(&self, _: &DocumentKey, _: Extra, _: &Json) -> Result<()> {
        not_here()
    }

    async fn extra(&self, document: &DocumentKey, extra: Extra) -> Result<Option<Json>> {
        let shelves = self.0.shelves.lock().unwrap();
        if shelves.documents.iter().all(|one| one.key != *document) {
            return Err(Error::not_found("there is no such document"));
        }
        Ok(shelves.extras.get(&(document.id.clone(), extra)).cloned())
    }

    async fn extras(
        &self,
        dataset: &DatasetKey,
        extra: Extra,
        after: Option<&DocumentId>,
        count_max: u64,
    ) -> Result<Vec<(DocumentId, Json)>> {
        *self.0.graphs_read.lock().unwrap() += 1;
        let shelves = self.0.shelves.lock().unwrap();
        let own = shelves.documents.iter().filter(|document| document.key.dataset == *dataset);
        let mut ids: Vec<DocumentId> = own.map(|document| document.key.id.clone()).collect();
        ids.sort();
        ids.retain(|id| after.is_none_or(|after| id > after));
        let find = |id: DocumentId| shelves.extras.get(&(id.clone(), extra)).map(|json| (id, json.clone()));
        Ok(ids.into_iter().filter_map(find).take(usize::try_from(count_max).unwrap()).collect())
    }
}

/// The id that a dataset of this name has.
pub(crate) fn id(dataset: &str) -> DatasetId {
    format!("{dataset}-id").into()
}
