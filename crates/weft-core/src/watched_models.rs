//! Models whose calls are reported to a watcher, whichever code makes them.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use weft_macros::async_trait;

use crate::budget::micros;
use crate::error::{Error, Result};
use crate::id::TenantId;
use crate::seam::chat_model::{
    ChatDelta, ChatModel, ChatRequest, ChatStream, ModelDirectory, ModelInfo, ModelKind,
};
use crate::seam::document_reader::DocumentReader;
use crate::seam::embedder::{Embedded, Embedder, EmbeddingPurpose};
use crate::seam::picture_reader::{Picture, PictureLine, PictureReader};
use crate::seam::reranker::{Reranked, Reranker};
use crate::seam::speech::{Audio, Recording, SpeechModel, TranscriptionModel};
use crate::tokens::{Prices, Usage};
use crate::usage::{Counted, UsedModel};

pub use crate::model_call::{CallOutcome, ModelCall, ModelWatcher};

/// The total usage of one model in some work.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSum {
    /// The name of the model in the settings.
    pub model: Arc<str>,
    /// The tokens it read and wrote.
    pub usage: Usage,
    /// Its prices, if known.
    pub prices: Option<Prices>,
}

impl CallSum {
    /// Returns what was used, with its cost.
    pub fn used(&self) -> UsedModel {
        let micros = self.prices.map_or(0, |prices| micros(self.usage, prices));
        UsedModel { model: Arc::clone(&self.model), usage: self.usage, micros }
    }
}

/// Adds up the model calls of some work, per model, for a caller that accounts for them at the end.
#[derive(Debug, Default)]
pub struct CallSums(Mutex<Vec<CallSum>>);

impl CallSums {
    /// Returns what was used since the last call of this method.
    pub fn take(&self) -> Vec<CallSum> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a document reader whose model calls are added up here, if it makes any.
    pub fn reader(self: &Arc<Self>, reader: &Arc<dyn DocumentReader>) -> Arc<dyn DocumentReader> {
        let watcher = Arc::clone(self) as Arc<dyn ModelWatcher>;
        reader.watched(watcher).unwrap_or_else(|| Arc::clone(reader))
    }
}

impl ModelWatcher for CallSums {
    fn ended(&self, call: &ModelCall<'_>) {
        if !call.counts() {
            return;
        }
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Calls at other prices stay apart: their cost is computed from the sum.
        match sums.iter_mut().find(|sum| *sum.model == *call.model && sum.prices == call.prices) {
            Some(sum) => sum.usage += call.usage,
            None => {
                sums.push(CallSum { model: call.model.into(), usage: call.usage, prices: call.prices });
            }
        }
    }
}

/// A directory of models whose calls are reported to a watcher.
#[derive(Clone)]
pub struct WatchedModels {
    models: Arc<dyn ModelDirectory>,
    watcher: Arc<dyn ModelWatcher>,
}

impl WatchedModels {
    /// Wraps a directory; it offers the same models.
    pub fn new(models: Arc<dyn ModelDirectory>, watcher: Arc<dyn ModelWatcher>) -> Self {
        Self { models, watcher }
    }

    fn watched<T>(&self, inner: T) -> WatchedModel<T> {
        WatchedModel { inner, watcher: Arc::clone(&self.watcher) }
    }
}

/// Wraps a picture reader so that its calls are reported.
pub fn watched_reader(
    inner: Arc<dyn PictureReader>,
    watcher: Arc<dyn ModelWatcher>,
) -> Arc<dyn PictureReader> {
    Arc::new(WatchedModel { inner, watcher })
}

/// Wraps a transcription model so that its calls are reported.
pub fn watched_transcription(
    inner: Arc<dyn TranscriptionModel>,
    watcher: Arc<dyn ModelWatcher>,
) -> Arc<dyn TranscriptionModel> {
    Arc::new(WatchedModel { inner, watcher })
}

impl ModelDirectory for WatchedModels {
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        Ok(Arc::new(self.watched(self.models.resolve(tenant, llm_id)?)))
    }

    fn substitution(&self, tenant: &TenantId, llm_id: &str) -> Option<String> {
        self.models.substitution(tenant, llm_id)
    }

    fn embedder(&self, tenant: &TenantId, id: &str) -> Result<Arc<dyn Embedder>> {
        Ok(Arc::new(self.watched(self.models.embedder(tenant, id)?)))
    }

    fn reranker(&self, tenant: &TenantId, id: &str) -> Result<Arc<dyn Reranker>> {
        Ok(Arc::new(self.watched(self.models.reranker(tenant, id)?)))
    }

    fn reranker_notice(&self, tenant: &TenantId, id: &str) -> Result<Option<String>> {
        self.models.reranker_notice(tenant, id)
    }

    fn speech(&self, tenant: &TenantId, id: &str) -> Result<Arc<dyn SpeechModel>> {
        Ok(Arc::new(self.watched(self.models.speech(tenant, id)?)))
    }

    fn transcription(&self, tenant: &TenantId, id: &str) -> Result<Arc<dyn TranscriptionModel>> {
        Ok(Arc::new(self.watched(self.models.transcription(tenant, id)?)))
    }

    fn list(&self, tenant: &TenantId) -> Vec<ModelInfo> {
        self.models.list(tenant)
    }

    fn makers(&self, tenant: &TenantId) -> Vec<String> {
        self.models.makers(tenant)
    }
}

/// A model whose calls are reported to a watcher.
struct WatchedModel<T> {
    inner: T,
    watcher: Arc<dyn ModelWatcher>,
}

impl<T> WatchedModel<T> {
    fn begins(&self, kind: ModelKind, model: &str) -> WatchedCall {
        let watcher = Arc::clone(&self.watcher);
        WatchedCall {
            watcher,
            kind,
            model: model.into(),
            prices: None,
            usage: Usage::default(),
            outcome: None,
        }
    }
}

/// A call in progress. It is reported on drop, because an abandoned call is dropped as well.
struct WatchedCall {
    watcher: Arc<dyn ModelWatcher>,
    kind: ModelKind,
    model: Arc<str>,
    prices: Option<Prices>,
    usage: Usage,
    outcome: Option<CallOutcome>,
}

impl WatchedCall {
    fn see<T>(&mut self, answer: &Result<T>) {
        self.outcome = Some(match answer {
            Ok(_) => CallOutcome::Succeeded,
            Err(Error { kind, .. }) => CallOutcome::Failed(*kind),
        });
    }

    /// Like [`WatchedCall::see`], for a model whose tokens are those that it reads.
    fn see_read<T>(&mut self, answer: &Result<T>, tokens: impl FnOnce(&T) -> u64) {
        let prompt_tokens = answer.as_ref().map_or(0, tokens);
        self.usage = Usage { prompt_tokens, calls: 1, ..Usage::default() };
        self.see(answer);
    }

    /// Like [`WatchedCall::see`], for a model that reports its usage together with its result.
    fn see_counted<T>(&mut self, answer: &Result<Counted<T>>) {
        match answer {
            Ok(counted) => (self.usage, self.prices) = (counted.usage, counted.prices),
            Err(_) => self.usage = Usage { calls: 1, ..Usage::default() },
        }
        self.see(answer);
    }

    fn see_delta(&mut self, delta: &Result<ChatDelta>) {
        match delta {
            Ok(ChatDelta::AnsweredBy(info)) => {
                self.model = info.name.as_str().into();
                self.prices = info.prices;
            }
            // Known even if the call is given up here, as when a budget is used up.
            Ok(ChatDelta::Paused { usage }) => self.usage += *usage,
            Ok(ChatDelta::End { usage, .. }) => {
                self.usage = *usage;
                self.outcome = Some(CallOutcome::Succeeded);
            }
            Ok(_) => {}
            Err(error) => self.outcome = Some(CallOutcome::Failed(error.kind)),
        }
    }
}

impl Drop for WatchedCall {
    fn drop(&mut self) {
        self.watcher.ended(&ModelCall {
            kind: self.kind,
            model: &self.model,
            prices: self.prices,
            usage: self.usage,
            outcome: self.outcome.unwrap_or(CallOutcome::Abandoned),
        });
    }
}

#[async_trait]
impl ChatModel for WatchedModel<Arc<dyn ChatModel>> {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let info = self.inner.info();
        let mut call = self.begins(info.kind, &info.name);
        call.prices = info.prices;
        match self.inner.chat(request).await {
            // The call belongs to its stream, and ends with it, even if the caller drops it early.
            Ok(deltas) => Ok(deltas.inspect(move |delta| call.see_delta(delta)).boxed()),
            Err(error) => {
                call.outcome = Some(CallOutcome::Failed(error.kind));
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Embedder for WatchedModel<Arc<dyn Embedder>> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tokens_max(&self) -> usize {
        self.inner.tokens_max()
    }

    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        let mut call = self.begins(ModelKind::Embedding, self.inner.name());
        let embedded = self.inner.embed(purpose, texts).await;
        call.see_read(&embedded, |embedded| embedded.tokens);
        embedded
    }
}

#[async_trait]
impl Reranker for WatchedModel<Arc<dyn Reranker>> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn rerank(&self, question: &str, passages: &[String]) -> Result<Reranked> {
        let mut call = self.begins(ModelKind::Rerank, self.inner.name());
        let reranked = self.inner.rerank(question, passages).await;
        call.see_read(&reranked, |reranked| reranked.tokens);
        reranked
    }
}

#[async_trait]
impl SpeechModel for WatchedModel<Arc<dyn SpeechModel>> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn prices(&self) -> Option<Prices> {
        self.inner.prices()
    }

    async fn speak(&self, text: &str) -> Result<Audio> {
        let mut call = self.begins(ModelKind::Tts, self.inner.name());
        let audio = self.inner.speak(text).await;
        // No provider reports tokens. Runs count the tokens of the text themselves.
        call.see_read(&audio, |_| 0);
        audio
    }
}

#[async_trait]
impl TranscriptionModel for WatchedModel<Arc<dyn TranscriptionModel>> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn transcribe(&self, tenant: &TenantId, recording: &Recording) -> Result<String> {
        self.transcribe_counted(tenant, recording).await.map(|counted| counted.given)
    }

    async fn transcribe_counted(&self, tenant: &TenantId, recording: &Recording) -> Result<Counted<String>> {
        let mut call = self.begins(ModelKind::Speech, self.inner.name());
        let text = self.inner.transcribe_counted(tenant, recording).await;
        call.see_counted(&text);
        text
    }
}

#[async_trait]
impl PictureReader for WatchedModel<Arc<dyn PictureReader>> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(&self, tenant: &TenantId, picture: &Picture) -> Result<Vec<PictureLine>> {
        self.read_counted(tenant, picture).await.map(|counted| counted.given)
    }

    async fn read_counted(&self, tenant: &TenantId, picture: &Picture) -> Result<Counted<Vec<PictureLine>>> {
        let mut call = self.begins(ModelKind::Ocr, self.inner.name());
        let lines = self.inner.read_counted(tenant, picture).await;
        call.see_counted(&lines);
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::counts::Label;
    use crate::error::ErrorKind;
    use crate::seam::chat_model::StopReason;

    /// The reports: model, outcome, tokens, costs.
    #[derive(Default)]
    struct Heard(Mutex<Vec<(String, CallOutcome, u64, u64)>>);

    impl ModelWatcher for Heard {
        fn ended(&self, call: &ModelCall<'_>) {
            let UsedModel { model, usage, micros } = call.used();
            self.0.lock().unwrap().push((model.to_string(), call.outcome, usage.total_tokens(), micros));
        }
    }

    struct Answers {
        info: ModelInfo,
        deltas: fn() -> Vec<Result<ChatDelta>>,
    }

    fn info(name: &str, price: f64) -> ModelInfo {
        ModelInfo {
            name: name.to_owned(),
            provider: "test".to_owned(),
            model: name.to_owned(),
            window: 10,
            tools: false,
            deferred_tools_max: 0,
            kind: ModelKind::Chat,
            prices: Some(Prices::new(price, price)),
        }
    }

    #[async_trait]
    impl ChatModel for Answers {
        fn info(&self) -> &ModelInfo {
            &self.info
        }

        async fn chat(&self, _: ChatRequest) -> Result<ChatStream> {
            let deltas = (self.deltas)();
            if deltas.is_empty() {
                return Err(Error::new(ErrorKind::RateLimited, "too many"));
            }
            Ok(futures::stream::iter(deltas).boxed())
        }
    }

    /// Each of these creates a model that answers with these deltas, and vectors.
    struct OneModel(fn() -> Vec<Result<ChatDelta>>);

    struct Vectors;

    #[async_trait]
    impl Embedder for Vectors {
        fn name(&self) -> &str {
            "vectors"
        }

        fn tokens_max(&self) -> usize {
            8
        }

        async fn embed(&self, _: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
            if texts.is_empty() {
                return Err(Error::invalid("nothing"));
            }
            Ok(Embedded { vectors: vec![vec![1.0]; texts.len()], tokens: 7 })
        }
    }

    impl ModelDirectory for OneModel {
        fn resolve(&self, _: &TenantId, _: &str) -> Result<Arc<dyn ChatModel>> {
            Ok(Arc::new(Answers { info: info("asked", 1.0), deltas: self.0 }))
        }

        fn embedder(&self, _: &TenantId, _: &str) -> Result<Arc<dyn Embedder>> {
            Ok(Arc::new(Vectors))
        }

        fn list(&self, _: &TenantId) -> Vec<ModelInfo> {
            vec![info("asked", 1.0)]
        }
    }

    fn end() -> Result<ChatDelta> {
        let usage = Usage { prompt_tokens: 2, completion_tokens: 3, calls: 1, ..Usage::default() };
        Ok(ChatDelta::End { reason: StopReason::Stop, usage })
    }

    fn text() -> Result<ChatDelta> {
        Ok(ChatDelta::Text("a".to_owned()))
    }

    /// The reports of a call of which this many deltas are read.
    async fn heard(
        deltas: fn() -> Vec<Result<ChatDelta>>,
        read: usize,
    ) -> Vec<(String, CallOutcome, u64, u64)> {
        let heard = Arc::new(Heard::default());
        let models = WatchedModels::new(Arc::new(OneModel(deltas)), Arc::clone(&heard) as _);
        let model = models.resolve(&TenantId::new("t"), "").unwrap();
        if let Ok(answer) = model.chat(ChatRequest::default()).await {
            answer.take(read).collect::<Vec<_>>().await;
        }
        std::mem::take(&mut *heard.0.lock().unwrap())
    }

    #[tokio::test]
    async fn each_call_is_reported_once_with_its_outcome() {
        let one = |model: &str, outcome: CallOutcome, tokens: u64, micros: u64| {
            vec![(model.to_owned(), outcome, tokens, micros)]
        };
        let succeeded = CallOutcome::Succeeded;
        assert_eq!(heard(|| vec![text(), end()], 9).await, one("asked", succeeded, 5, 5));
        let by_another = || vec![Ok(ChatDelta::AnsweredBy(Arc::new(info("other", 2.0)))), text(), end()];
        assert_eq!(heard(by_another, 9).await, one("other", succeeded, 5, 10));
        assert_eq!(heard(|| vec![text(), end()], 1).await, one("asked", CallOutcome::Abandoned, 0, 0));
        let paused = || {
            let usage = Usage { prompt_tokens: 1, completion_tokens: 1, calls: 1, ..Usage::default() };
            vec![text(), Ok(ChatDelta::Paused { usage }), text(), end()]
        };
        assert_eq!(heard(paused, 2).await, one("asked", CallOutcome::Abandoned, 2, 2));
        assert_eq!(heard(paused, 9).await, one("asked", succeeded, 5, 5));
        let broken = || vec![text(), Err(Error::new(ErrorKind::Timeout, "slow"))];
        assert_eq!(heard(broken, 9).await, one("asked", CallOutcome::Failed(ErrorKind::Timeout), 0, 0));
        let refused = CallOutcome::Failed(ErrorKind::RateLimited);
        assert_eq!(heard(Vec::new, 9).await, one("asked", refused, 0, 0));
    }

    #[tokio::test]
    async fn embedding_calls_count_their_input_tokens() {
        let heard = Arc::new(Heard::default());
        let models = WatchedModels::new(Arc::new(OneModel(Vec::new)), Arc::clone(&heard) as _);
        let embedder = models.embedder(&TenantId::new("t"), "").unwrap();
        assert_eq!((embedder.name(), embedder.tokens_max()), ("vectors", 8));
        embedder.embed(EmbeddingPurpose::Passage, &["a".to_owned()]).await.unwrap();
        embedder.embed(EmbeddingPurpose::Passage, &[]).await.unwrap_err();
        let invalid = CallOutcome::Failed(ErrorKind::Invalid);
        let expected =
            [("vectors".to_owned(), CallOutcome::Succeeded, 7, 0), ("vectors".to_owned(), invalid, 0, 0)];
        assert_eq!(*heard.0.lock().unwrap(), expected);
        // Methods with a default in the wrapper are forwarded to the directory.
        assert_eq!(models.makers(&TenantId::new("t")), ["test"]);
    }

    /// Reads pictures and transcribes speech, and reports its usage.
    struct Tells;

    fn told<T>(given: T) -> Result<Counted<T>> {
        let usage = Usage { prompt_tokens: 20, completion_tokens: 3, calls: 1, ..Usage::default() };
        Ok(Counted { given, usage, prices: Some(Prices::new(1.0, 1.0)) })
    }

    #[async_trait]
    impl PictureReader for Tells {
        fn name(&self) -> &str {
            "sees"
        }

        async fn read(&self, tenant: &TenantId, picture: &Picture) -> Result<Vec<PictureLine>> {
            self.read_counted(tenant, picture).await.map(|counted| counted.given)
        }

        async fn read_counted(&self, _: &TenantId, picture: &Picture) -> Result<Counted<Vec<PictureLine>>> {
            if picture.bytes.is_empty() { Err(Error::invalid("nothing")) } else { told(Vec::new()) }
        }
    }

    #[async_trait]
    impl TranscriptionModel for Tells {
        fn name(&self) -> &str {
            "hears"
        }

        async fn transcribe(&self, tenant: &TenantId, recording: &Recording) -> Result<String> {
            self.transcribe_counted(tenant, recording).await.map(|counted| counted.given)
        }

        async fn transcribe_counted(&self, _: &TenantId, recording: &Recording) -> Result<Counted<String>> {
            told(recording.name.clone())
        }
    }

    #[tokio::test]
    async fn vision_and_transcription_calls_count_reported_tokens() {
        let (heard, tenant) = (Arc::new(Heard::default()), TenantId::new("t"));
        let watcher = || Arc::clone(&heard) as Arc<dyn ModelWatcher>;
        // Two observers of one call: one that counts for the process, and one for the payer.
        let reader = watched_reader(watched_reader(Arc::new(Tells), watcher()), watcher());
        let picture = Picture { bytes: "png".into(), ..Picture::default() };
        reader.read(&tenant, &picture).await.unwrap();
        reader.read(&tenant, &Picture::default()).await.unwrap_err();
        let hears = watched_transcription(Arc::new(Tells), watcher());
        let recording =
            Recording { name: "a".to_owned(), media_type: "audio/mpeg".to_owned(), bytes: "a".into() };
        assert_eq!(hears.transcribe(&tenant, &recording).await.unwrap(), "a");
        let invalid = CallOutcome::Failed(ErrorKind::Invalid);
        let one = |model: &str, outcome, tokens| (model.to_owned(), outcome, tokens, tokens);
        let expected = [
            one("sees", CallOutcome::Succeeded, 23),
            one("sees", CallOutcome::Succeeded, 23),
            one("sees", invalid, 0),
            one("sees", invalid, 0),
            one("hears", CallOutcome::Succeeded, 23),
        ];
        assert_eq!(*heard.0.lock().unwrap(), expected);
    }

    #[test]
    fn counted_calls_are_summed_by_model() {
        let sums = CallSums::default();
        let call = |kind, model: &'static str, prompt_tokens, outcome| {
            let usage = Usage { prompt_tokens, calls: 1, ..Usage::default() };
            sums.ended(&ModelCall { kind, model, prices: None, usage, outcome });
        };
        call(ModelKind::Ocr, "eyes", 5, CallOutcome::Succeeded);
        call(ModelKind::Ocr, "eyes", 6, CallOutcome::Succeeded);
        call(ModelKind::Ocr, "eyes", 9, CallOutcome::Abandoned);
        // No usage is reported.
        call(ModelKind::Speech, "ears", 0, CallOutcome::Succeeded);
        call(ModelKind::Tts, "voice", 0, CallOutcome::Succeeded);
        let taken = sums.take();
        let seen: Vec<_> =
            taken.iter().map(|sum| (&*sum.model, sum.usage.prompt_tokens, sum.usage.calls)).collect();
        assert_eq!(seen, [("eyes", 11, 2), ("voice", 0, 1)]);
        assert!(sums.take().is_empty());
    }

    #[test]
    fn every_outcome_has_its_own_name() {
        let words: std::collections::BTreeSet<&str> = CallOutcome::ALL.iter().map(|one| one.word()).collect();
        assert_eq!(words.len(), ErrorKind::ALL.len() + 2);
    }
}
