//! Scripted seams that fail on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;
use weft_core::id::{ChunkId, DatasetId, DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::chat_model::{
    ChatDelta, ChatRequest, ChatStream, ModelInfo, ModelKind, StopReason, Usage,
};
use weft_core::seam::dataset_store::{Extra, IngestStage, StoredChunk};
use weft_core::seam::document_reader::{
    DocumentPiece, FoundPicture, FoundPictures, ReadDocument, ReadRequest,
};
use weft_core::seam::embedder::{Embedded, EmbeddingPurpose};
use weft_core::seam::index::{
    IndexAnswer, IndexChange, IndexQuery, IndexSize, IndexedChunk, IndexedDocument,
};
use weft_core::seam::ingest_queue::{
    Amended, IndexNote, IngestLease, IngestOutcome, IngestProgress, NotedFilter, PictureSize, Removed,
    TakenDocument, ToBeFound, Wanted,
};
use weft_core::seam::picture_reader::Picture;
use weft_core::seam::{ChatModel, DocumentReader, Embedder, Index, IngestQueue, ModelDirectory};
use weft_core::value::Json;
use weft_core::watched_models::{CallOutcome, ModelCall, ModelWatcher};
use weft_core::{Error, ErrorKind, Result, async_trait};

/// What happens at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process dies.
    Crash,
    /// The seam fails, this once.
    Fail,
    /// It blocks until it is released.
    Hold,
}

/// Counts the steps of all seams, two for each call: before and after it.
#[derive(Clone, Default)]
pub(super) struct Faults(Arc<State>);

#[derive(Default)]
struct State {
    steps: AtomicUsize,
    at: Mutex<Option<(usize, Fault)>>,
    crashed: CancellationToken,
    held: CancellationToken,
    released: CancellationToken,
    refused: Mutex<BTreeSet<DocumentId>>,
}

impl Faults {
    pub(super) fn at(step: usize, fault: Fault) -> Self {
        let state = State { at: Mutex::new(Some((step, fault))), ..State::default() };
        Self(Arc::new(state))
    }

    pub(super) fn steps(&self) -> usize {
        self.0.steps.load(Ordering::SeqCst)
    }

    pub(super) async fn crashed(&self) {
        self.0.crashed.cancelled().await;
    }

    /// Returns when a step is held.
    pub(super) async fn held(&self) {
        self.0.held.cancelled().await;
    }

    pub(super) fn release(&self) {
        self.0.released.cancel();
    }

    /// From here on the index accepts nothing of this document.
    pub(super) fn refuse(&self, document: &DocumentKey) {
        self.0.refused.lock().unwrap().insert(document.id.clone());
    }

    fn refuses(&self, change: &IndexChange) -> bool {
        match change {
            IndexChange::Document(IndexedDocument { id, .. }) | IndexChange::Clear(id) => {
                self.0.refused.lock().unwrap().contains(id)
            }
            _ => false,
        }
    }

    pub(super) async fn step(&self) -> Result<()> {
        if self.0.crashed.is_cancelled() {
            return std::future::pending().await;
        }
        let step = self.0.steps.fetch_add(1, Ordering::SeqCst);
        let at = *self.0.at.lock().unwrap();
        match at {
            Some((at, Fault::Crash)) if at == step => {
                self.0.crashed.cancel();
                std::future::pending().await
            }
            Some((at, Fault::Fail)) if at == step => {
                Err(Error::new(ErrorKind::Unavailable, "it is not there"))
            }
            Some((at, Fault::Hold)) if at == step => {
                self.0.held.cancel();
                self.0.released.cancelled().await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn around<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.step().await?;
        let given = call.await?;
        self.step().await?;
        Ok(given)
    }
}

/// The complete contents of an index.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Held {
    pub documents: BTreeMap<DocumentId, IndexedDocument>,
    pub chunks: BTreeMap<ChunkId, (DocumentId, IndexedChunk)>,
}

/// An index that only stores entries.
#[derive(Clone, Default)]
pub(super) struct FakeIndex(pub Arc<Mutex<BTreeMap<(TenantId, DatasetId), Held>>>);

impl FakeIndex {
    pub(super) fn held(&self, key: &DatasetKey) -> Held {
        self.0.lock().unwrap().get(&(key.tenant.clone(), key.id.clone())).cloned().unwrap_or_default()
    }

    pub(super) fn lose(&self) {
        self.0.lock().unwrap().clear();
    }

    /// The contents of the chunks of a document, sorted.
    pub(super) fn contents(&self, key: &DocumentKey) -> Vec<String> {
        let held = self.held(&key.dataset);
        let of = held.chunks.into_values().filter(|(of, _)| *of == key.id);
        let mut contents: Vec<String> = of.map(|(_, chunk)| chunk.content).collect();
        contents.sort();
        contents
    }
}

#[async_trait]
impl Index for FakeIndex {
    async fn write(&self, dataset: &DatasetKey, changes: Vec<IndexChange>) -> Result<()> {
        let mut all = self.0.lock().unwrap();
        let held = all.entry((dataset.tenant.clone(), dataset.id.clone())).or_default();
        for change in changes {
            match change {
                IndexChange::Document(document) => {
                    held.documents.insert(document.id.clone(), document);
                }
                IndexChange::Chunks(document, chunks) => {
                    assert!(held.documents.contains_key(&document), "the document is there first");
                    let with = chunks.into_iter().map(|(id, chunk)| (id, (document.clone(), chunk)));
                    held.chunks.extend(with);
                }
                IndexChange::RemoveChunks(ids) => ids.iter().for_each(|id| drop(held.chunks.remove(id))),
                IndexChange::Clear(document) => held.chunks.retain(|_, (of, _)| *of != document),
                IndexChange::RemoveDocument(document) => {
                    held.chunks.retain(|_, (of, _)| *of != document);
                    held.documents.remove(&document);
                }
            }
        }
        Ok(())
    }

    async fn remove(&self, dataset: &DatasetKey) -> Result<()> {
        self.0.lock().unwrap().remove(&(dataset.tenant.clone(), dataset.id.clone()));
        Ok(())
    }

    async fn search(&self, _: &TenantId, _: &IndexQuery) -> Result<IndexAnswer> {
        Ok(IndexAnswer::default())
    }

    async fn size(&self, dataset: &DatasetKey) -> Result<IndexSize> {
        let held = self.held(dataset);
        let vectors = held.chunks.values().filter(|(_, chunk)| chunk.vector.is_some()).count();
        Ok(IndexSize { documents: held.documents.len(), chunks: held.chunks.len(), vectors, dimension: 0 })
    }
}

/// Any seam, with injected faults.
#[derive(Clone)]
pub(super) struct Faulty<T> {
    pub inner: T,
    pub faults: Faults,
}

#[async_trait]
impl Index for Faulty<FakeIndex> {
    async fn write(&self, dataset: &DatasetKey, changes: Vec<IndexChange>) -> Result<()> {
        if changes.iter().any(|change| self.faults.refuses(change)) {
            return Err(Error::internal("not this one"));
        }
        self.faults.around(self.inner.write(dataset, changes)).await
    }

    async fn remove(&self, dataset: &DatasetKey) -> Result<()> {
        self.faults.around(self.inner.remove(dataset)).await
    }

    async fn search(&self, tenant: &TenantId, query: &IndexQuery) -> Result<IndexAnswer> {
        self.inner.search(tenant, query).await
    }

    async fn size(&self, dataset: &DatasetKey) -> Result<IndexSize> {
        self.inner.size(dataset).await
    }
}

#[async_trait]
impl IngestQueue for Faulty<Arc<dyn IngestQueue>> {
    async fn queue(&self, dataset: &DatasetKey, ids: &[DocumentId], now_ms: i64) -> Result<Vec<DocumentId>> {
        self.inner.queue(dataset, ids, now_ms).await
    }

    async fn stop(&self, document: &DocumentKey, wanted: Wanted, now_ms: i64) -> Result<()> {
        self.inner.stop(document, wanted, now_ms).await
    }

    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<TakenDocument>> {
        // Finding nothing to do is no step.
        let taken = self.inner.take(now_ms, until_ms, count_max).await?;
        if !taken.is_empty() {
            self.faults.step().await?;
        }
        Ok(taken)
    }

    async fn report(&self, lease: &IngestLease, progress: &IngestProgress, until_ms: i64) -> Result<Wanted> {
        self.faults.around(self.inner.report(lease, progress, until_ms)).await
    }

    async fn put_new(&self, lease: &IngestLease, chunks: &[StoredChunk], stage: IngestStage) -> Result<()> {
        self.faults.around(self.inner.put_new(lease, chunks, stage)).await
    }

    async fn add_new(&self, lease: &IngestLease, chunks: &[StoredChunk]) -> Result<()> {
        self.faults.around(self.inner.add_new(lease, chunks)).await
    }

    async fn new_chunks(
        &self,
        lease: &IngestLease,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<StoredChunk>> {
        self.faults.around(self.inner.new_chunks(lease, after, limit)).await
    }

    async fn amend_new(&self, lease: &IngestLease, amended: &[Amended]) -> Result<()> {
        self.faults.around(self.inner.amend_new(lease, amended)).await
    }

    async fn put_new_extra(&self, lease: &IngestLease, extra: Extra, value: &Json) -> Result<()> {
        self.faults.around(self.inner.put_new_extra(lease, extra, value)).await
    }

    async fn count_pictures(
        &self,
        lease: &IngestLease,
        pictures: &[PictureSize],
        bytes_max: u64,
    ) -> Result<Vec<String>> {
        self.faults.around(self.inner.count_pictures(lease, pictures, bytes_max)).await
    }

    async fn unindexed(&self, document: &DocumentKey) -> Result<IndexNote> {
        self.faults.around(self.inner.unindexed(document)).await
    }

    async fn all_unindexed(&self, dataset: &DatasetKey) -> Result<()> {
        self.faults.around(self.inner.all_unindexed(dataset)).await
    }

    async fn indexed(&self, document: &DocumentKey, number: i64) -> Result<bool> {
        self.faults.around(self.inner.indexed(document, number)).await
    }

    async fn to_index(&self, filter: &NotedFilter) -> Result<Vec<DocumentKey>> {
        self.inner.to_index(filter).await
    }

    async fn to_be_found(&self, dataset: &DatasetKey) -> Result<ToBeFound> {
        self.inner.to_be_found(dataset).await
    }

    async fn expect_file(&self, document: &DocumentKey, blob: &str, from_ms: i64) -> Result<()> {
        self.faults.around(self.inner.expect_file(document, blob, from_ms)).await
    }

    async fn removed(&self, now_ms: i64, count_max: u64) -> Result<Vec<Removed>> {
        self.inner.removed(now_ms, count_max).await
    }

    async fn forget(&self, dataset: &DatasetKey, document: Option<&DocumentId>, now_ms: i64) -> Result<()> {
        self.faults.around(self.inner.forget(dataset, document, now_ms)).await
    }

    async fn settle(&self, lease: &IngestLease, settled: &IngestOutcome, now_ms: i64) -> Result<()> {
        self.faults.around(self.inner.settle(lease, settled, now_ms)).await
    }
}

/// Reads each line as a chunk; `#` starts a parent, `broken` fails, and text after `picture` was read in a
/// picture, which is valid unless it is a `fake`.
#[derive(Default)]
pub(super) struct LineReader {
    pub faults: Faults,
    pub reads: AtomicUsize,
    /// How long each reading takes.
    pub pause: Mutex<Duration>,
    pub at_once: AtomicUsize,
    pub most_at_once: AtomicUsize,
    /// Whether it uses a model to read.
    pub asks: AtomicBool,
}

/// Reads everything with a model.
struct AskingReader(Arc<dyn ModelWatcher>);

#[async_trait]
impl DocumentReader for AskingReader {
    async fn read(&self, _: &TenantId, _: &ReadRequest, _: Bytes) -> Result<ReadDocument> {
        let usage = Usage { prompt_tokens: 300, completion_tokens: 7, calls: 1, ..Usage::default() };
        let (kind, outcome) = (ModelKind::Ocr, CallOutcome::Succeeded);
        self.0.ended(&ModelCall { kind, model: "eyes", prices: None, usage, outcome });
        let piece = DocumentPiece { content: "seen".to_owned(), tokens: 1, ..DocumentPiece::default() };
        Ok(ReadDocument { pieces: vec![piece], ..ReadDocument::default() })
    }
}

struct One<'a>(&'a AtomicUsize);

impl Drop for One<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl DocumentReader for LineReader {
    async fn read(&self, _: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument> {
        self.faults.step().await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        let _one = One(&self.at_once);
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let pause = *self.pause.lock().unwrap();
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (mut read, mut pictures) = (ReadDocument::default(), 0);
        for (key, value) in [("title", "A title"), ("author", "Somebody"), ("date", "1843")] {
            read.metadata.insert(key.to_owned(), value.into());
        }
        for line in text.lines() {
            if line == "broken" {
                return Err(Error::invalid(format!("`{}` is broken in its second line", request.name)));
            }
            let mut piece = DocumentPiece { content: line.to_owned(), tokens: 3, ..DocumentPiece::default() };
            if line.starts_with('#') {
                read.parents.push(piece);
                continue;
            }
            piece.parent = read.parents.len().checked_sub(1);
            piece.headings = vec!["Heading".to_owned()];
            if line.starts_with(PICTURE) {
                piece.picture = Some(pictures);
                pictures += 1;
            }
            read.pieces.push(piece);
        }
        self.faults.step().await?;
        Ok(read)
    }

    fn watched(&self, watcher: Arc<dyn ModelWatcher>) -> Option<Arc<dyn DocumentReader>> {
        self.asks.load(Ordering::SeqCst).then(|| Arc::new(AskingReader(watcher)) as Arc<dyn DocumentReader>)
    }

    async fn pictures(&self, _: &TenantId, _: &ReadRequest, bytes: Bytes) -> Result<FoundPictures> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let found = |shown: &str| {
            let bytes = if shown == "fake" { "<svg/>".to_owned() } else { format!("GIF89a {shown}") };
            let (media_type, bytes) = ("image/gif".to_owned(), bytes.into());
            let picture = Picture { media_type, width: 99, height: 99, bytes };
            FoundPicture { picture, ..FoundPicture::default() }
        };
        let pictures = text.lines().filter_map(|line| line.strip_prefix(PICTURE)).map(found).collect();
        Ok(FoundPictures { pictures, warnings: Vec::new() })
    }
}

/// The prefix of a line that was read in a picture.
const PICTURE: &str = "picture ";

/// Vectors computed from the text alone.
#[derive(Default)]
pub(super) struct HashEmbedder {
    pub faults: Faults,
    pub texts: AtomicUsize,
    /// How many more times it is busy.
    pub busy: AtomicUsize,
    /// Whether it is busy every other time.
    pub stumbling: AtomicBool,
    pub calls: AtomicUsize,
}

#[async_trait]
impl Embedder for HashEmbedder {
    fn name(&self) -> &str {
        "hash@Test"
    }

    fn tokens_max(&self) -> usize {
        512
    }

    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        assert_eq!(purpose, EmbeddingPurpose::Passage);
        self.faults.step().await?;
        let stumbles =
            self.stumbling.load(Ordering::SeqCst) && self.calls.fetch_add(1, Ordering::SeqCst) % 2 == 1;
        let busy = || self.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if stumbles || busy().is_ok() {
            return Err(Error {
                retry_after: Some(Duration::from_secs(40)),
                ..Error::new(ErrorKind::RateLimited, "429")
            });
        }
        self.texts.fetch_add(texts.len(), Ordering::SeqCst);
        Ok(Embedded { vectors: texts.iter().map(|text| hashed(text)).collect(), tokens: texts.len() as u64 })
    }
}

/// The same vectors with more dimensions.
#[derive(Default)]
pub(super) struct WideEmbedder {
    pub faults: Faults,
    pub texts: AtomicUsize,
}

#[async_trait]
impl Embedder for WideEmbedder {
    fn name(&self) -> &str {
        "wide@Test"
    }

    fn tokens_max(&self) -> usize {
        512
    }

    async fn embed(&self, _: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        self.faults.step().await?;
        self.texts.fetch_add(texts.len(), Ordering::SeqCst);
        let wide = |text: &String| [hashed(text), vec![0.0; 4]].concat();
        Ok(Embedded { vectors: texts.iter().map(wide).collect(), tokens: texts.len() as u64 })
    }
}

pub(super) fn hashed(text: &str) -> Vec<f32> {
    let mut state = text.bytes().fold(17_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut vector: Vec<f32> = (0..8).map(|_| next()).collect();
    // Texts about one subject have similar directions.
    let about = text.strip_prefix("about ").and_then(|rest| rest.chars().next()?.to_digit(8));
    if let Some(place) = about {
        vector[place as usize] += 5.0;
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.into_iter().map(|value| value / length).collect()
}

/// Answers by the kind of the request.
pub(super) struct FormModel(pub ModelInfo, pub AtomicUsize, pub AtomicBool);

#[async_trait]
impl ChatModel for FormModel {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        self.1.fetch_add(1, Ordering::SeqCst);
        if self.2.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Filtered, "not this"));
        }
        let asked = &request.messages[0].text;
        let passage = request.messages[1].text.lines().nth(1).unwrap_or_default().to_owned();
        let answer = match () {
            () if asked.contains("mind map") => format!("{{\"items\": [{{\"name\": \"{passage}\"}}]}}"),
            () if asked.contains("keywords") => format!("key of {passage}, second"),
            () if asked.contains("pairs of names") => "[0]".to_owned(),
            () if asked.contains("sum up") => format!("sum of {}", request.messages[1].text.len()),
            () if asked.contains("questions") => format!("1. What of {passage}?"),
            () => "{\"author\": \"Ada\", \"year\": 1843}".to_owned(),
        };
        let end = ChatDelta::End { reason: StopReason::Stop, usage: Usage::default() };
        Ok(futures::stream::iter([Ok(ChatDelta::Text(answer)), Ok(end)]).boxed())
    }
}

/// One model of each kind.
pub(super) struct Models {
    pub chat: Arc<FormModel>,
    pub embedder: Arc<HashEmbedder>,
    pub wide: Arc<WideEmbedder>,
}

impl Models {
    pub(super) fn new(faults: &Faults) -> Self {
        let info = ModelInfo {
            name: "form".into(),
            provider: "test".into(),
            model: "form".into(),
            window: 9_999,
            tools: false,
            deferred_tools_max: 0,
            kind: ModelKind::Chat,
            prices: None,
        };
        let chat = FormModel(info, AtomicUsize::default(), AtomicBool::default());
        let embedder = HashEmbedder { faults: faults.clone(), ..HashEmbedder::default() };
        let wide = WideEmbedder { faults: faults.clone(), ..WideEmbedder::default() };
        Self { chat: Arc::new(chat), embedder: Arc::new(embedder), wide: Arc::new(wide) }
    }
}

impl ModelDirectory for Models {
    fn resolve(&self, _: &TenantId, _: &str) -> Result<Arc<dyn ChatModel>> {
        Ok(Arc::clone(&self.chat) as _)
    }

    fn embedder(&self, _: &TenantId, id: &str) -> Result<Arc<dyn Embedder>> {
        match id {
            "hash" | "hash@Test" => Ok(Arc::clone(&self.embedder) as _),
            "wide@Test" => Ok(Arc::clone(&self.wide) as _),
            _ => Err(Error::not_found(format!("there is no model `{id}`"))),
        }
    }

    fn list(&self, _: &TenantId) -> Vec<ModelInfo> {
        Vec::new()
    }
}
