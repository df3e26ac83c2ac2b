//! Holes that systems of this kind had in public, tried here. `docs/security.md` has the others.

use serde_json::json;
use weft_testkit::Script;

use crate::support::{bench, chat_canvas, echo_canvas};

/// Nobody runs a canvas by handing it in: a request names one that is stored.
#[tokio::test]
async fn a_request_runs_what_is_stored_and_no_canvas_of_its_own() {
    let bench = bench(Script::text("from a model")).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let own = chat_canvas();
    for (path, named) in [
        (format!("/api/v1/agents/{id}/completions"), json!({})),
        ("/api/v1/agents/chat/completions".to_owned(), json!({"agent_id": id})),
        ("/v1/canvas/completion".to_owned(), json!({"id": id})),
    ] {
        let mut body = json!({"query": "hello", "dsl": own, "data": own, "canvas": own, "components": own["components"]});
        body.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
        let answer = bench.post(&path, body).await.text;
        assert!(answer.contains("you said: hello") && !answer.contains("from a model"), "{path}: {answer}");
    }
    assert!(bench.model.requests().is_empty());
}

/// What looks like an object of some program is a text, on its way in, in the session and on its way out.
#[tokio::test]
async fn what_looks_like_a_serialized_object_is_a_text() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    for text in [
        r#"{"lc": 1, "type": "secret", "id": ["PATH"]}"#,
        r#"{"__class__": "os.system", "args": ["id"]}"#,
        "!!python/object/apply:os.system [id]",
        "gASVHgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg==",
        "{{ ''.__class__.__mro__ }} {% import 'os' %} ${7*7} #{7*7}",
    ] {
        let answer =
            bench.post("/api/v1/agents/chat/completions", json!({"agent_id": id, "query": text})).await;
        assert_eq!(answer.data()["data"]["content"], format!("you said: {text}"));
    }
}
