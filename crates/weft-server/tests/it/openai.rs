//! Agents behind OpenAI's chat completions API.

use axum::body::Body;
use serde_json::{Value as Json, json};
use weft_testkit::{Reply, Script};

use crate::support::{Reading, bench, chat_canvas, echo_canvas};

fn request(content: &str) -> Json {
    json!({"model": "any", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": content}]})
}

#[tokio::test]
async fn whole_and_streamed_answers_have_one_id() {
    let bench = bench(Script::new().reply(Reply::pieces(["Par", "is"]).usage(3, 5).always())).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let path = format!("/api/v1/agents_openai/{id}/chat/completions");
    let whole = bench.post(&path, request("capital?")).await.json();
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["choices"][0]["message"]["content"], "Paris");
    assert_eq!((&whole["model"], &whole["usage"]["total_tokens"]), (&json!(id), &json!(8)));

    let mut body = request("capital?");
    body["stream"] = json!(true);
    body["id"] = whole["id"].clone();
    let stream = bench.post(&path, body).await;
    assert!(
        stream.text.contains("\ndata: {") && stream.text.ends_with("\n\ndata: [DONE]\n\n"),
        "{}",
        stream.text
    );
    let frames = stream.frames();
    let chunks: Vec<_> = frames[..frames.len() - 1].iter().map(|frame| frame.json()).collect();
    assert!(
        chunks.iter().all(|chunk| chunk["id"] == whole["id"] && chunk["object"] == "chat.completion.chunk")
    );
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "Paris");
    let last = chunks.last().unwrap();
    assert_eq!(
        (&last["choices"][0]["finish_reason"], &last["usage"]["total_tokens"]),
        (&json!("stop"), &json!(8))
    );
    assert_eq!(last["usage"], whole["usage"], "the same fields, those that are zero included");
    let texts: Vec<_> =
        bench.model.requests()[1].messages.iter().map(|message| message.text.clone()).collect();
    assert!(texts.contains(&"Paris".to_owned()), "the session continued: {texts:?}");
}

#[tokio::test]
async fn errors_come_in_both_formats() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let path = format!("/api/v1/agents_openai/{id}/chat/completions");
    let check = async |path: &str, body: Json, (code, status): (u64, u16), words: &str| {
        let answer = bench.post(path, body).await;
        assert_eq!(answer.status, status);
        let refused = answer.json();
        assert_eq!(refused["code"], code, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(words), "{refused}");
        assert_eq!(refused["error"]["message"], refused["message"]);
    };
    check(&path, json!({}), (101, 400), "required argument are missing: model,messages; ").await;
    check(&path, json!({"model": "m", "messages": []}), (102, 400), "You must provide at least one message.")
        .await;
    check(&path, json!({"model": "m", "messages": "x"}), (101, 400), "messages").await;
    let number = json!({"model": "m", "messages": [{"role": "user", "content": 5}]});
    check(&path, number, (102, 400), "The content of a message must be a text or a list of parts.").await;
    check(
        "/api/v1/agents_openai/gone/chat/completions",
        request("x"),
        (102, 404),
        "You don't own the agent gone",
    )
    .await;
    let mut body = request("x");
    body["session_id"] = json!("gone");
    check(&path, body, (102, 404), "Session not found!").await;
    let nobody = json!({"model": "m", "messages": [{"role": "system", "content": "x"}]});
    let answer = bench.post(&path, nobody).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "No valid messages found (user or assistant).");
    let newer = json!({"agent_id": id, "openai-compatible": true, "model": "m", "messages": [{"role": "user", "content": "yes"}]});
    let answer = bench.post("/api/v1/agents/chat/completions", newer).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "you said: yes");
    let empty = json!({"agent_id": id, "openai-compatible": true, "model": "m", "messages": []});
    let refused = bench.post("/api/v1/agents/chat/completions", empty).await;
    assert_eq!(refused.status.as_u16(), 200, "a native route reports errors in its code");
    assert_eq!(refused.json()["error"]["message"], "You must provide at least one message.");
    assert_eq!(refused.refusal().0, 102);
}

/// OpenAI's libraries look only at the status, also of requests that no handler sees.
#[tokio::test]
async fn requests_that_cannot_be_read_are_errors_in_both_formats() {
    let bench = bench(Script::new()).await;
    let check = |answer: &Reading, (status, code): (u16, u64), words: &str| {
        assert_eq!(answer.status, status, "{words}: {}", answer.text);
        let (told, message) = answer.refusal();
        assert!(told == code && message.contains(words), "{words}: {}", answer.text);
        assert_eq!(answer.json()["error"]["message"], message);
    };
    let asked = [
        "/api/v1/agents_openai/x/chat/completions",
        "/api/v1/openai/x/chat/completions",
        "/api/v1/chats_openai/x/chat/completions",
        "/v1/responses",
        "/api/v1/responses",
    ];
    for path in asked.iter().copied().chain(["/api/v1/agents/x/ag-ui"]) {
        for (header, value, body, words) in [
            ("content-type", "application/json", "{\"model\": ", "Malformed JSON syntax"),
            ("content-type", "application/json", "[]", "expected object, got list"),
            ("content-type", "application/json", "\"model\"", "expected object, got str"),
            ("content-type", "text/plain", "{}", "Unsupported content type"),
            ("content-encoding", "gzip", "{}", "the body is compressed (gzip)"),
        ] {
            let mut request = bench.request("POST", path, &Json::Null);
            request.headers_mut().insert(header, value.parse().unwrap());
            *request.body_mut() = Body::from(body);
            check(&bench.send(request).await, (400, 101), words);
        }
        check(&bench.with("wrong").post(path, json!({})).await, (401, 401), "401: Unauthorized");
    }
    for path in asked {
        check(&bench.get(path).await, (405, 100), "Method Not Allowed");
    }
    check(&bench.ask("PUT", "/v1/responses/x", json!({})).await, (405, 100), "Method Not Allowed");
    check(&bench.get("/v1/responses/x/cancel").await, (405, 100), "Method Not Allowed");
    check(&bench.get("/v1/responses/%FF").await, (400, 101), "the path of the request is not valid");
}

/// A waiting run tells text-only clients what it asks and how to answer.
#[tokio::test]
async fn a_waiting_run_describes_its_question() {
    let bench = bench(Script::new()).await;
    let field = json!({"name": "Allow it?", "type": "approval", "tool": "delete_file",
        "arguments": {"path": "a"}, "options": ["approve", "deny"], "optional": false});
    let params = json!({"approve": {"call_1": field}});
    let id = bench.store("Asks", crate::rehearsal::canvas(&params)).await;
    let path = format!("/api/v1/agents_openai/{id}/chat/completions");
    let whole = bench.post(&path, request("q")).await.json();
    let content = whole["choices"][0]["message"]["content"].as_str().unwrap();
    let session = whole["weft"]["session_id"].as_str().unwrap();
    let line = r#"- call_1 (approve | deny): Allow it? delete_file {"path":"a"}"#;
    let how = format!(r#""session_id": "{session}" and "inputs": {{"Agent:A":{{"call_1":"…"}}}}"#);
    assert!(content.contains(line) && content.contains(&how), "{content}");
    let mut forms = whole["weft"]["forms"].clone();
    assert_eq!((&whole["weft"]["status"], &forms[0]["component_id"]), (&json!("waiting"), &json!("Agent:A")));

    let mut body = request("q");
    body["stream"] = json!(true);
    let stream = bench.post(&path, body).await;
    let frames = stream.frames();
    let chunks: Vec<_> = frames[..frames.len() - 1].iter().map(|frame| frame.json()).collect();
    assert!(stream.text.contains("- call_1 (approve | deny)"), "{}", stream.text);
    // Another run has other task ids.
    let mut told = chunks.last().unwrap()["weft"]["forms"].clone();
    assert_ne!(told[0]["tasks"], forms[0]["tasks"]);
    forms[0]["tasks"] = told[0]["tasks"].take();
    told[0]["tasks"] = forms[0]["tasks"].clone();
    assert_eq!(told, forms);

    let mut body = request("ok");
    body["session_id"] = json!(session);
    body["inputs"] = json!({"Agent:A": {"call_1": "approve"}});
    let answer = bench.post(&path, body).await.json();
    assert!(
        answer["choices"][0]["message"]["content"].as_str().unwrap().contains("call_1: approve"),
        "{answer}"
    );
    assert!(answer.get("weft").is_none());
}
