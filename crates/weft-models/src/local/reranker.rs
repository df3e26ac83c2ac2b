//! A model that reads a question and a passage together and gives one score (a cross-encoder).

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{OnceCell, Semaphore};
use weft_core::seam::Reranker;
use weft_core::seam::reranker::Reranked;
use weft_core::{Error, Result, async_trait};

use super::bert::TokenIds;
use super::{BATCHES_AT_ONCE_MAX, Model, ModelFiles, ScoreHeads, batches, blocking, permit};

/// A reranker in a folder. Its weights are loaded on first use.
pub struct LocalReranker {
    name: String,
    files: ModelFiles,
    model: OnceCell<Arc<Model>>,
    room: Arc<Semaphore>,
}

impl std::fmt::Debug for LocalReranker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalReranker").field("name", &self.name).field("folder", &self.files.folder).finish()
    }
}

impl LocalReranker {
    /// Opens the model in `folder`.
    ///
    /// # Errors
    /// `Invalid` when a file is missing or the model is of an unsupported kind.
    pub fn open(name: impl Into<String>, folder: impl Into<PathBuf>) -> Result<Self> {
        let files = ModelFiles::open(folder.into())?;
        let room = Arc::new(Semaphore::new(BATCHES_AT_ONCE_MAX));
        Ok(Self { name: name.into(), files, model: OnceCell::new(), room })
    }

    async fn model(&self) -> Result<&Arc<Model>> {
        let load = || async {
            let files = self.files.clone();
            blocking(permit(&self.room).await?, move || Model::load(&files, ScoreHeads::With))
                .await
                .map(Arc::new)
        };
        // A failure is not cached: the files may exist the next time.
        self.model.get_or_try_init(load).await
    }
}

impl Model {
    /// A score from 0 to 1 for each pair.
    fn scores(&self, pairs: &[&TokenIds]) -> Result<Vec<f32>> {
        let Some(head) = &self.head else { return Err(Error::internal("the model returns no scores")) };
        let logits = self.bert.firsts(pairs).and_then(|firsts| head.logits(&firsts));
        let logits = logits
            .map_err(|cause| Error::internal("the local reranker failed").because(cause.to_string()))?;
        Ok(logits.into_iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect())
    }
}

#[async_trait]
impl Reranker for LocalReranker {
    fn name(&self) -> &str {
        &self.name
    }

    async fn rerank(&self, question: &str, passages: &[String]) -> Result<Reranked> {
        let model = Arc::clone(self.model().await?);
        let (splitter, question, owned) = (Arc::clone(&model), question.to_owned(), passages.to_vec());
        let split =
            move || owned.iter().map(|passage| splitter.pair(&question, passage)).collect::<Result<Vec<_>>>();
        let pairs = Arc::new(blocking(permit(&self.room).await?, split).await?);
        let lengths: Vec<usize> = pairs.iter().map(|pair| pair.ids.len()).collect();
        let mut scores = vec![0.0; passages.len()];
        for batch in batches(&lengths) {
            let (model, pairs) = (Arc::clone(&model), Arc::clone(&pairs));
            let compute = move || {
                let chosen: Vec<&TokenIds> = batch.iter().map(|at| &pairs[*at]).collect();
                model.scores(&chosen).map(|scores| (batch, scores))
            };
            // A permit for each batch, so that another question waits for one of them and not for all.
            let (batch, computed) = blocking(permit(&self.room).await?, compute).await?;
            for (at, score) in batch.into_iter().zip(computed) {
                scores[at] = score;
            }
        }
        Ok(Reranked { scores, tokens: lengths.iter().map(|length| *length as u64).sum() })
    }
}
