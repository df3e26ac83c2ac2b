//! Vulnerabilities that are publicly known in similar systems, tested here. `docs/security.md` has the others.

use serde_json::json;
use weft_testkit::Script;

use crate::support::{bench, chat_canvas, echo_canvas};

/// A request cannot bring its own canvas: it names a stored one.
#[tokio::test]
async fn a_request_runs_only_stored_canvases() {
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

/// Text that looks like a serialized object stays text: in the request, in the session and in the response.
#[tokio::test]
async fn text_that_looks_like_a_serialized_object_stays_text() {
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
