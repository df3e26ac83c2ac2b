//! The list of models, and answers without a generative model.

use serde_json::{Value as Json, json};
use weft_app::{Config, assemble_in_memory};
use weft_testkit::Script;

use crate::support::{Bench, bench};

/// Row 29: by kind, with what a caller needs and nothing secret.
#[tokio::test]
async fn models_are_listed_by_kind_without_their_keys() {
    let config: Config = toml::from_str(
        r#"
        [[models.entries]]
        name = "fast"
        provider = "openai"
        factory = "DeepSeek"
        base_url = "http://127.0.0.1:9/secret-path"
        model = "qwen3-8b"
        api_key = "sk-very-secret"
        window = 32768
        tools = true
        prices = { prompt = 0.5, completion = 2.0 }

        [[models.entries]]
        name = "plain"
        provider = "extractive"

        [[models.entries]]
        name = "e5"
        provider = "openai"
        kind = "embedding"
        base_url = "http://127.0.0.1:9"
        "#,
    )
    .unwrap();
    let app = assemble_in_memory(&config).await.unwrap();
    let plain = bench(Script::new()).await;
    let token = app.first_token().await.unwrap().unwrap().reveal().to_owned();
    let router = weft_server::router::router(
        weft_server::state::ServerState::new(app.clone(), weft_app::Auth::On).unwrap(),
    );
    let bench = Bench { app, router, token, ..plain };
    let answer = bench.get("/api/v1/models").await;
    let models = answer.data();
    let kinds: Vec<_> = models.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(kinds.len(), 7, "{models}");
    let fast = models["chat"].as_array().unwrap().iter().find(|model| model["name"] == "fast").unwrap();
    let expected = json!({"name": "fast", "provider": "openai", "model": "qwen3-8b", "window": 32768, "tools": true,
        "kind": "chat", "prices": {"prompt": 0.5, "completion": 2.0}});
    assert_eq!(*fast, expected);
    assert_eq!(models["embedding"][0]["name"], "e5");
    assert_eq!(models["rerank"], Json::Array(Vec::new()));
    assert!(!answer.text.contains("secret"), "{}", answer.text);
    let nobody = Bench { token: "wrong".to_owned(), ..bench };
    assert_eq!(nobody.get("/api/v1/models").await.status, 401);
}

/// From the second question on, a model rewrites the question for the search. One that only quotes would return other
/// text, which would then be searched for.
#[tokio::test]
async fn a_model_that_only_quotes_does_not_rewrite_questions() {
    let config: Config =
        toml::from_str("[[models.entries]]\nname = \"plain\"\nprovider = \"extractive\"\n").unwrap();
    let app = assemble_in_memory(&config).await.unwrap();
    let plain = bench(Script::new()).await;
    let token = app.first_token().await.unwrap().unwrap().reveal().to_owned();
    let router = weft_server::router::router(
        weft_server::state::ServerState::new(app.clone(), weft_app::Auth::On).unwrap(),
    );
    let bench = Bench { app, router, token, ..plain };
    let dataset = bench.dataset("Docs").await;
    let document = bench.document(&dataset, "a.txt", "The quick fox jumps.").await;
    let chunks = format!("{dataset}/documents/{document}/chunks");
    bench.post(&chunks, json!({"content": "The quick fox jumps."})).await.data();
    let id = dataset.rsplit('/').next().unwrap();
    let chat = bench.post("/api/v1/chats", json!({"name": "C", "dataset_ids": [id]})).await.data();
    let chat = format!("/api/v1/chats/{}", chat["id"].as_str().unwrap());
    let session = bench.post(&format!("{chat}/sessions"), json!({"name": "S"})).await.data()["id"].clone();
    for _ in 0..2 {
        let asked = json!({"question": "the quick fox", "session_id": session, "stream": false});
        let answer = bench.post(&format!("{chat}/completions"), asked).await.data();
        assert!(answer["answer"].as_str().unwrap().contains("The quick fox jumps."), "{answer}");
    }
}
