//! The least that each workload takes: loops and services written by hand that do only what must be done.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{model, process, wire};

#[derive(Serialize)]
struct Event<'a> {
    event: &'a str,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    component_id: &'a str,
    component_name: &'a str,
    component_type: &'a str,
    inputs: Option<(&'a str, &'a str)>,
    outputs: Option<&'a str>,
    elapsed_time: f64,
}

/// The two events of a node as a client gets them.
fn events(id: &str, before: &str, input: &str, text: &str, frame: &mut Vec<u8>) {
    for (event, outputs) in [("node_started", None), ("node_finished", Some(text))] {
        frame.clear();
        let (inputs, kind) = (Some((before, input)), "StringTransform");
        let data = Data {
            component_id: id,
            component_name: id,
            component_type: kind,
            inputs,
            outputs,
            elapsed_time: 0.0,
        };
        serde_json::to_writer(&mut *frame, &Event { event, data }).unwrap();
        black_box(&frame);
    }
}

/// W1: fills in one reference, keeps the output, writes the two events.
pub(crate) fn line(count: usize) {
    let mut outputs: HashMap<String, String> = HashMap::with_capacity(count);
    let (mut before, mut frame) = (String::new(), Vec::new());
    for at in 0..count {
        let id = format!("StringTransform:S{at}");
        let input = outputs.get(&before).map_or("hi", String::as_str);
        let text = format!("{input}.");
        events(&id, &before, input, &text, &mut frame);
        outputs.insert(id.clone(), text);
        before = id;
    }
    assert_eq!(outputs[&before].len(), 2 + count);
}

/// W2i: the same for the two nodes of every round, and the list of what they gave.
pub(crate) fn iteration(count: usize) {
    let query: Vec<String> = (0..count).map(|at| format!("i{at}")).collect();
    let (mut all, mut frame) = (Vec::with_capacity(count), Vec::new());
    for item in query.join(",").split(',') {
        events("IterationItem:Item", "Iteration:I@items", item, item, &mut frame);
        let text = format!("item {item}");
        events("StringTransform:Body", "IterationItem:Item@item", item, &text, &mut frame);
        all.push(text);
    }
    assert_eq!(black_box(all).len(), count);
}

/// W3: asks, calls, tells, until there is an answer; CPU milliseconds of a run.
pub(crate) fn react(address: &str, model: &str, runs: u32) -> f64 {
    let before = process::thread_cpu();
    (0..runs).for_each(|_| react_once(address, model));
    (process::thread_cpu() - before).as_secs_f64() * 1e3 / f64::from(runs)
}

fn react_once(address: &str, model: &str) {
    let parameters =
        json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]});
    let tools = json!([{"type": "function", "function": {"name": "lookup", "parameters": parameters}}]);
    let mut messages = vec![json!({"role": "user", "content": "hello"})];
    loop {
        let body = json!({"model": model, "stream": true, "messages": messages, "tools": tools}).to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let (mut text, mut call) = (String::new(), None);
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            let data = line.strip_prefix("data:").and_then(|data| serde_json::from_str::<Value>(data).ok());
            let Some(data) = data else { continue };
            let delta = &data["choices"][0]["delta"];
            text.push_str(delta["content"].as_str().unwrap_or_default());
            call = delta["tool_calls"].get(0).cloned().or(call);
        }
        let Some(call) = call else { return assert!(text.ends_with("w49 ")) };
        let id = call["id"].clone();
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "value of alpha"}));
    }
}

#[derive(Deserialize)]
struct Ask {
    query: String,
}

/// W4: a service that asks the model and writes each piece of its answer as an event of ours, and keeps
/// nothing.
pub(crate) async fn reframe(upstream: &str, name: &str) {
    let (upstream, name): (Arc<str>, Arc<str>) = (upstream.into(), name.into());
    let handler = move |Json(ask): Json<Ask>| chat(Arc::clone(&upstream), Arc::clone(&name), ask);
    model::listen(Router::new().route("/chat", post(handler))).await;
}

async fn chat(upstream: Arc<str>, name: Arc<str>, ask: Ask) -> Response {
    let messages = json!([{"role": "user", "content": ask.query}]);
    let body = json!({"model": &*name, "stream": true, "messages": messages});
    let reader = wire::request(&upstream, "/v1/chat/completions", &body).await;
    let frames = futures::stream::unfold((reader, Vec::new()), |(mut reader, mut line)| async move {
        loop {
            let event = wire::data(&mut reader, &mut line).await?;
            if let Some(content) = event.pointer("/choices/0/delta/content") {
                let frame = format!("data:{}\n\n", json!({"event": "message", "data": {"content": content}}));
                return Some((Ok::<_, Infallible>(Bytes::from(frame)), (reader, line)));
            }
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}
