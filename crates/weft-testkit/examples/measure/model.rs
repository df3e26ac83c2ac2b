//! A model on the OpenAI wire that is never what is waited for. Its name says how it answers:
//! `mock-WORDS-FIRST-EACH-ROUNDS`, times in milliseconds; before its answer it calls the first tool so
//! many times.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

/// Serves at an address that it prints.
pub(crate) async fn serve() {
    let routes = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/embeddings", post(embed))
        .layer(axum::extract::DefaultBodyLimit::disable());
    listen(routes).await;
}

/// Serves at an address that it prints.
pub(crate) async fn listen(routes: Router) {
    use axum::serve::ListenerExt as _;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    // A word must not wait for the acknowledgement of the one before.
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    axum::serve(listener, routes).await.unwrap();
}

/// Numbers of a vector.
const DIMENSION: usize = 384;

/// A vector for each text: the sum of vectors of its words that look random, so that texts which share words are near.
async fn embed(Json(request): Json<Value>) -> Json<Value> {
    let vector = |text: &str| {
        let mut sum = vec![0.0_f32; DIMENSION];
        for word in text.split_ascii_whitespace() {
            let mut state = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            for number in &mut sum {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *number += (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0;
            }
        }
        let length = sum.iter().map(|number| number * number).sum::<f32>().sqrt().max(1e-6);
        sum.iter().map(|number| number / length).collect::<Vec<f32>>()
    };
    let texts = request["input"].as_array().cloned().unwrap_or_else(|| vec![request["input"].clone()]);
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            json!({"object": "embedding", "index": index, "embedding": vector(text.as_str().unwrap_or_default())})
        })
        .collect();
    Json(
        json!({"object": "list", "data": data, "usage": {"prompt_tokens": texts.len(), "total_tokens": texts.len()}}),
    )
}

async fn chat(Json(request): Json<Value>) -> Response {
    let name = request["model"].as_str().unwrap_or_default();
    let mut numbers = name.split('-').filter_map(|part| part.parse::<u64>().ok());
    let mut next = || numbers.next().unwrap_or(0);
    let (words, first, each, rounds) = (next(), next(), next(), next());
    let asked = |message: &&Value| message.get("tool_calls").is_some();
    let called = request["messages"].as_array().map_or(0, |all| all.iter().filter(asked).count());
    let tool = request["tools"][0]["function"]["name"].as_str().filter(|_| (called as u64) < rounds);
    let piece = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}))
    };
    let mut pieces = match tool {
        Some(tool) => {
            let function = json!({"name": tool, "arguments": "{\"key\": \"alpha\"}"});
            let call =
                json!({"index": 0, "id": format!("call{called}"), "type": "function", "function": function});
            vec![piece(json!({"tool_calls": [call]}), Value::Null)]
        }
        None => (0..words).map(|nth| piece(json!({"content": format!("w{nth} ")}), Value::Null)).collect(),
    };
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": words}});
    let reason = if tool.is_some() { "tool_calls" } else { "stop" };
    let end = format!("{}data: {usage}\n\ndata: [DONE]\n\n", piece(json!({}), reason.into()));
    if let Some(last) = pieces.last_mut() {
        last.push_str(&end);
    }
    let begun = Instant::now() + Duration::from_millis(first);
    let pieces = futures::stream::unfold((pieces.into_iter(), begun), move |(mut left, due)| async move {
        let piece = left.next()?;
        if due > Instant::now() {
            sleep_until(due).await;
        }
        Some((Ok::<_, Infallible>(Bytes::from(piece)), (left, due + Duration::from_millis(each))))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces)).into_response()
}
