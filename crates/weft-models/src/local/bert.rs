//! The forward pass of BERT models that turn a text into one vector.
//!
//! The tokens of all texts of a batch stand in one matrix, one text below the other, so that nothing is
//! computed for padding and no mask is needed; only attention looks at each text by itself.

use std::collections::HashMap;

use candle_core::{Device, Tensor};
use candle_nn::{LayerNorm, Module as _, ops};
use serde::Deserialize;

use super::gelu::Gelu;

type Computed<T> = candle_core::Result<T>;

/// What `config.json` says, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Shape {
    pub model_type: String,
    pub hidden_act: String,
    pub hidden_size: usize,
    pub num_attention_heads: usize,
    pub num_hidden_layers: usize,
    pub max_position_embeddings: usize,
    pub layer_norm_eps: f64,
}

impl Shape {
    /// # Errors
    /// Why it is no model that is understood here.
    pub fn check(&self) -> Result<(), String> {
        if self.model_type != "bert" || self.hidden_act != "gelu" {
            let (kind, act) = (&self.model_type, &self.hidden_act);
            return Err(format!("it is `{kind}` with `{act}`, and only `bert` with `gelu` is understood"));
        }
        if self.num_attention_heads == 0 || !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "{} numbers are not for {} heads",
                self.hidden_size, self.num_attention_heads
            ));
        }
        match self.max_position_embeddings < super::TOKENS_MIN {
            true => Err(format!("{} tokens are no text", self.max_position_embeddings)),
            false => Ok(()),
        }
    }
}

/// A model with its weights.
pub(super) struct Bert {
    words: Tensor,
    /// The place of a token, and that it is of the first text of a pair, which all are.
    places: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

struct Layer {
    /// Query, key and value beside each other: one large product is faster than three.
    attention: Dense,
    heads: usize,
    joined: Dense,
    joined_norm: LayerNorm,
    wide: Dense,
    narrow: Dense,
    norm: LayerNorm,
}

/// A product with a matrix, and a row that is added.
struct Dense {
    matrix: Tensor,
    row: Tensor,
}

/// Where the tokens of one text are.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    length: usize,
}

/// Weights by name, all of which must be there.
struct Weights<'a> {
    by_name: &'a HashMap<String, Tensor>,
    prefix: &'static str,
}

impl Weights<'_> {
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
        Ok(Dense { matrix: matrix.t()?.contiguous()?, row })
    }

    fn attention(&self, name: &str, width_of_head: f64) -> Computed<Dense> {
        // The scale of the scores is put into the weights of the query.
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
    /// Takes the weights of a model of `shape` from all tensors of its file.
    pub fn new(shape: &Shape, tensors: &HashMap<String, Tensor>) -> Computed<Self> {
        let wrapped = tensors.contains_key("bert.embeddings.word_embeddings.weight");
        let weights = Weights { by_name: tensors, prefix: if wrapped { "bert." } else { "" } };
        let kind = weights.get("embeddings.token_type_embeddings.weight")?.get(0)?;
        let places = weights.get("embeddings.position_embeddings.weight")?.broadcast_add(&kind)?;
        let layers = (0..shape.num_hidden_layers).map(|at| Layer::new(shape, &weights, at));
        Ok(Self {
            words: weights.get("embeddings.word_embeddings.weight")?,
            places,
            norm: weights.norm("embeddings.LayerNorm", shape.layer_norm_eps)?,
            layers: layers.collect::<Computed<_>>()?,
        })
    }

    /// The mean of the last layer over the tokens of each text, brought to length 1. No text is empty.
    pub fn vectors(&self, texts: &[&[u32]]) -> Computed<Vec<Vec<f32>>> {
        let mut spans = Vec::with_capacity(texts.len());
        let (mut ids, mut places) = (Vec::new(), Vec::new());
        for text in texts {
            spans.push(Span { start: ids.len(), length: text.len() });
            ids.extend_from_slice(text);
            places.extend((0_u32..).take(text.len()));
        }
        let count = ids.len();
        let words = self.words.index_select(&Tensor::from_vec(ids, count, &Device::Cpu)?, 0)?;
        let places = self.places.index_select(&Tensor::from_vec(places, count, &Device::Cpu)?, 0)?;
        let mut rows = self.norm.forward(&(words + places)?)?;
        for layer in &self.layers {
            rows = layer.forward(&rows, &spans)?;
        }
        let means = spans.iter().map(|span| rows.narrow(0, span.start, span.length)?.mean(0)?.to_vec1());
        means.map(|mean| mean.map(crate::vectors::normalised)).collect()
    }

    /// How many words it knows.
    pub fn words(&self) -> usize {
        self.words.dims().first().copied().unwrap_or_default()
    }

    /// How many tokens a text may have.
    pub fn places(&self) -> usize {
        self.places.dims().first().copied().unwrap_or_default()
    }
}

impl Layer {
    fn new(shape: &Shape, weights: &Weights<'_>, at: usize) -> Computed<Self> {
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

    fn forward(&self, rows: &Tensor, spans: &[Span]) -> Computed<Tensor> {
        let projected = self.attention.forward(rows)?;
        let seen: Vec<Tensor> =
            spans.iter().map(|span| self.attend(&projected, *span)).collect::<Computed<_>>()?;
        let seen = self.joined.forward(&Tensor::cat(&seen, 0)?)?;
        let rows = self.joined_norm.forward(&(seen + rows)?)?;
        let wide = self.wide.forward(&rows)?;
        wide.inplace_op1(&Gelu)?;
        self.norm.forward(&(self.narrow.forward(&wide)? + rows)?)
    }

    /// What the tokens of one text take from each other.
    fn attend(&self, projected: &Tensor, span: Span) -> Computed<Tensor> {
        let part = projected.narrow(0, span.start, span.length)?.reshape((span.length, 3, self.heads, ()))?;
        // Views, one matrix for each head; the product takes them as they lie.
        let view = |which: usize| part.narrow(1, which, 1)?.squeeze(1)?.transpose(0, 1);
        let (query, key, value) = (view(0)?, view(1)?, view(2)?);
        let shares = ops::softmax_last_dim(&query.matmul(&key.transpose(1, 2)?)?)?;
        let seen = shares.matmul(&value)?.transpose(0, 1)?;
        seen.reshape((span.length, ()))
    }
}
