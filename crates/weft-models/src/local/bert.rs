//! The forward pass of BERT models (and RoBERTa variants) that convert a text to one vector, or a pair of texts to
//! one score.
//!
//! The tokens of all texts of a batch are rows of one matrix, one text after the other, so that nothing is computed
//! for padding and no mask is needed; only attention treats each text separately.

use std::collections::HashMap;

use candle_core::{Device, Tensor};
use candle_nn::{LayerNorm, Module as _, ops};
use serde::Deserialize;

use super::gelu::Gelu;

/// The start and end tokens, and one between them.
pub(super) const TOKENS_MIN: usize = 3;

type Computed<T> = candle_core::Result<T>;

/// The relevant parts of `config.json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct BertShape {
    pub model_type: String,
    pub hidden_act: String,
    pub hidden_size: usize,
    pub num_attention_heads: usize,
    pub num_hidden_layers: usize,
    pub max_position_embeddings: usize,
    pub layer_norm_eps: f64,
    /// The padding token; RoBERTa numbers positions starting from the number after it.
    pad_token_id: Option<usize>,
}

/// How the output of the last layer is pooled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooling {
    /// The mean over all tokens.
    Mean,
    /// The first token.
    First,
}

/// The tokens of a text, or of two.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenIds {
    pub ids: Vec<u32>,
    /// For each token, 1 if it belongs to the second text; empty when there is only one.
    pub kinds: Vec<u32>,
}

impl BertShape {
    /// # Errors
    /// Why the model is not supported.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_known = matches!(self.model_type.as_str(), "bert" | "roberta" | "xlm-roberta");
        if !is_known || self.hidden_act != "gelu" {
            let (kind, act) = (&self.model_type, &self.hidden_act);
            return Err(format!(
                "it is `{kind}` with `{act}`; only `bert`, `roberta` and `xlm-roberta` with `gelu` are supported"
            ));
        }
        if self.num_attention_heads == 0 || !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "`hidden_size` is {}, which is not a multiple of {} attention heads",
                self.hidden_size, self.num_attention_heads
            ));
        }
        if self.tokens_max() < TOKENS_MIN {
            Err(format!("it reads {} tokens at a time, which is too few", self.tokens_max()))
        } else {
            Ok(())
        }
    }

    /// The position of the first token.
    fn first_place(&self) -> usize {
        if self.model_type == "bert" { 0 } else { self.pad_token_id.unwrap_or(1).saturating_add(1) }
    }

    /// The maximum number of tokens in a text.
    pub(super) fn tokens_max(&self) -> usize {
        self.max_position_embeddings.saturating_sub(self.first_place())
    }
}

/// A model with its weights.
pub(super) struct Bert {
    words: Tensor,
    /// The embedding of each position, including that of the first text's token type.
    places: Tensor,
    /// The difference between the token types of the second and the first text; absent in models without it.
    second: Option<Tensor>,
    first_place: u32,
    norm: LayerNorm,
    layers: Vec<BertLayer>,
}

struct BertLayer {
    /// Query, key and value side by side: one large product is faster than three.
    attention: Dense,
    heads: usize,
    joined: Dense,
    joined_norm: LayerNorm,
    wide: Dense,
    narrow: Dense,
    norm: LayerNorm,
}

/// A linear layer: a matrix product plus a bias row.
struct Dense {
    matrix: Tensor,
    row: Tensor,
}

/// The rows of one text's tokens.
#[derive(Clone, Copy)]
struct TokenSpan {
    start: usize,
    length: usize,
}

/// Weights by name, all of which have to exist.
struct NamedWeights<'a> {
    by_name: &'a HashMap<String, Tensor>,
    prefix: &'static str,
}

impl<'a> NamedWeights<'a> {
    /// The weights of the model itself, without those of a head.
    fn of(by_name: &'a HashMap<String, Tensor>) -> Self {
        let wrapped =
            |prefix: &&str| by_name.contains_key(&format!("{prefix}embeddings.word_embeddings.weight"));
        Self { by_name, prefix: ["bert.", "roberta."].into_iter().find(wrapped).unwrap_or_default() }
    }
}

impl NamedWeights<'_> {
    fn get(&self, name: &str) -> Computed<Tensor> {
        let found = self.by_name.get(&format!("{}{name}", self.prefix));
        let found = found.ok_or_else(|| candle_core::Error::Msg(format!("there is no tensor `{name}`")))?;
        found.to_dtype(candle_core::DType::F32)
    }

    fn norm(&self, name: &str, eps: f64) -> Computed<LayerNorm> {
        Ok(LayerNorm::new(self.get(&format!("{name}.weight"))?, self.get(&format!("{name}.bias"))?, eps))
    }

    fn dense(&self, name: &str) -> Computed<Dense> {
        let (matrix, row) = (self.get(&format!("{name}.weight"))?, self.get(&format!("{name}.bias"))?);
        // Transposed once here, and not for each product.
        Ok(Dense { matrix: matrix.t()?.contiguous()?, row })
    }

    fn attention(&self, name: &str, width_of_head: f64) -> Computed<Dense> {
        // The scale of the scores is folded into the weights of the query.
        let scale = 1.0 / width_of_head.sqrt();
        let [query, key, value] = ["query", "key", "value"].map(|part| self.dense(&format!("{name}.{part}")));
        let (query, key, value) = (query?, key?, value?);
        let matrix = Tensor::cat(&[&(query.matrix * scale)?, &key.matrix, &value.matrix], 1)?;
        let row = Tensor::cat(&[&(query.row * scale)?, &key.row, &value.row], 0)?;
        Ok(Dense { matrix, row })
    }
}

impl Dense {
    fn forward(&self, rows: &Tensor) -> Computed<Tensor> {
        rows.matmul(&self.matrix)?.broadcast_add(&self.row)
    }
}

impl Bert {
    /// Selects the weights of a model of `shape` from all tensors in its file.
    pub(super) fn new(shape: &BertShape, tensors: &HashMap<String, Tensor>) -> Computed<Self> {
        let weights = NamedWeights::of(tensors);
        let kinds = weights.get("embeddings.token_type_embeddings.weight")?;
        let kind = kinds.get(0)?;
        let places = weights.get("embeddings.position_embeddings.weight")?.broadcast_add(&kind)?;
        let second = match kinds.dim(0)? {
            // RoBERTa has a single token type.
            0 | 1 => None,
            _ => Some((kinds.get(1)? - &kind)?.unsqueeze(0)?),
        };
        let first_place = u32::try_from(shape.first_place()).unwrap_or(u32::MAX);
        let layers = (0..shape.num_hidden_layers).map(|at| BertLayer::new(shape, &weights, at));
        Ok(Self {
            words: weights.get("embeddings.word_embeddings.weight")?,
            places,
            second,
            first_place,
            norm: weights.norm("embeddings.LayerNorm", shape.layer_norm_eps)?,
            layers: layers.collect::<Computed<_>>()?,
        })
    }

    /// A vector of length 1 for each text. No text may be empty.
    pub(super) fn vectors(&self, texts: &[&TokenIds], pooling: Pooling) -> Computed<Vec<Vec<f32>>> {
        let (rows, spans) = self.rows(texts)?;
        let pooled = spans.iter().map(|span| match pooling {
            Pooling::Mean => rows.narrow(0, span.start, span.length)?.mean(0)?.to_vec1(),
            Pooling::First => rows.get(span.start)?.to_vec1(),
        });
        pooled.map(|vector| vector.map(crate::vectors::normalised)).collect()
    }

    /// The last layer's output for the first token of each text, as rows. No text may be empty.
    pub(super) fn firsts(&self, texts: &[&TokenIds]) -> Computed<Tensor> {
        let (rows, spans) = self.rows(texts)?;
        let firsts: Vec<Tensor> =
            spans.iter().map(|span| rows.narrow(0, span.start, 1)).collect::<Computed<_>>()?;
        Tensor::cat(&firsts, 0)
    }

    /// The last layer's output for all texts.
    fn rows(&self, texts: &[&TokenIds]) -> Computed<(Tensor, Vec<TokenSpan>)> {
        let mut spans = Vec::with_capacity(texts.len());
        let (mut ids, mut places, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        for TokenIds { ids: own, kinds: of } in texts {
            spans.push(TokenSpan { start: ids.len(), length: own.len() });
            ids.extend_from_slice(own);
            places.extend((self.first_place..).take(own.len()));
            #[expect(clippy::cast_precision_loss, reason = "0 or 1")]
            kinds.extend((0..own.len()).map(|at| of.get(at).copied().unwrap_or_default().min(1) as f32));
        }
        let count = ids.len();
        let words = self.words.index_select(&Tensor::from_vec(ids, count, &Device::Cpu)?, 0)?;
        let places = self.places.index_select(&Tensor::from_vec(places, count, &Device::Cpu)?, 0)?;
        let mut rows = (words + places)?;
        if let Some(second) = self.second.as_ref().filter(|_| kinds.iter().any(|kind| *kind > 0.0)) {
            let kinds = Tensor::from_vec(kinds, (count, 1), &Device::Cpu)?;
            rows = (rows + kinds.matmul(second)?)?;
        }
        let mut rows = self.norm.forward(&rows)?;
        for layer in &self.layers {
            rows = layer.forward(&rows, &spans)?;
        }
        Ok((rows, spans))
    }

    /// The size of the vocabulary.
    pub(super) fn words(&self) -> usize {
        self.words.dims().first().copied().unwrap_or_default()
    }

    /// The number of positions, including unused ones.
    pub(super) fn places(&self) -> usize {
        self.places.dims().first().copied().unwrap_or_default()
    }
}

/// Computes a score from the first token of a pair.
pub(super) struct ScoreHead {
    dense: Dense,
    score: Dense,
}

impl ScoreHead {
    /// Selects the weights of the head from all tensors in a model's file.
    pub(super) fn new(tensors: &HashMap<String, Tensor>) -> Computed<Self> {
        let (inner, outer) = (NamedWeights::of(tensors), NamedWeights { by_name: tensors, prefix: "" });
        let of_roberta = tensors.contains_key("classifier.out_proj.weight");
        let (dense, score) = if of_roberta {
            (outer.dense("classifier.dense")?, outer.dense("classifier.out_proj")?)
        } else {
            (inner.dense("pooler.dense")?, outer.dense("classifier")?)
        };
        match score.matrix.dim(1)? {
            1 => Ok(Self { dense, score }),
            count => {
                Err(candle_core::Error::Msg(format!("it returns {count} scores, but a reranker returns one")))
            }
        }
    }

    /// A logit for each row.
    pub(super) fn logits(&self, firsts: &Tensor) -> Computed<Vec<f32>> {
        self.score.forward(&self.dense.forward(firsts)?.tanh()?)?.squeeze(1)?.to_vec1()
    }
}

impl BertLayer {
    fn new(shape: &BertShape, weights: &NamedWeights<'_>, at: usize) -> Computed<Self> {
        let (name, eps) = (format!("encoder.layer.{at}"), shape.layer_norm_eps);
        let width_of_head = (shape.hidden_size / shape.num_attention_heads) as f64;
        Ok(Self {
            attention: weights.attention(&format!("{name}.attention.self"), width_of_head)?,
            heads: shape.num_attention_heads,
            joined: weights.dense(&format!("{name}.attention.output.dense"))?,
            joined_norm: weights.norm(&format!("{name}.attention.output.LayerNorm"), eps)?,
            wide: weights.dense(&format!("{name}.intermediate.dense"))?,
            narrow: weights.dense(&format!("{name}.output.dense"))?,
            norm: weights.norm(&format!("{name}.output.LayerNorm"), eps)?,
        })
    }

    fn forward(&self, rows: &Tensor, spans: &[TokenSpan]) -> Computed<Tensor> {
        // Only attention keeps the texts apart; every other product is one for all of them, without padding.
        let projected = self.attention.forward(rows)?;
        let seen: Vec<Tensor> =
            spans.iter().map(|span| self.attend(&projected, *span)).collect::<Computed<_>>()?;
        let seen = self.joined.forward(&Tensor::cat(&seen, 0)?)?;
        let rows = self.joined_norm.forward(&(seen + rows)?)?;
        let wide = self.wide.forward(&rows)?;
        // In place, because this is the widest matrix of a layer.
        wide.inplace_op1(&Gelu)?;
        self.norm.forward(&(self.narrow.forward(&wide)? + rows)?)
    }

    /// Self-attention among the tokens of one text.
    fn attend(&self, projected: &Tensor, span: TokenSpan) -> Computed<Tensor> {
        let part = projected.narrow(0, span.start, span.length)?.reshape((span.length, 3, self.heads, ()))?;
        // Views, one matrix per head; the product accepts them without copying.
        let view = |which: usize| part.narrow(1, which, 1)?.squeeze(1)?.transpose(0, 1);
        let (query, key, value) = (view(0)?, view(1)?, view(2)?);
        let shares = ops::softmax_last_dim(&query.matmul(&key.transpose(1, 2)?)?)?;
        let seen = shares.matmul(&value)?.transpose(0, 1)?;
        seen.reshape((span.length, ()))
    }
}
