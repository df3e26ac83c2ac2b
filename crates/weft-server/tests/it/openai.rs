//! Agents behind the shapes of OpenAI's chat completions.

use serde_json::{Value as Json, json};
use weft_testkit::{Reply, Script};

use crate::support::{bench, chat_canvas, echo_canvas};

fn request(content: &str) -> Json {
    json!({"model": "any", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": content}]})
}

#[tokio::test]
async fn an_answer_in_one_piece_and_a_stream_with_one_id() {
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
    let texts: Vec<_> =
        bench.model.requests()[1].messages.iter().map(|message| message.text.clone()).collect();
    assert!(texts.contains(&"Paris".to_owned()), "the session went on: {texts:?}");
}

#[tokio::test]
async fn refusals_come_in_both_shapes() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let path = format!("/api/v1/agents_openai/{id}/chat/completions");
    let check = async |path: &str, body: Json, code: u64, words: &str| {
        let refused = bench.post(path, body).await.json();
        assert_eq!(refused["code"], code, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(words), "{refused}");
        assert_eq!(refused["error"]["message"], refused["message"]);
    };
    check(&path, json!({}), 101, "required argument are missing: model,messages; ").await;
    check(&path, json!({"model": "m", "messages": []}), 102, "You must provide at least one message.").await;
    check(&path, json!({"model": "m", "messages": "x"}), 101, "messages").await;
    check("/api/v1/agents_openai/gone/chat/completions", request("x"), 102, "You don't own the agent gone")
        .await;
    let mut body = request("x");
    body["session_id"] = json!("gone");
    check(&path, body, 102, "Session not found!").await;
    let nobody = json!({"model": "m", "messages": [{"role": "system", "content": "x"}]});
    let answer = bench.post(&path, nobody).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "No valid messages found (user or assistant).");
    let newer = json!({"agent_id": id, "openai-compatible": true, "model": "m", "messages": [{"role": "user", "content": "yes"}]});
    let answer = bench.post("/api/v1/agents/chat/completions", newer).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "you said: yes");
}
