//! A world of documents, with processes that start and stop in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::dataset_store::{
    ChunkFilter, Dataset, DatasetCounts, Document, DocumentFilter, DocumentState, StoredChunk,
};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::seam::ingest_queue::{IngestOutcome, NotedFilter};
use weft_core::seam::usage_store::{UsageBy, UsageFilter};
use weft_core::seam::{BlobStore, Clock, DatasetStore, IngestQueue, UsageStore};
use weft_core::value::Json;
use weft_knowledge::ingest::{Addition, LibraryLimits, LibraryParts, WorkerPace};
use weft_knowledge::{IngestWorker, Library};
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{MemoryBlobs, MemoryDatasets};

use super::fakes::{FakeIndex, Faults, Faulty, Held, LineReader, Models};

/// The runtime's clock, which tests may stop and advance.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now_ms(&self) -> i64 {
        1_790_000_000_000 + i64::try_from(self.0.elapsed().as_millis()).unwrap()
    }

    fn running(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// State that outlives a process.
#[derive(Clone)]
pub(super) struct World {
    pub store: Arc<dyn DatasetStore>,
    pub queue: Arc<dyn IngestQueue>,
    pub blobs: MemoryBlobs,
    pub index: FakeIndex,
    pub clock: Arc<dyn Clock>,
    pub dataset: DatasetKey,
    pub pace: WorkerPace,
    pub additions: Vec<Arc<dyn Addition>>,
}

/// A process with its seams.
pub(super) struct Process {
    pub library: Arc<Library>,
    pub worker: IngestWorker,
    pub reader: Arc<LineReader>,
    pub models: Arc<Models>,
    pub faults: Faults,
}

/// Everything that must be equal after a crash.
#[derive(Debug, PartialEq)]
pub(super) struct Dump {
    pub chunks: BTreeMap<DocumentId, Vec<StoredChunk>>,
    pub parents: Vec<StoredChunk>,
    pub index: Held,
    pub messages: Vec<(String, DocumentState, String)>,
}

pub(super) fn dataset(embedder: &str, settings: &Json) -> Dataset {
    Dataset {
        key: DatasetKey::new(&TenantId::from("t"), "d"),
        name: "d".into(),
        avatar: String::new(),
        description: String::new(),
        language: "English".into(),
        permission: "me".into(),
        embedder: embedder.into(),
        method: ChunkMethod::Naive,
        settings: settings.as_object().unwrap().clone(),
        similarity_threshold: 0.2,
        vector_similarity_weight: 0.3,
        pagerank: 0,
        generation: 0,
        created_ms: 0,
        updated_ms: 0,
        revision: 0,
        counts: DatasetCounts::default(),
    }
}

impl World {
    pub(super) async fn new(embedder: &str) -> Self {
        let memory = MemoryDatasets::new();
        Self::over(Arc::new(memory.clone()), Arc::new(memory), dataset(embedder, &json!({}))).await
    }

    pub(super) async fn over(
        store: Arc<dyn DatasetStore>,
        queue: Arc<dyn IngestQueue>,
        dataset: Dataset,
    ) -> Self {
        store.create(&dataset).await.unwrap();
        Self {
            store,
            queue,
            blobs: MemoryBlobs::new(),
            index: FakeIndex::default(),
            clock: Arc::new(RuntimeClock(Instant::now())),
            dataset: dataset.key,
            pace: WorkerPace { repair_every: Duration::from_secs(20), ..WorkerPace::default() },
            additions: Vec::new(),
        }
    }

    pub(super) fn process(&self, faults: Faults) -> Process {
        let reader = Arc::new(LineReader { faults: faults.clone(), ..LineReader::default() });
        let models = Arc::new(Models::new(&faults));
        let parts = LibraryParts {
            store: Arc::clone(&self.store),
            queue: Arc::new(Faulty { inner: Arc::clone(&self.queue), faults: faults.clone() }),
            blobs: Arc::new(self.blobs.clone()),
            index: Arc::new(Faulty { inner: self.index.clone(), faults: faults.clone() }),
            reader: Arc::clone(&reader) as _,
            models: Arc::clone(&models) as _,
            clock: Arc::clone(&self.clock),
            additions: self.additions.clone(),
        };
        let library = Arc::new(Library::new(parts, LibraryLimits::default()));
        let worker = IngestWorker::new(Arc::clone(&library), self.pace);
        Process { library, worker, reader, models, faults }
    }

    /// A process that records its model usage here.
    pub(super) fn noting_process(&self, uses: &Arc<MemoryStore>) -> Process {
        let process = self.process(Faults::default());
        let noting = Library::clone(&process.library).noting_usage(Arc::clone(uses) as Arc<dyn UsageStore>);
        let library = Arc::new(noting);
        let worker = IngestWorker::new(Arc::clone(&library), self.pace);
        Process { library, worker, ..process }
    }

    /// The usage since yesterday: node, model, agent and user, with tokens.
    pub(super) async fn used(&self, uses: &MemoryStore) -> Vec<(String, u64)> {
        let yesterday = self.clock.now_ms().div_euclid(86_400_000) - 1;
        let by = vec![UsageBy::Node, UsageBy::Model, UsageBy::Agent, UsageBy::User];
        let filter = UsageFilter { since_day: yesterday, by, limit: 99, ..UsageFilter::default() };
        let lines = uses.usage(&self.dataset.tenant, &filter).await.unwrap();
        lines.into_iter().map(|line| (line.of.join("|"), line.usage.prompt_tokens)).collect()
    }

    pub(super) fn key(&self, id: &str) -> DocumentKey {
        DocumentKey::new(&self.dataset, id)
    }

    /// Adds a document with an id that is the same in every world.
    pub(super) async fn add(&self, id: &str, text: &str) -> DocumentKey {
        let key = self.key(id);
        let blob = format!("documents/{id}");
        self.blobs.put(&key.dataset.tenant, &blob, Bytes::from(text.to_owned())).await.unwrap();
        let within = self.store.dataset(&self.dataset).await.unwrap();
        let document = Document {
            size: text.len() as u64,
            blob,
            settings: within.settings,
            ..Document::unread(key.clone(), format!("{id}.txt"), 0)
        };
        self.store.add_document(&document).await.unwrap();
        key
    }

    /// Replaces the file of a document.
    pub(super) async fn write(&self, key: &DocumentKey, text: &str) {
        let blob = format!("documents/{}", key.id);
        self.blobs.put(&key.dataset.tenant, &blob, Bytes::from(text.to_owned())).await.unwrap();
    }

    pub(super) async fn queue(&self, ids: &[DocumentKey]) {
        let ids: Vec<DocumentId> = ids.iter().map(|key| key.id.clone()).collect();
        let queued = self.queue.queue(&self.dataset, &ids, self.clock.now_ms()).await.unwrap();
        assert_eq!(queued.len(), ids.len());
    }

    /// How many summaries of a document are stored, whatever its state.
    pub(super) async fn kept_summaries(&self, key: &DocumentKey) -> usize {
        let now_ms = self.clock.now_ms() + 3_600_000_000;
        let mut kept = 0;
        for taken in self.queue.take(now_ms, now_ms, 99).await.unwrap() {
            if taken.lease.document == *key {
                let new = self.queue.new_chunks(&taken.lease, None, 9_999).await.unwrap();
                kept = new.iter().filter(|chunk| weft_knowledge::raptor::is_summary(chunk)).count();
            }
            self.queue.settle(&taken.lease, &IngestOutcome::Released, self.clock.now_ms()).await.unwrap();
        }
        kept
    }

    pub(super) async fn documents(&self) -> Vec<Document> {
        let filter = DocumentFilter { limit: 999, ..DocumentFilter::default() };
        let mut all = self.store.documents(&self.dataset, &filter).await.unwrap().0;
        all.sort_by(|a, b| a.key.id.cmp(&b.key.id));
        all
    }

    pub(super) async fn state(&self, key: &DocumentKey) -> (DocumentState, String) {
        let document = self.store.document(key).await.unwrap();
        (document.state, document.message)
    }

    /// Documents recorded as possibly differing from the index.
    pub(super) async fn noted(&self) -> Vec<DocumentKey> {
        let filter = NotedFilter { now_ms: i64::MAX, count_max: 99, ..NotedFilter::default() };
        self.queue.to_index(&filter).await.unwrap()
    }

    /// Whether no work is left.
    pub(super) async fn idle(&self) -> bool {
        let states = vec![DocumentState::Running];
        let running = DocumentFilter { states, ..DocumentFilter::default() };
        self.store.documents(&self.dataset, &running).await.unwrap().1 == 0
            && self.noted().await.is_empty()
            && self.queue.removed(self.clock.now_ms(), 1).await.unwrap().is_empty()
    }

    /// Lets a process work until no work is left, or it crashes. Returns whether it did not.
    pub(super) async fn work(&self, process: &Process) -> bool {
        let stop = CancellationToken::new();
        let worker = process.worker.run(&stop, Duration::ZERO);
        let idle = async {
            while !self.idle().await {
                tokio::time::sleep(self.pace.look_every / 2).await;
            }
        };
        tokio::select! {
            biased;
            () = process.faults.crashed() => false,
            () = worker => unreachable!("nobody has stopped it"),
            () = idle => true,
        }
    }

    pub(super) async fn found(&self, key: &DocumentKey) -> Vec<StoredChunk> {
        let filter = ChunkFilter { vectors: true, limit: 99_999, ..ChunkFilter::default() };
        let mut found = self.store.chunks(key, &filter).await.unwrap().0;
        found.iter_mut().for_each(|chunk| chunk.created_ms = 0);
        found
    }

    pub(super) async fn texts(&self, key: &DocumentKey) -> Vec<String> {
        self.found(key).await.into_iter().map(|chunk| chunk.content).collect()
    }

    pub(super) async fn dump(&self) -> Dump {
        let (mut chunks, mut parents, mut messages) = (BTreeMap::new(), Vec::new(), Vec::new());
        for document in self.documents().await {
            let found = self.found(&document.key).await;
            let ids: Vec<_> = found.iter().filter_map(|chunk| chunk.parent.clone()).collect();
            parents.extend(self.store.chunks_by_id(&self.dataset.tenant, &ids).await.unwrap());
            chunks.insert(document.key.id.clone(), found);
            messages.push((document.name, document.state, document.message));
        }
        parents.iter_mut().for_each(|chunk| chunk.created_ms = 0);
        Dump { chunks, parents, index: self.index.held(&self.dataset), messages }
    }
}
