//! Non-standard but common behaviour of OpenAI-compatible servers.

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use tokio::task::JoinSet;
use weft_core::ErrorKind;
use weft_core::seam::chat_model::{ChatRequest, StopReason};
use weft_models::{ModelEntry, Provider};
use weft_testkit::{Script, ScriptedServer, Wire};

use crate::{Transcript, asked, model, open, read};

/// The result of an answer that is exactly these bytes.
async fn made_of(content_type: &'static str, body: &'static str) -> (Transcript, Option<ErrorKind>) {
    let router = Router::new()
        .fallback(move || async move { ([(CONTENT_TYPE, content_type)], Body::from(body)).into_response() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut entry = ModelEntry::new("m", Provider::OpenAi);
    entry.base_url = Some(format!("http://{}/v1/", listener.local_addr().unwrap()));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    let model = open(vec![entry]).unwrap().resolve_with_notice("").unwrap().0;
    let (seen, error) = read(&*model, ChatRequest { retries_max: Some(0), ..asked("hi there") }).await;
    (seen, error.map(|error| error.kind))
}

const SSE: &str = "text/event-stream";

#[tokio::test]
async fn an_unstreamed_answer_is_accepted() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"<think>a</think>b","tool_calls":[
        {"id":"x","type":"function","function":{"name":"t","arguments":"{}"}}]},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let (seen, error) = made_of("application/json", body).await;
    assert_eq!(error, None);
    assert_eq!((seen.text.as_str(), seen.thinking.as_str(), seen.calls.len()), ("b", "a", 1));
    assert_eq!(seen.end.unwrap().0, StopReason::ToolCalls);
    assert_eq!(
        made_of("application/json", r#"{"error":{"message":"no"}}"#).await.1,
        Some(ErrorKind::Unavailable)
    );
    assert_eq!(made_of("application/json", r#"{"hello":1}"#).await.1, Some(ErrorKind::Garbled));
}

#[tokio::test]
async fn a_missing_done_marker_is_tolerated_but_a_missing_finish_is_not() {
    let whole = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}";
    let (seen, error) = made_of(SSE, whole).await;
    assert_eq!((error, seen.end.map(|(reason, _)| reason)), (None, Some(StopReason::Length)));
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    assert_eq!(made_of(SSE, half).await.1, Some(ErrorKind::Unavailable));
    // Also in the middle of an event, as behind a proxy that ends the response by closing the connection.
    for half in ["", "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"] {
        let body = format!("{half}data: {{\"choices\":[{{\"delta\":{{\"cont");
        assert_eq!(made_of(SSE, body.leak()).await.1, Some(ErrorKind::Unavailable), "{half:?}");
    }
    let cut_usage = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usa";
    let (seen, error) = made_of(SSE, cut_usage).await;
    assert_eq!((error, seen.text.as_str()), (None, "a"));
    // Also before the first event: it is retried, and a body that is no such stream is not.
    for silent in ["", "\n\n", ": working on it\n\n: still\n\n", "data:\n\ndata: \n\n"] {
        assert_eq!(made_of(SSE, silent).await.1, Some(ErrorKind::Unavailable), "{silent:?}");
    }
    assert_eq!(made_of(SSE, "<html></html>\n").await.1, Some(ErrorKind::Garbled));
}

/// LocalAI, SGLang and older Ollama send an empty text in place of null.
#[tokio::test]
async fn an_empty_reason_for_the_end_is_none() {
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"\"}]}\n\n";
    assert_eq!(made_of(SSE, half).await.1, Some(ErrorKind::Unavailable));
    let whole = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n\
        data: [DONE]\n\n";
    let (seen, error) = made_of(SSE, whole).await;
    assert_eq!((error, seen.end.map(|(reason, _)| reason)), (None, Some(StopReason::Stop)));
}

/// Perplexity sends the piece, and all of the answer so far beside it.
#[tokio::test]
async fn an_answer_that_is_sent_twice_is_read_once() {
    let body = "data: {\"choices\":[{\"message\":{\"content\":\"one\"},\"delta\":{\"content\":\"one\"}}]}\n\n\
        data: {\"choices\":[{\"message\":{\"content\":\"one two\"},\"delta\":{\"content\":\" two\"}}]}\n\n\
        data: {\"choices\":[{\"message\":{\"content\":\"one two\"},\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}\n\n";
    let (seen, error) = made_of(SSE, body).await;
    assert_eq!((error, seen.text.as_str()), (None, "one two"));
    let body =
        r#"{"choices":[{"message":{"content":"one two"},"delta":{"content":""},"finish_reason":"stop"}]}"#;
    let (seen, error) = made_of("application/json", body).await;
    assert_eq!((error, seen.text.as_str()), (None, "one two"));
}

#[tokio::test]
async fn keep_alives_do_not_change_an_answer() {
    let body = ": wait\n\ndata:\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: \n\n: wait\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\ndata:\n\ndata: [DONE] \n\n";
    let (seen, error) = made_of(SSE, body).await;
    assert_eq!((error, seen.text.as_str()), (None, "ab"));
    assert_eq!(seen.end.map(|(reason, _)| reason), Some(StopReason::Stop));
}

/// Some servers split an answer by UTF-16 units, and some by bytes.
#[tokio::test]
async fn a_split_character_fails_no_answer() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"a \\ud83d\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"\\ude00 b\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (seen, error) = made_of(SSE, body).await;
    assert_eq!((error, seen.text.as_str()), (None, "a \u{fffd}\u{fffd} b"));
}

#[tokio::test]
async fn usage_is_estimated_when_none_is_sent() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"one two three\"},\"finish_reason\":\"stop\"}],\"usage\":null}\n\ndata: [DONE]\n\n";
    let (seen, _) = made_of(SSE, body).await;
    let usage = seen.end.unwrap().1;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.calls), (7, 4, 1));
}

#[tokio::test]
async fn any_form_of_token_counts_is_accepted() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"one two three\"},\"finish_reason\":\"stop\"}],\
        \"usage\":{\"prompt_tokens\":12.0,\"completion_tokens\":-1,\"prompt_tokens_details\":{\"cached_tokens\":\"3\"}}}\n\ndata: [DONE]\n\n";
    let (seen, error) = made_of(SSE, body).await;
    assert_eq!((error, seen.text.as_str()), (None, "one two three"));
    let usage = seen.end.unwrap().1;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.cache_read_tokens), (12, 4, 3));
}

#[tokio::test]
async fn an_answer_as_a_list_of_parts_is_accepted() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":\"hm\"}]}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"one\"}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\" two\"},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":null,\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n";
    let (seen, error) = made_of(SSE, body).await;
    assert_eq!((error, seen.thinking.as_str(), seen.text.as_str()), (None, "hm", "one two"));
    assert_eq!(seen.end.unwrap().1.completion_tokens, 3);
}

#[tokio::test]
async fn calls_without_an_index_and_with_object_arguments_are_understood() {
    let body = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"t\",\"arguments\":{\"x\":1}}}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"u\",\"arguments\":\"{\"}}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n\
        data: [DONE]\n\n";
    let (seen, error) = made_of(SSE, body).await;
    assert_eq!(error, None);
    let calls: Vec<_> =
        seen.calls.iter().map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str())).collect();
    assert_eq!(calls, [("a", "t", "{\"x\":1}"), ("call_2", "u", "{}")]);
}

#[tokio::test]
async fn a_vllm_style_error_is_an_error() {
    let body = "data: {\"object\":\"error\",\"message\":\"too long\",\"type\":\"invalid_request_error\"}\n\n";
    assert_eq!(made_of(SSE, body).await.1, Some(ErrorKind::Invalid));
}

/// It has a status of its own, beside that of HTTP, which is always 200.
#[tokio::test]
async fn an_error_in_the_shape_of_minimax_is_an_error() {
    let refused = r#"{"id":"x","choices":null,"base_resp":{"status_code":1004,"status_msg":"login fail"}}"#;
    assert_eq!(made_of("application/json", refused).await.1, Some(ErrorKind::Unauthenticated));
    let used_up = "data: {\"choices\":null,\"usage\":{\"total_tokens\":0},\"base_resp\":{\"status_code\":1008,\"status_msg\":\"no\"}}\n\n";
    assert_eq!(made_of(SSE, used_up).await.1, Some(ErrorKind::QuotaExceeded));
    let fine = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\"base_resp\":{\"status_code\":0,\"status_msg\":\"\"}}\n\n";
    let (seen, error) = made_of(SSE, fine).await;
    assert_eq!((error, seen.text.as_str()), (None, "a"));
}

#[tokio::test]
async fn schemas_and_images_are_sent() {
    let server = ScriptedServer::speaking(Wire::OpenAi, Script::text("{}")).await;
    let mut request = asked("look");
    request.messages[0].images = vec!["data:image/png;base64,AA==".into()];
    request.schema = Some(serde_json::json!({"type": "object"}));
    assert!(read(&*model(Wire::OpenAi, &server), request).await.1.is_none());
    let body = server.requests()[0].body.clone();
    assert_eq!(body.pointer("/response_format/json_schema/schema/type").unwrap(), "object");
    assert_eq!(body.pointer("/messages/0/content/1/image_url/url").unwrap(), "data:image/png;base64,AA==");
}
