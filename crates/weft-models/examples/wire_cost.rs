//! What a streamed token costs on the OpenAI wire: ours next to genai's, in microseconds of CPU on the
//! reading thread: once with one event in most reads, as from a provider, where system calls are most of
//! it, and once as fast as it can be written, which leaves the work on the events.
//!
//! `cargo run --release -p weft-models --example wire_cost`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints, and stops when it cannot be made"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use futures::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::chat::ChatStreamEvent;
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ModelSpec, ServiceTarget};
use weft_core::seam::chat_model::{Author, ChatDelta, ChatMessage, ChatRequest};
use weft_models::{Directory, ModelEntry, ModelsConfig, Provider};

const TOKENS: usize = 10_000;
const ROUNDS: usize = 3;
const PAUSE: Duration = Duration::from_micros(20);

/// Writes the delta of one event.
type Piece = fn(usize) -> String;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases: [(&str, Piece, Duration); 4] = [
        ("text, one by one", text, PAUSE),
        ("text, at once", text, Duration::ZERO),
        ("arguments, one by one", arguments, PAUSE),
        ("arguments, at once", arguments, Duration::ZERO),
    ];
    for (name, piece, pause) in cases {
        let base_url = serve(piece, pause);
        for _ in 0..ROUNDS {
            let ours = cost(|| runtime.block_on(ours(&base_url)));
            let genai = cost(|| runtime.block_on(genai(&base_url)));
            println!("{name}: ours {ours:.2} µs/token, genai {genai:.2} µs/token, {:.1} times", genai / ours);
        }
    }
}

fn text(_: usize) -> String {
    r#"{"content":"wi "}"#.to_owned()
}

fn arguments(at: usize) -> String {
    let head = if at == 0 { r#""id":"a","type":"function","# } else { "" };
    let name = if at == 0 { r#""name":"write","# } else { "" };
    format!(r#"{{"tool_calls":[{{"index":0,{head}"function":{{{name}"arguments":"wi "}}}}]}}"#)
}

/// Answers every connection with the same stream.
fn serve(piece: Piece, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            connection.set_nodelay(true).unwrap();
            let _read = connection.read(&mut [0; 65536]).unwrap();
            write!(
                connection,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            )
            .unwrap();
            let events: Vec<String> = (0..TOKENS).map(|at| chunk(&piece(at), "null")).collect();
            if pause.is_zero() {
                connection.write_all(events.concat().as_bytes()).unwrap();
            }
            for event in events.iter().filter(|_| !pause.is_zero()) {
                connection.write_all(event.as_bytes()).unwrap();
                std::thread::sleep(pause);
            }
            write!(connection, "{}data: [DONE]\n\n", chunk("{}", r#""stop""#)).unwrap();
        }
    });
    base_url
}

fn chunk(delta: &str, reason: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
    )
}

async fn ours(base_url: &str) {
    let mut entry = ModelEntry::new("m", Provider::OpenAi);
    entry.base_url = Some(base_url.to_owned());
    let config = ModelsConfig { entries: vec![entry], ..ModelsConfig::default() };
    let directory = Directory::open(&config, &weft_net::operator_client().unwrap()).unwrap();
    let request =
        ChatRequest { messages: vec![ChatMessage::new(Author::User, "hi")], ..ChatRequest::default() };
    let mut answer = directory.resolve_with_notice("m").unwrap().0.chat(request).await.unwrap();
    let mut count = 0;
    while let Some(delta) = answer.next().await {
        count += usize::from(matches!(delta.unwrap(), ChatDelta::Text(_) | ChatDelta::ToolCall { .. }));
    }
    assert_eq!(count, TOKENS);
}

async fn genai(base_url: &str) {
    let client = genai::Client::builder().with_reqwest(weft_net::operator_client().unwrap()).build().unwrap();
    let target = ServiceTarget {
        endpoint: Endpoint::from_owned(format!("{base_url}/")),
        auth: AuthData::from_single("x"),
        model: ModelIden::new(AdapterKind::OpenAI, "m"),
    };
    let question = genai::chat::ChatRequest::from_user("hi");
    let options = genai::chat::ChatOptions::default().with_capture_usage(true).with_capture_tool_calls(true);
    let answer =
        client.exec_chat_stream(ModelSpec::from_target(target), question, Some(&options)).await.unwrap();
    let mut answer = answer.stream;
    let mut count = 0;
    while let Some(event) = answer.next().await {
        count += usize::from(matches!(
            event.unwrap(),
            ChatStreamEvent::Chunk(_) | ChatStreamEvent::ToolCallChunk(_)
        ));
    }
    assert_eq!(count, TOKENS);
}

/// Microseconds of CPU that this thread spends for each token.
fn cost(work: impl FnOnce()) -> f64 {
    let spent = || {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        stat.split(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let before = spent();
    work();
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let tokens = TOKENS as f64;
    (spent() - before) / 1000.0 / tokens
}
