//! `weft models`.

use serde_json::json;

use crate::weft::Home;

/// The files of a model; `weft models add` reads only their beginning.
fn files(home: &Home, folder: &str, config: &serde_json::Value, tensors: &serde_json::Value) {
    std::fs::create_dir_all(home.path().join(folder)).unwrap();
    home.write(&format!("{folder}/config.json"), config.to_string());
    home.write(&format!("{folder}/tokenizer.json"), "{}");
    let header = tensors.to_string();
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header.bytes());
    home.write(&format!("{folder}/model.safetensors"), weights);
}

#[test]
fn models_are_added_and_listed() {
    let home = Home::new();
    let shape = json!({"model_type": "bert", "hidden_act": "gelu", "hidden_size": 4, "num_attention_heads": 1,
        "num_hidden_layers": 0, "max_position_embeddings": 9, "layer_norm_eps": 1e-12});
    let mut judge = shape.clone();
    judge["architectures"] = json!(["BertForSequenceClassification"]);
    let words = json!({"shape": [9, 4]});
    files(&home, "minilm", &shape, &json!({"embeddings.word_embeddings.weight": words}));
    files(
        &home,
        "judge",
        &judge,
        &json!({"bert.embeddings.word_embeddings.weight": words, "classifier.weight": {"shape": [1, 4]}}),
    );
    home.weft(&["models", "list"]).with(0).says(&["no models are configured"]);
    home.weft(&["models", "add", "judge"]).with(0).says(&["added the reranker `judge@local`", "next start"]);
    home.weft(&["models", "add", "./minilm/", "--name", "small", "--default"])
        .with(0)
        .says(&["added the embedder `small@local`"]);
    let listed = home.weft(&["models", "list", "--json"]).with(0).json_lines();
    let shown: Vec<_> = listed.iter().map(|one| (&one["name"], &one["kind"], &one["default"])).collect();
    assert_eq!(
        shown,
        [
            (&json!("judge@local"), &json!("rerank"), &json!(true)),
            (&json!("small@local"), &json!("embedding"), &json!(true))
        ]
    );
    // The source files are not needed any more.
    std::fs::remove_dir_all(home.path().join("minilm")).unwrap();
    assert!(home.weft(&["models", "list"]).with(0).stdout.contains("embedding   small@local (default)"));
    home.weft(&["models", "add", "judge"]).with(2).says(&["a model `judge` already exists", "--name"]);
    home.weft(&["models", "add", "nowhere"]).with(2).says(&["there is no folder nowhere"]);
    std::fs::remove_file(home.path().join("judge/model.safetensors")).unwrap();
    home.write("judge/pytorch_model.bin", "x");
    home.weft(&["models", "add", "judge", "--name", "x"])
        .with(2)
        .says(&["there is no model.safetensors", "save_pretrained"]);
}
