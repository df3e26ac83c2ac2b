use std::collections::HashMap;
use std::path::PathBuf;

use candle_core::Tensor;
use serde_json::{Value as Json, json};
use weft_core::ErrorKind;
use weft_core::seam::Reranker as _;
use weft_testkit::contracts::embedder::{embedder_keeps_its_contract, similar_texts_have_similar_vectors};

use super::*;

const WIDTH: usize = 16;
const LAYERS: usize = 2;
const PLACES: usize = 12;
const WORDS: [&str; 10] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "one", "two", "text", "word", "a", "##b"];

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // Leftovers are left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-local-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, file: &str, content: &Json) {
        std::fs::write(self.0.join(file), content.to_string()).unwrap();
    }

    /// A model with ten words and made-up weights.
    fn with_model(name: &str) -> Self {
        let folder = Self::new(name);
        folder.write(SHAPE_FILE, &shape());
        folder.write(TOKENIZER_FILE, &tokenizer());
        candle_core::safetensors::save(&weights(), folder.0.join(WEIGHTS_FILE)).unwrap();
        folder
    }
}

fn shape() -> Json {
    json!({"model_type": "bert", "hidden_act": "gelu", "hidden_size": WIDTH, "num_attention_heads": 4,
        "num_hidden_layers": LAYERS, "max_position_embeddings": PLACES, "layer_norm_eps": 1e-12})
}

fn tokenizer() -> Json {
    let words: serde_json::Map<String, Json> =
        WORDS.iter().enumerate().map(|(at, word)| ((*word).to_owned(), json!(at))).collect();
    let mark = |name: &str| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let special = |name: &str, id: u32| json!({"id": name, "ids": [id], "tokens": [name]});
    json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [mark("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, mark("[SEP]")],
            "pair": [mark("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, mark("[SEP]"),
                {"Sequence": {"id": "B", "type_id": 1}}, mark("[SEP]")],
            "special_tokens": {"[CLS]": special("[CLS]", 2), "[SEP]": special("[SEP]", 3)}},
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": words}})
}

fn weights() -> HashMap<String, Tensor> {
    weights_of(2)
}

/// Weights of a model with this many token types, and of a head that gives one score.
fn weights_of(kinds: usize) -> HashMap<String, Tensor> {
    let mut tensors = HashMap::new();
    let mut seed = 1_u32;
    let mut add = |name: String, shape: &[usize]| {
        let count = shape.iter().product();
        let numbers: Vec<f32> = (0..count)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 16) as f32 / 65_536.0 - 0.5
            })
            .collect();
        tensors.insert(name, Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap());
    };
    let mut pair = |name: String, shape: &[usize]| {
        add(format!("{name}.weight"), shape);
        add(format!("{name}.bias"), &shape[..1]);
    };
    pair("embeddings.LayerNorm".into(), &[WIDTH]);
    for at in 0..LAYERS {
        let layer = format!("encoder.layer.{at}");
        for part in ["self.query", "self.key", "self.value", "output.dense"] {
            pair(format!("{layer}.attention.{part}"), &[WIDTH, WIDTH]);
        }
        pair(format!("{layer}.attention.output.LayerNorm"), &[WIDTH]);
        pair(format!("{layer}.intermediate.dense"), &[WIDTH * 4, WIDTH]);
        pair(format!("{layer}.output.dense"), &[WIDTH, WIDTH * 4]);
        pair(format!("{layer}.output.LayerNorm"), &[WIDTH]);
    }
    for (name, rows) in [("word", WORDS.len()), ("position", PLACES), ("token_type", kinds)] {
        add(format!("embeddings.{name}_embeddings.weight"), &[rows, WIDTH]);
    }
    for (name, rows) in [("dense", WIDTH), ("score", 1)] {
        add(format!("{name}.weight"), &[rows, WIDTH]);
        add(format!("{name}.bias"), &[rows]);
    }
    tensors
}

/// A folder with a reranker of one of the two kinds, with the same weights under the names of its kind.
fn reranker(name: &str, kind: &str) -> Folder {
    let folder = Folder::with_model(name);
    let is_bert = kind == "bert";
    let mut own = shape();
    own["model_type"] = json!(kind);
    own["architectures"] = json!(["XForSequenceClassification"]);
    folder.write(SHAPE_FILE, &own);
    let renamed = |name: String| match name.split_once('.') {
        Some(("dense", rest)) if is_bert => format!("bert.pooler.dense.{rest}"),
        Some(("dense", rest)) => format!("classifier.dense.{rest}"),
        Some(("score", rest)) if is_bert => format!("classifier.{rest}"),
        Some(("score", rest)) => format!("classifier.out_proj.{rest}"),
        _ => format!("{}.{name}", if is_bert { "bert" } else { "roberta" }),
    };
    let weights = weights_of(if is_bert { 2 } else { 1 });
    let weights: HashMap<String, Tensor> =
        weights.into_iter().map(|(name, tensor)| (renamed(name), tensor)).collect();
    candle_core::safetensors::save(&weights, folder.0.join(WEIGHTS_FILE)).unwrap();
    folder
}

/// The scores come from an independent Python program: numpy, from the formulas of the model.
#[tokio::test]
async fn scores_match_the_reference() {
    for (kind, expected) in
        [("bert", [0.392_056, 0.388_019, 0.390_850]), ("xlm-roberta", [0.512_631, 0.517_351, 0.512_993])]
    {
        let folder = reranker(&format!("reference-{kind}"), kind);
        assert_eq!(crate::installed::inspect(&folder.0).unwrap(), crate::ModelKind::Rerank);
        let reranker = LocalReranker::open("judge@local", &folder.0).unwrap();
        let passages = ["text word", "a one two", ""].map(str::to_owned);
        let scores = reranker.rerank("one two", &passages).await.unwrap().scores;
        for (score, expected) in scores.iter().zip(expected) {
            assert!((score - expected).abs() < 2e-6, "{kind}: {scores:?}");
        }
    }
}

#[tokio::test]
async fn a_reranker_is_bounded_and_scores_are_independent() {
    let folder = reranker("bounded", "bert");
    let reranker = LocalReranker::open("judge@local", &folder.0).unwrap();
    assert_eq!(reranker.rerank("one", &[]).await.unwrap().scores, Vec::<f32>::new());
    let many: Vec<String> = (0..130).map(|at| "text ".repeat(at % 40)).collect();
    let scores = reranker.rerank("one two", &many).await.unwrap().scores;
    assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)));
    for (at, score) in scores.iter().enumerate() {
        assert!((score - scores[at % 40]).abs() < 1e-6, "{at}");
    }
    let long = ["word ".repeat(100_000), "字".repeat(50_000)];
    assert_eq!(reranker.rerank(&"one ".repeat(100_000), &long).await.unwrap().scores.len(), 2);
    // A model without a head has no scores.
    let folder = Folder::with_model("headless");
    let error = LocalReranker::open("x@local", &folder.0).unwrap().rerank("one", &long).await.unwrap_err();
    assert!(error.full().contains("there is no tensor `pooler.dense.weight`"), "{}", error.full());
}

#[tokio::test]
async fn prefixes_are_prepended() {
    let folder = Folder::with_model("prefixes");
    let plain = LocalEmbedder::open("x@local", &folder.0).unwrap();
    let with = LocalEmbedder::open("x@local", &folder.0).unwrap().with_prefixes("one ".into(), "two ".into());
    let text = ["text".to_owned()];
    for (purpose, prefix) in [(EmbeddingPurpose::Query, "one text"), (EmbeddingPurpose::Passage, "two text")]
    {
        let expected = plain.embed(EmbeddingPurpose::Query, &[prefix.to_owned()]).await.unwrap();
        assert_eq!(with.embed(purpose, &text).await.unwrap().vectors, expected.vectors);
    }
    std::fs::create_dir(folder.0.join("1_Pooling")).unwrap();
    folder.write(POOLING_FILE, &json!({"pooling_mode_cls_token": true}));
    let first = LocalEmbedder::open("x@local", &folder.0).unwrap();
    let (one, other) = (
        first.embed(EmbeddingPurpose::Query, &text).await.unwrap(),
        plain.embed(EmbeddingPurpose::Query, &text).await.unwrap(),
    );
    assert_ne!(one.vectors, other.vectors, "the first token is not the mean");
}

#[test]
fn batches_contain_every_text_once_within_limits() {
    let lengths = [10, 600, 500, 3, 2000, 256];
    assert_eq!(batches(&lengths), vec![vec![3, 0, 5], vec![2], vec![1], vec![4]]);
    assert_eq!(batches(&[]), Vec::<Vec<usize>>::new());
}

#[tokio::test]
async fn any_model_in_a_folder_keeps_the_contract() {
    let folder = Folder::with_model("contract");
    let embedder = LocalEmbedder::open("small@local", &folder.0).unwrap();
    assert_eq!((embedder.tokens_max(), embedder.dimensions()), (PLACES, WIDTH));
    embedder_keeps_its_contract(&embedder).await;
    let cut = LocalEmbedder::open("small@local", &folder.0).unwrap();
    let texts = ["one ".repeat(PLACES), "one ".repeat(PLACES * 9), String::new()];
    let embedded = cut.embed(EmbeddingPurpose::Query, &texts).await.unwrap();
    assert_eq!(embedded.vectors[0], embedded.vectors[1], "text beyond the window does not count");
    assert_eq!(embedded.tokens, 12 + 12 + 2);
    folder.write(SENTENCE_FILE, &json!({"max_seq_length": 5}));
    assert_eq!(LocalEmbedder::open("small@local", &folder.0).unwrap().tokens_max(), 5);
}

#[tokio::test]
async fn an_invalid_model_folder_is_reported() {
    let check = async |folder: &Folder, words: &str| {
        let error = match LocalEmbedder::open("small@local", &folder.0) {
            Ok(embedder) => embedder.embed(EmbeddingPurpose::Query, &["one".to_owned()]).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().contains(words), "{}", error.full());
    };
    let folder = Folder::with_model("wrong");
    folder.write(SHAPE_FILE, &json!({"model_type": "bert"}));
    check(&folder, "config.json").await;
    let mut other = shape();
    other["model_type"] = json!("gpt2");
    folder.write(SHAPE_FILE, &other);
    check(&folder, "`gpt2` with `gelu`").await;
    for (key, value) in
        [("num_attention_heads", 0), ("num_attention_heads", 5), ("max_position_embeddings", 0)]
    {
        let mut other = shape();
        other[key] = json!(value);
        folder.write(SHAPE_FILE, &other);
        check(&folder, "config.json").await;
    }
    let mut larger = shape();
    larger["num_hidden_layers"] = json!(LAYERS + 1);
    folder.write(SHAPE_FILE, &larger);
    check(&folder, "there is no tensor `encoder.layer.2").await;
    let mut wider = shape();
    wider["max_position_embeddings"] = json!(PLACES + 1);
    folder.write(SHAPE_FILE, &wider);
    check(&folder, "but 10 tokens and 13 positions").await;
    folder.write(SHAPE_FILE, &shape());
    folder.write(TOKENIZER_FILE, &json!({}));
    check(&folder, "tokenizer.json").await;
    let mut larger = tokenizer();
    larger["model"]["vocab"]["more"] = json!(WORDS.len());
    folder.write(TOKENIZER_FILE, &larger);
    check(&folder, "11 tokens").await;
    std::fs::write(folder.0.join(WEIGHTS_FILE), "no weights").unwrap();
    check(&folder, "model.safetensors").await;
    std::fs::remove_file(folder.0.join(WEIGHTS_FILE)).unwrap();
    check(&folder, "scripts/local-embedder").await;
}

/// The folder where `scripts/local-embedder` puts the real model.
#[expect(clippy::disallowed_methods, reason = "a test looks where the script puts things")]
fn installed() -> Option<PathBuf> {
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share"));
    let folder = data.or_else(home)?.join("weft/models/all-minilm-l6-v2");
    folder.join(WEIGHTS_FILE).is_file().then_some(folder)
}

/// `tests/data/minilm.json` has the first numbers of the model's own program.
#[tokio::test]
async fn minilm_vectors_match_the_reference() {
    let Some(folder) = installed() else {
        weft_testkit::skipped("`scripts/local-embedder` has not been run here");
        return;
    };
    let embedder = LocalEmbedder::open("all-minilm-l6-v2@local", folder).unwrap();
    assert_eq!((embedder.tokens_max(), embedder.dimensions()), (256, 384));
    let expected: Json = serde_json::from_str(include_str!("../../tests/data/minilm.json")).unwrap();
    let rows = expected["texts"].as_array().unwrap();
    let texts: Vec<String> = rows.iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect();
    let found = embedder.embed(EmbeddingPurpose::Passage, &texts).await.unwrap();
    for (row, vector) in rows.iter().zip(&found.vectors) {
        let numbers: Vec<f32> = serde_json::from_value(row["numbers"].clone()).unwrap();
        let apart = numbers.iter().zip(vector).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5, "{}: {apart}", row["text"]);
    }
    let cosine: f32 = found.vectors[0].iter().zip(&found.vectors[1]).map(|(a, b)| a * b).sum();
    let near: f32 = serde_json::from_value(expected["near"]["cosine"].clone()).unwrap();
    assert!((cosine - near).abs() < 1e-5, "{cosine} {near}");
    similar_texts_have_similar_vectors(&embedder).await;
}
