//! Servers that never stop sending.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use futures::stream;
use tokio::task::JoinSet;
use weft_core::seam::chat_model::ChatRequest;
use weft_core::{Error, ErrorKind};
use weft_models::ModelEntry;
use weft_testkit::Wire;

use crate::{asked, open, provider, read};

/// What a server sends without end, after the beginning of its answer.
#[derive(Clone, Copy)]
struct Endless {
    status: StatusCode,
    kind: &'static str,
    begin: &'static str,
    piece: &'static str,
}

impl Endless {
    fn body(self) -> Body {
        let piece = Bytes::from(self.piece.repeat(64 * 1024 / self.piece.len()));
        let pieces = stream::unfold(Bytes::from(self.begin), move |next| {
            let piece = piece.clone();
            async move {
                // Slow enough that a reader without a limit does not fill the memory before its time is up.
                tokio::time::sleep(Duration::from_millis(1)).await;
                Some((Ok::<_, std::convert::Infallible>(next), piece))
            }
        });
        Body::from_stream(pieces)
    }

    /// The error of a model behind such a server, and the server's address.
    async fn error(self, wire: Wire) -> (Error, String) {
        let router = Router::new()
            .fallback(move || async move { (self.status, [(CONTENT_TYPE, self.kind)], self.body()) });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut entry = ModelEntry::new("m", provider(wire));
        entry.base_url = Some(format!("http://{address}/v1"));
        (entry.first_piece_seconds, entry.idle_seconds) = (Some(50.0), Some(50.0));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let model = open(vec![entry]).unwrap().resolve_with_notice("m").unwrap().0;
        let request = ChatRequest { retries_max: Some(0), ..asked("hi") };
        (read(&*model, request).await.1.unwrap(), address)
    }
}

fn check(wire: Wire, (error, address): (Error, String), bound: &str) {
    let full = error.full();
    assert_eq!(error.kind, ErrorKind::Garbled, "{wire:?}: {full}");
    assert!(full.contains(&format!("the server `{address}` of the model `m`")), "{wire:?}: {full}");
    assert!(full.contains(bound), "{wire:?}: {full}");
    assert!(error.help.is_some_and(|help| help.contains("base_url")), "{wire:?}");
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    for wire in Wire::ALL {
        let (kind, begin) = match wire {
            Wire::Ollama => ("application/x-ndjson", "{\"message\":{\"content\":\""),
            _ => ("text/event-stream", "event: content_block_delta\ndata: {\"text\":\""),
        };
        let endless = Endless { status: StatusCode::OK, kind, begin, piece: "x" };
        check(wire, endless.error(wire).await, "an event of more than 8388608 bytes");
    }
}

#[tokio::test]
async fn a_plain_answer_without_end_is_refused() {
    for wire in Wire::ALL {
        let endless =
            Endless { status: StatusCode::OK, kind: "application/json", begin: "{\"a\": \"", piece: "x" };
        let bound = match wire {
            Wire::OpenAi => "an answer of more than 16777216 bytes",
            _ => "an event of more than 8388608 bytes",
        };
        check(wire, endless.error(wire).await, bound);
    }
}

#[tokio::test]
async fn events_without_end_are_refused() {
    let piece: &'static str = Box::leak(format!(": {}\n\n", "x".repeat(32 * 1024 - 4)).into_boxed_str());
    let endless = Endless { status: StatusCode::OK, kind: "text/event-stream", begin: ": hi\n\n", piece };
    check(Wire::Anthropic, endless.error(Wire::Anthropic).await, "an answer of more than 67108864 bytes");
}

#[tokio::test]
async fn a_text_without_end_is_refused() {
    let text = "x".repeat(32 * 1024 - 64);
    let piece = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let piece: &'static str = Box::leak(piece.into_boxed_str());
    let endless = Endless { status: StatusCode::OK, kind: "text/event-stream", begin: piece, piece };
    check(Wire::OpenAi, endless.error(Wire::OpenAi).await, "an answer of more than 67108864 bytes");
}

#[tokio::test]
async fn an_error_without_end_is_read_up_to_a_limit() {
    for wire in Wire::ALL {
        let endless = Endless {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "text/plain",
            begin: "no such model ",
            piece: "x",
        };
        let (error, _) = endless.error(wire).await;
        let full = error.full();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{wire:?}: {full}");
        assert!(full.contains("status 500: no such model xxx") && full.len() < 1_000, "{wire:?}: {full}");
    }
}
