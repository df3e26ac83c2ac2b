//! Sources of an answer, on every route that returns them.

use serde_json::{Value as Json, json};
use weft_testkit::{Reply, Script};

use crate::support::{Bench, begin, bench, component};

fn canvas(dataset: &str) -> Json {
    let retrieval = json!({"query": "{sys.query}", "dataset_ids": [dataset], "similarity_threshold": 0.1});
    let model = json!({
        "llm_id": "m", "cite": true, "sys_prompt": "{Retrieval:R@formalized_content}",
        "prompts": [{"role": "user", "content": "{sys.query}"}],
    });
    json!({"components": {
        "begin": begin("", "Retrieval:R"),
        "Retrieval:R": component("Retrieval", &retrieval, &["LLM:A"]),
        "LLM:A": component("LLM", &model, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{LLM:A@content}"]}), &[]),
    }})
}

/// An agent whose answer cites the only line of the only document.
async fn agent() -> (Bench, String) {
    let bench = bench(Script::new().reply(Reply::text("In April [ID:0].").always())).await;
    let dataset = bench.dataset("river").await;
    let document = bench.document(&dataset, "herons.txt", "Herons nest in April.").await;
    bench.read(&dataset, &[&document]).await;
    let id = bench.store("Cites", canvas("river")).await;
    (bench, id)
}

/// Asserts that the source is that line, with its position.
#[track_caller]
fn is_the_line(source: &Json) {
    assert_eq!(source["content"], "Herons nest in April.", "{source}");
    assert_eq!(source["document_name"], "herons.txt");
    assert_eq!(source["positions"], json!([[1, 1.0, 2.0, 3.0, 4.0]]));
}

#[tokio::test]
async fn every_route_returns_the_position_of_a_source() {
    let (bench, id) = agent().await;
    let asked = |stream: bool| json!({"query": "When do herons nest?", "stream": stream});
    let path = format!("/api/v1/agents/{id}/completions");
    let stream = bench.post(&path, asked(true)).await;
    let end = stream.frames().into_iter().find(|frame| frame.event() == "message_end").unwrap().json();
    is_the_line(&end["data"]["reference"]["chunks"]["0"]);

    let whole = bench.post(&path, asked(false)).await.data();
    is_the_line(&whole["data"]["reference"]["chunks"]["0"]);
    let session = whole["session_id"].as_str().unwrap();

    let session = bench.get(&format!("/api/v1/agents/{id}/sessions/{session}")).await.data();
    let retrieval = &session["dsl"]["retrieval"];
    is_the_line(&retrieval[0]["chunks"]["0"]);
    let documents = &retrieval[0]["doc_aggs"]["herons.txt"];
    assert_eq!(
        (&documents["doc_name"], &documents["count"]),
        (&json!("herons.txt"), &json!(1)),
        "{retrieval}"
    );
    assert_eq!(retrieval.as_array().unwrap().len(), 1, "one entry per turn");
    let said = session["message"].as_array().unwrap().last().unwrap();
    is_the_line(&said["reference"][0]);
}

#[tokio::test]
async fn openai_clients_get_the_position_of_a_source() {
    let (bench, id) = agent().await;
    let path = format!("/api/v1/agents_openai/{id}/chat/completions");
    let asked = |stream: bool| {
        let messages = json!([{"role": "user", "content": "When do herons nest?"}]);
        json!({"model": "any", "messages": messages, "stream": stream})
    };
    let whole = bench.post(&path, asked(false)).await.json();
    is_the_line(&whole["choices"][0]["message"]["reference"]["chunks"]["0"]);
    let stream = bench.post(&path, asked(true)).await;
    let deltas = stream.frames().into_iter().map(|frame| frame.json()["choices"][0]["delta"].clone());
    let reference = deltas.map(|delta| delta["reference"].clone()).find(Json::is_object).unwrap();
    is_the_line(&reference["chunks"]["0"]);
}
