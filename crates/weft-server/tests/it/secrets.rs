//! What is secret in a canvas is used where the canvas uses it, and nobody is told.

use serde_json::{Value as Json, json};
use weft_core::seam::RunStore as _;
use weft_core::{RunId, RunKey};
use weft_testkit::{Reply, Script};

use crate::support::{Bench, begin, bench, component, default_tenant, said};

const TOKEN: &str = "open-sesame-4711";
const DECLARED: &str = "rosebud-0815";

/// A token in a header, a variable that is declared secret, and everything that could repeat them.
fn canvas() -> Json {
    let call = json!({
        "url": "http://127.0.0.1:9/{env.pin}", "headers": {"Authorization": "Bearer {env.token}"},
        "exception_method": "comment", "exception_default_value": "down",
    });
    let model = json!({
        "llm_id": "m", "cite": false, "sys_prompt": "Use {env.token} and {env.pin}.",
        "prompts": [{"role": "user", "content": "{sys.query}"}],
    });
    let merge = json!({"method": "merge", "script": "<{env.token}|{env.pin}>"});
    json!({
        "components": {
            "begin": begin("", "Invoke:I"),
            "Invoke:I": component("Invoke", &call, &["StringTransform:S"]),
            "StringTransform:S": component("StringTransform", &merge, &["LLM:A"]),
            "LLM:A": component("LLM", &model, &["Message:M"]),
            "Message:M": component("Message", &json!({"content": ["{StringTransform:S@result} {LLM:A@content}"]}), &[]),
        },
        "variables": {
            "token": {"type": "string", "value": TOKEN},
            "pin": {"type": "secret", "value": DECLARED},
        },
    })
}

#[track_caller]
fn tells_nothing(text: &str) {
    for secret in [TOKEN, DECLARED] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

async fn journal(bench: &Bench, run: &str) -> String {
    let key = RunKey::new(&default_tenant(), RunId::from(run));
    let entries = bench.store.entries(&key, 0, 1_000).await.unwrap();
    assert!(!entries.is_empty());
    entries.iter().map(|entry| entry.record.to_string()).collect()
}

#[tokio::test]
async fn no_route_no_prompt_and_no_journal_holds_a_secret() {
    let bench = bench(Script::new().reply(Reply::text("fine").always())).await;
    let id = bench.store("Secrets", canvas()).await;
    let path = format!("/api/v1/agents/{id}/completions");
    let stream = bench.post(&path, json!({"question": "Q", "stream": true})).await;
    tells_nothing(&stream.text);
    assert_eq!(said(&stream.frames()), "<***|***> fine");
    let finished = stream.frames().into_iter().find(|frame| {
        let frame = frame.json();
        frame["event"] == "node_finished" && frame["data"]["component_id"] == "Invoke:I"
    });
    assert_eq!(finished.unwrap().json()["data"]["inputs"]["env.token"], "***");
    tells_nothing(
        &bench.post(&path, json!({"question": "Q", "stream": false, "return_trace": true})).await.text,
    );
    let openai = json!({"model": "m", "messages": [{"role": "user", "content": "Q"}], "stream": false});
    tells_nothing(&bench.post(&format!("/api/v1/agents_openai/{id}/chat/completions"), openai).await.text);
    let first = stream.frames()[0].json();
    let (run, session) = (first["message_id"].as_str().unwrap(), first["session_id"].as_str().unwrap());
    let read = bench.get(&format!("/api/v1/agents/{id}/sessions/{session}")).await.json();
    assert_eq!(read["data"]["messages"][1]["content"], "<***|***> fine", "{read}");
    tells_nothing(&journal(&bench, run).await);
    let asked = bench.model.requests();
    assert!(!asked.is_empty());
    for request in asked {
        let text: String = request.messages.iter().map(|message| message.text.as_str()).collect();
        tells_nothing(&text);
        assert!(text.contains("Use *** and ***."), "{text}");
    }
}
