//! Models that run in this process: BERT in f32 from a folder, which computes vectors of texts (all-MiniLM-L6-v2), or
//! scores how well passages answer a question (ms-marco-MiniLM-L-6-v2).

mod bert;
mod gelu;
mod reranker;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Device;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokenizers::{PostProcessor as _, Tokenizer, TruncationParams};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use weft_core::seam::embedder::{Embedded, Embedder, EmbeddingPurpose};
use weft_core::{Error, Result, async_trait};

use bert::{Bert, BertShape, Pooling, TOKENS_MIN, TokenIds};

pub use reranker::LocalReranker;

use crate::installed::MODEL_FILES;

/// Maximum number of tokens per batch. More costs memory and is not faster.
const BATCH_TOKENS_MAX: usize = 512;
/// Maximum number of concurrent batches; each uses all cores.
const BATCHES_AT_ONCE_MAX: usize = 1;
/// Upper bound of the average token length; text beyond it is not even tokenized.
const BYTES_PER_TOKEN_MAX: usize = 64;
/// Longer files are not valid settings.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;

/// The files of a model, all in one folder. One of them is optional.
const SHAPE_FILE: &str = MODEL_FILES[0];
const TOKENIZER_FILE: &str = MODEL_FILES[1];
const WEIGHTS_FILE: &str = MODEL_FILES[2];
const SENTENCE_FILE: &str = "sentence_bert_config.json";
const POOLING_FILE: &str = "1_Pooling/config.json";

/// A model in a folder. Its weights are loaded on first use.
pub struct LocalEmbedder {
    name: String,
    files: ModelFiles,
    pooling: Pooling,
    query_prefix: String,
    passage_prefix: String,
    model: OnceCell<Arc<Model>>,
    room: Arc<Semaphore>,
}

/// The files of a model, and its properties known before the weights are loaded.
#[derive(Clone)]
struct ModelFiles {
    folder: PathBuf,
    shape: BertShape,
    tokens_max: usize,
}

struct Model {
    bert: Bert,
    /// The scoring head of a reranker.
    head: Option<bert::ScoreHead>,
    tokenizer: Tokenizer,
    tokens_max: usize,
}

#[derive(Deserialize)]
struct PoolingSettings {
    #[serde(default)]
    pooling_mode_cls_token: bool,
}

#[derive(Deserialize)]
struct SentenceSettings {
    max_seq_length: usize,
}

impl std::fmt::Debug for LocalEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalEmbedder").field("name", &self.name).field("folder", &self.files.folder).finish()
    }
}

impl LocalEmbedder {
    /// Opens the model in `folder`, to be recorded by datasets as `name`.
    ///
    /// # Errors
    /// `Invalid` when a file is missing or the model is of an unsupported kind.
    pub fn open(name: impl Into<String>, folder: impl Into<PathBuf>) -> Result<Self> {
        let files = ModelFiles::open(folder.into())?;
        let file = files.folder.join(POOLING_FILE);
        let by_first = file.is_file() && settings::<PoolingSettings>(&file)?.pooling_mode_cls_token;
        Ok(Self {
            name: name.into(),
            files,
            pooling: if by_first { Pooling::First } else { Pooling::Mean },
            query_prefix: String::new(),
            passage_prefix: String::new(),
            model: OnceCell::new(),
            room: Arc::new(Semaphore::new(BATCHES_AT_ONCE_MAX)),
        })
    }

    /// Sets prefixes of every question and every passage, which some models require.
    #[must_use]
    pub fn with_prefixes(self, query_prefix: String, passage_prefix: String) -> Self {
        Self { query_prefix, passage_prefix, ..self }
    }

    /// The number of dimensions of its vectors.
    pub fn dimensions(&self) -> usize {
        self.files.shape.hidden_size
    }

    async fn model(&self) -> Result<&Arc<Model>> {
        let load = || async {
            let files = self.files.clone();
            blocking(permit(&self.room).await?, move || Model::load(&files, ScoreHeads::Without))
                .await
                .map(Arc::new)
        };
        // A failure is not cached: the files may exist the next time.
        self.model.get_or_try_init(load).await
    }
}

/// Whether a model has a scoring head.
#[derive(Clone, Copy, PartialEq)]
enum ScoreHeads {
    Without,
    With,
}

impl ModelFiles {
    fn open(folder: PathBuf) -> Result<Self> {
        for file in MODEL_FILES {
            if !folder.join(file).is_file() {
                return Err(Error::invalid(format!("there is no {file} in {}", folder.display()))
                    .help("install a model with `scripts/local-embedder` or `weft models add FOLDER`"));
            }
        }
        let shape: BertShape = settings(&folder.join(SHAPE_FILE))?;
        shape.check().map_err(|why| {
            Error::invalid(format!("cannot use {}", folder.join(SHAPE_FILE).display())).because(why)
        })?;
        let sentence = folder.join(SENTENCE_FILE);
        let wanted = if sentence.is_file() {
            settings::<SentenceSettings>(&sentence)?.max_seq_length
        } else {
            shape.tokens_max()
        };
        // `check` has rejected shapes with fewer tokens than the lower bound, for which `clamp` would panic.
        let tokens_max = wanted.clamp(TOKENS_MIN, shape.tokens_max());
        Ok(Self { folder, shape, tokens_max })
    }
}

async fn permit(room: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    let permit = Arc::clone(room).acquire_owned().await;
    permit.map_err(|cause| Error::internal("the local model was closed").because(cause))
}

/// Runs blocking work that holds its permit until its end, even when its caller no longer waits for it.
async fn blocking<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let work = move || {
        let _permit = permit;
        work()
    };
    weft_core::blocking("the local model", work).await
}

fn settings<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let failed = || Error::invalid(format!("cannot read {}", path.display()));
    let length = std::fs::metadata(path).map_err(|cause| failed().because(cause))?.len();
    if length > SETTINGS_BYTES_MAX {
        return Err(failed().because(format!("it has {length} bytes")));
    }
    let source = std::fs::read(path).map_err(|cause| failed().because(cause))?;
    serde_json::from_slice(&source).map_err(|cause| failed().because(cause))
}

impl Model {
    fn load(ModelFiles { folder, shape, tokens_max }: &ModelFiles, heads: ScoreHeads) -> Result<Self> {
        let tokens_max = *tokens_max;
        let failed = |file: &str, cause: String| {
            Error::invalid(format!("cannot read {}", folder.join(file).display())).because(cause)
        };
        let tensors = candle_core::safetensors::load(folder.join(WEIGHTS_FILE), &Device::Cpu);
        let parts = tensors.and_then(|tensors| {
            let head = (heads == ScoreHeads::With).then(|| bert::ScoreHead::new(&tensors)).transpose()?;
            Ok((Bert::new(shape, &tensors)?, head))
        });
        let (bert, head) = parts.map_err(|cause| failed(WEIGHTS_FILE, cause.to_string()))?;
        let tokenizer = Tokenizer::from_file(folder.join(TOKENIZER_FILE));
        let mut tokenizer = tokenizer.map_err(|cause| failed(TOKENIZER_FILE, cause.to_string()))?;
        // A file may request padding to a common length; here each text has its own rows, and padding would be
        // computed as well.
        tokenizer.with_padding(None);
        let marks = tokenizer.get_post_processor().map_or(0, |marks| marks.added_tokens(false));
        if marks >= tokens_max {
            return Err(failed(
                TOKENIZER_FILE,
                format!("{marks} special tokens leave no room in {tokens_max} tokens"),
            ));
        }
        let truncation = TruncationParams { max_length: tokens_max, ..TruncationParams::default() };
        tokenizer
            .with_truncation(Some(truncation))
            .map_err(|cause| failed(TOKENIZER_FILE, cause.to_string()))?;
        // Otherwise a text would fail later, at the first token without a row in the weights.
        let words = tokenizer.get_vocab_size(true);
        if words > bert.words() || shape.max_position_embeddings > bert.places() {
            let known = format!("it has {} tokens and {} positions", bert.words(), bert.places());
            let wanted =
                format!("but {words} tokens and {} positions are required", shape.max_position_embeddings);
            return Err(failed(WEIGHTS_FILE, format!("{known}, {wanted}")));
        }
        Ok(Self { bert, head, tokenizer, tokens_max })
    }

    fn tokens(&self, text: &str) -> Result<TokenIds> {
        let encoded = self.tokenizer.encode_fast(self.beginning(text), true).map_err(unsplit)?;
        Ok(TokenIds { ids: or_something(encoded.get_ids()), kinds: Vec::new() })
    }

    /// The tokens of a question and a passage.
    fn pair(&self, question: &str, passage: &str) -> Result<TokenIds> {
        let pair = (self.beginning(question), self.beginning(passage));
        let encoded = self.tokenizer.encode_fast(pair, true).map_err(unsplit)?;
        Ok(TokenIds { ids: or_something(encoded.get_ids()), kinds: encoded.get_type_ids().to_vec() })
    }

    /// The beginning of a text, as much as can be read.
    fn beginning<'a>(&self, text: &'a str) -> &'a str {
        // The tokenizer processes all of a text before it truncates, which takes seconds for megabytes.
        &text[..text.floor_char_boundary(self.tokens_max * BYTES_PER_TOKEN_MAX)]
    }

    fn vectors(&self, texts: &[&TokenIds], pooling: Pooling) -> Result<Vec<Vec<f32>>> {
        let vectors = self.bert.vectors(texts, pooling);
        vectors.map_err(|cause| Error::internal("the local embedder failed").because(cause.to_string()))
    }
}

/// Replaces the empty output that a tokenizer without start and end tokens returns for an empty text.
fn or_something(ids: &[u32]) -> Vec<u32> {
    // No text may be empty in a batch: the mean of zero rows is not a number.
    if ids.is_empty() { vec![0] } else { ids.to_vec() }
}

#[expect(clippy::needless_pass_by_value, reason = "errors are handed over as they come")]
fn unsplit(cause: tokenizers::Error) -> Error {
    Error::internal("cannot split a text into tokens").because(cause.to_string())
}

/// Sorts texts by their number of tokens and splits them into batches. Similar lengths are grouped, so that a batch
/// of short texts is not delayed by a long one.
fn batches(lengths: &[usize]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|at| lengths[*at]);
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for at in order {
        match batches.last_mut().filter(|_| lengths[at] <= room) {
            Some(batch) => batch.push(at),
            None => {
                batches.push(vec![at]);
                room = BATCH_TOKENS_MAX;
            }
        }
        room = room.saturating_sub(lengths[at]);
    }
    batches
}

#[async_trait]
impl Embedder for LocalEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn tokens_max(&self) -> usize {
        self.files.tokens_max
    }

    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        let model = Arc::clone(self.model().await?);
        let prefix = match purpose {
            EmbeddingPurpose::Query => &self.query_prefix,
            EmbeddingPurpose::Passage => &self.passage_prefix,
        };
        let owned: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let splitter = Arc::clone(&model);
        let split = move || owned.iter().map(|text| splitter.tokens(text)).collect::<Result<Vec<_>>>();
        let tokens = Arc::new(blocking(permit(&self.room).await?, split).await?);
        let lengths: Vec<usize> = tokens.iter().map(|tokens| tokens.ids.len()).collect();
        let mut vectors = vec![Vec::new(); texts.len()];
        for batch in batches(&lengths) {
            let (model, tokens, pooling) = (Arc::clone(&model), Arc::clone(&tokens), self.pooling);
            let compute = move || {
                let texts: Vec<&TokenIds> = batch.iter().map(|at| &tokens[*at]).collect();
                model.vectors(&texts, pooling).map(|vectors| (batch, vectors))
            };
            // A permit for each batch: a question waits for one batch of a document and not for all of them.
            let (batch, computed) = blocking(permit(&self.room).await?, compute).await?;
            for (at, vector) in batch.into_iter().zip(computed) {
                vectors[at] = vector;
            }
        }
        Ok(Embedded { vectors, tokens: lengths.iter().map(|length| *length as u64).sum() })
    }
}

#[cfg(test)]
mod tests;
