//! Services and models that read pictures.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json as Body, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;
use weft_core::{ErrorKind, TenantId};
use weft_models::{Directory, ModelsConfig};
use weft_testkit::contracts::picture_reader::{
    BLANK, LINES, WORDS, picture, picture_reader_keeps_its_contract,
};

/// How a server treats a picture.
#[derive(Clone, Copy)]
enum Does {
    /// It knows the two pictures of the contract.
    Reads,
    /// It never answers.
    Hangs,
    /// It gives this answer.
    Says(&'static str),
}

fn paddle(bytes: &[u8]) -> (StatusCode, Json) {
    let (texts, boxes): (Vec<&str>, Vec<[i32; 4]>) = match bytes {
        WORDS => (LINES.to_vec(), vec![[40, 30, 300, 70], [40, 130, 270, 155], [40, 170, 270, 195]]),
        BLANK => (Vec::new(), Vec::new()),
        _ => {
            let said = json!({"logId": "1", "errorCode": 422, "errorMsg": "Input image is corrupted"});
            return (StatusCode::UNPROCESSABLE_ENTITY, said);
        }
    };
    let pruned = json!({"rec_texts": texts, "rec_boxes": boxes, "rec_scores": [0.9]});
    let result = json!({
        "ocrResults": [{"prunedResult": pruned, "ocrImage": null}],
        "dataInfo": {"width": 600, "height": 300, "type": "image"},
    });
    (StatusCode::OK, json!({"logId": "1", "errorCode": 0, "errorMsg": "Success", "result": result}))
}

fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}

async fn ocr(State(does): State<Does>, Body(body): Body<Json>) -> (StatusCode, String) {
    match does {
        Does::Reads => {
            assert_eq!(body["fileType"], 1);
            let (status, said) = paddle(&decoded(body["file"].as_str().unwrap()));
            (status, said.to_string())
        }
        Does::Hangs => std::future::pending().await,
        Does::Says(text) => (StatusCode::OK, text.to_owned()),
    }
}

/// A vision model.
async fn chat(Body(body): Body<Json>) -> (StatusCode, String) {
    let parts = body["messages"][1]["content"].as_array().unwrap();
    let url = parts.iter().find_map(|part| part["image_url"]["url"].as_str()).unwrap();
    let bytes = decoded(url.strip_prefix("data:image/png;base64,").unwrap());
    let text = match bytes.as_slice() {
        WORDS => LINES.join("\n"),
        BLANK => "EMPTY".to_owned(),
        _ => return (StatusCode::BAD_REQUEST, json!({"error": {"message": "bad image"}}).to_string()),
    };
    let delta = json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]});
    let told =
        json!({"choices": [], "usage": {"prompt_tokens": 300, "completion_tokens": 7, "total_tokens": 307}});
    (StatusCode::OK, format!("data: {delta}\n\ndata: {told}\n\ndata: [DONE]\n\n"))
}

/// Its URL, and the server task.
async fn server(does: Does) -> (String, JoinSet<()>) {
    let router =
        Router::new().route("/ocr", post(ocr)).route("/v1/chat/completions", post(chat)).with_state(does);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (format!("http://{address}"), serving)
}

fn directory(entries: &Json) -> Directory {
    let config: ModelsConfig = serde_json::from_value(json!({"entries": entries})).unwrap();
    Directory::open(&config, &weft_net::operator_client().unwrap()).unwrap()
}

#[tokio::test]
async fn a_service_keeps_the_contract() {
    let (url, _serving) = server(Does::Reads).await;
    let models = directory(&json!([{"name": "paddle", "kind": "ocr", "base_url": url, "retries": 0}]));
    let reader = models.picture_reader("paddle").unwrap();
    picture_reader_keeps_its_contract(&*reader).await;
    let lines = reader.read(&"t".into(), &picture(WORDS, 600, 300)).await.unwrap();
    let place = lines[0].place.unwrap();
    assert_eq!((place.left, place.right, place.top), (40.0 / 600.0, 0.5, 0.1));
}

#[tokio::test]
async fn a_vision_model_keeps_the_contract() {
    let (url, _serving) = server(Does::Reads).await;
    let url = format!("{url}/v1");
    let models = directory(&json!([{"name": "eyes", "kind": "vision", "base_url": url, "retries": 0}]));
    let eyes = models.picture_reader("eyes").unwrap();
    picture_reader_keeps_its_contract(&*eyes).await;
    let counted = eyes.read_counted(&"t".into(), &picture(WORDS, 600, 300)).await.unwrap();
    assert_eq!(counted.given.len(), LINES.len());
    let usage = counted.usage;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.calls), (300, 7, 1));
}

#[tokio::test]
async fn a_slow_or_faulty_service_is_bounded() {
    let (url, _serving) = server(Does::Hangs).await;
    let entry = json!([{"name": "o", "kind": "ocr", "base_url": url, "retries": 0, "answer_seconds": 0.2}]);
    let reader = directory(&entry).picture_reader("o").unwrap();
    let (words, tenant) = (picture(WORDS, 600, 300), TenantId::new("t"));
    let asked = reader.read(&tenant, &words);
    let error = tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    for (answer, kind) in [
        ("not json", ErrorKind::Garbled),
        ("{\"errorCode\": 7, \"errorMsg\": \"no\"}", ErrorKind::Invalid),
        ("{\"result\": {\"ocrResults\": 3}}", ErrorKind::Garbled),
    ] {
        let (url, _serving) = server(Does::Says(answer)).await;
        let entry = json!([{"name": "o", "kind": "ocr", "base_url": url, "retries": 0}]);
        let error = directory(&entry)
            .picture_reader("o")
            .unwrap()
            .read(&"t".into(), &picture(WORDS, 1, 1))
            .await
            .unwrap_err();
        assert_eq!(error.kind, kind, "{answer}");
    }
    // Invalid boxes are ignored, and texts still count.
    let odd = r#"{"result": {"ocrResults": [{"prunedResult": {"rec_texts": ["a", "b"], "rec_boxes": [[1, 2, 3, 4]]}}]}}"#;
    let (url, _serving) = server(Does::Says(odd)).await;
    let models = directory(&json!([{"name": "o", "kind": "ocr", "base_url": url}]));
    let lines =
        models.picture_reader("o").unwrap().read(&"t".into(), &picture(WORDS, 600, 300)).await.unwrap();
    assert_eq!((lines.len(), lines[0].place), (2, None));
}

#[tokio::test]
async fn a_model_without_vision_is_refused_by_name() {
    let models = directory(&json!([{"name": "quoter", "provider": "extractive"}]));
    for name in ["quoter", "nobody"] {
        let error = models.picture_reader(name).err().unwrap();
        assert!(
            error.full().contains("documents.ocr") && error.full().contains("vision"),
            "{}",
            error.full()
        );
    }
    let config: ModelsConfig =
        serde_json::from_value(json!({"entries": [{"name": "o", "kind": "ocr"}]})).unwrap();
    let error = Directory::open(&config, &weft_net::operator_client().unwrap()).err().unwrap();
    assert!(error.full().contains("base_url"), "{}", error.full());
}
