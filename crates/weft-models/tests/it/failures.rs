//! Failures of providers, on every wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use tokio::task::JoinSet;
use weft_core::ErrorKind;
use weft_core::seam::chat_model::ChatRequest;
use weft_models::ModelEntry;
use weft_models::script::{Failure, Fault};
use weft_testkit::{Reply, Script, ScriptedServer, Step, Wire};

use crate::{KEY, asked, entry, model, open, provider, read};

fn once(user: &str) -> ChatRequest {
    ChatRequest { retries_max: Some(0), ..asked(user) }
}

#[tokio::test]
async fn each_status_maps_to_its_kind_on_every_wire() {
    let kinds =
        [ErrorKind::Unauthenticated, ErrorKind::RateLimited, ErrorKind::Unavailable, ErrorKind::Invalid];
    for wire in Wire::ALL {
        for kind in kinds {
            let words = format!("refused for {KEY} and sk-abcdef0123456789");
            let failure = Failure { kind, message: words, retry_after_ms: Some(7000) };
            let script = Script::new().reply(Reply::default().then(Step::Error(failure)));
            let server = ScriptedServer::speaking(wire, script).await;
            let (_, error) = read(&*model(wire, &server), once("hi")).await;
            let error = error.unwrap();
            assert_eq!(error.kind, kind, "{wire:?}: {}", error.full());
            let full = format!("{} {error:?}", error.full());
            assert!(!full.contains(KEY) && !full.contains("abcdef01"), "{wire:?}: {full}");
            assert!(full.contains("refused for ***"), "{wire:?}: {full}");
            assert_eq!(error.retry_after, Some(Duration::from_secs(7)), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_keeps_the_text_before_it() {
    for wire in Wire::ALL {
        let failure =
            Failure { kind: ErrorKind::RateLimited, message: "enough for now".into(), retry_after_ms: None };
        let script = Script::new().reply(Reply::text("half").then(Step::Error(failure)));
        let server = ScriptedServer::speaking(wire, script).await;
        let (seen, error) = read(&*model(wire, &server), asked("hi")).await;
        let error = error.unwrap_or_else(|| panic!("{wire:?} ended silently"));
        assert_eq!(seen.text, "half", "{wire:?}");
        assert!(error.full().contains("enough for now"), "{wire:?}: {}", error.full());
        assert_eq!(server.requests().len(), 1, "{wire:?}: no retry after a chunk was seen");
        if wire != Wire::Ollama {
            assert_eq!(error.kind, ErrorKind::RateLimited, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn a_truncated_stream_is_an_error() {
    for wire in Wire::ALL {
        let script = Script::new().reply(Reply::text("half").then(Step::Fault(Fault::Cut)));
        let server = ScriptedServer::speaking(wire, script).await;
        let (seen, error) = read(&*model(wire, &server), asked("hi")).await;
        let error = error.unwrap_or_else(|| panic!("{wire:?} ended silently"));
        assert_eq!(
            (seen.text.as_str(), error.kind),
            ("half", ErrorKind::Unavailable),
            "{wire:?}: {}",
            error.full()
        );
    }
}

/// A server whose first answer is exactly these bytes, and whose later ones are complete.
async fn first_saying(wire: Wire, bytes: &'static str) -> (usize, Option<weft_core::Error>, String) {
    let whole = match wire {
        Wire::OpenAi => {
            "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\n"
        }
        Wire::Anthropic => concat!(
            "event: content_block_delta\ndata: {\"delta\":{\"type\":\"text_delta\",\"text\":\"yes\"}}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
        ),
        Wire::Gemini => {
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"yes\"}]},\"finishReason\":\"STOP\"}]}\n\n"
        }
        Wire::Ollama => "{\"message\":{\"content\":\"yes\"},\"done\":true,\"done_reason\":\"stop\"}\n",
    };
    let asked_for = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked_for);
    let router = Router::new().fallback(move || {
        let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        async move { ([(CONTENT_TYPE, "text/event-stream")], if first { bytes } else { whole }) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut entry = ModelEntry::new("m", provider(wire));
    entry.base_url = Some(format!("http://{}/v1", listener.local_addr().unwrap()));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    let model = open(vec![entry]).unwrap().resolve_with_notice("m").unwrap().0;
    let request = ChatRequest { retries_max: Some(1), retry_delay: Some(Duration::ZERO), ..asked("hi") };
    let (seen, error) = read(&*model, request).await;
    (asked_for.load(Ordering::Relaxed), error, seen.text)
}

#[tokio::test]
async fn an_answer_cut_before_its_first_chunk_is_retried_on_every_wire() {
    for wire in Wire::ALL {
        let begun = match wire {
            Wire::OpenAi => "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            Wire::Anthropic => {
                "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n"
            }
            Wire::Gemini => "data: {\"candidates\":[{\"content\":{\"parts\":[]}}]}\n\n",
            Wire::Ollama => "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n",
        };
        for broken in ["", "\n\n", begun] {
            let (requests, error, text) = first_saying(wire, broken).await;
            assert!(error.is_none(), "{wire:?} {broken:?}: {error:?}");
            assert_eq!((requests, text.as_str()), (2, "yes"), "{wire:?} {broken:?}");
        }
        let (requests, error, _) = first_saying(wire, "<html></html>\n").await;
        assert_eq!((requests, error.unwrap().kind), (1, ErrorKind::Garbled), "{wire:?}");
    }
}

/// Servers that end lines with two letters send them in any pieces.
#[tokio::test]
async fn a_line_end_in_two_pieces_loses_nothing() {
    let piece = |text: &str| {
        let data = format!(
            "{{\"type\":\"content_block_delta\",\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}"
        );
        format!("event: content_block_delta\r\ndata: {data}\r\n\r\n")
    };
    let end = "event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n";
    let whole = format!("{}{}{end}", piece("one"), piece(" two"));
    let name_ends = whole.rfind("\r\ndata: {\"type\":\"content_block_delta\"").unwrap();
    for cut in [piece("one").len(), name_ends + 1] {
        let pieces = [whole[..cut].to_owned(), whole[cut..].to_owned()];
        let router = Router::new().fallback(move || {
            let pieces = pieces.clone().map(Ok::<_, std::convert::Infallible>);
            let body = axum::body::Body::from_stream(futures::stream::iter(pieces));
            async move { ([(CONTENT_TYPE, "text/event-stream")], body) }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut entry = ModelEntry::new("m", provider(Wire::Anthropic));
        entry.base_url = Some(format!("http://{}/v1", listener.local_addr().unwrap()));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let model = open(vec![entry]).unwrap().resolve_with_notice("m").unwrap().0;
        let (seen, error) = read(&*model, once("hi")).await;
        assert_eq!((seen.text.as_str(), error.map(|error| error.kind)), ("one two", None), "cut at {cut}");
    }
}

/// Neither another try nor another provider may get around it.
#[tokio::test]
async fn a_question_that_gemini_blocks_is_not_put_again() {
    let blocked = "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"},\"usageMetadata\":{\"promptTokenCount\":4}}\n\n";
    let (requests, error, _) = first_saying(Wire::Gemini, blocked).await;
    let error = error.unwrap();
    assert_eq!((requests, error.kind), (1, ErrorKind::Filtered), "{}", error.full());
    assert!(error.full().contains("SAFETY"), "{}", error.full());
}

#[tokio::test]
async fn garbage_at_the_start_or_midway_is_a_garbled_error() {
    for wire in Wire::ALL {
        for reply in [Reply::default(), Reply::text("half")] {
            let script = Script::new().reply(reply.then(Step::Fault(Fault::Garbage)));
            let server = ScriptedServer::speaking(wire, script).await;
            let (_, error) = read(&*model(wire, &server), asked("hi")).await;
            let error = error.unwrap_or_else(|| panic!("{wire:?} ended silently"));
            assert_eq!(error.kind, ErrorKind::Garbled, "{wire:?}: {}", error.full());
            assert_eq!(server.requests().len(), 1, "{wire:?}: garbage is not retried");
        }
    }
}

#[tokio::test]
async fn a_failure_before_the_first_chunk_is_retried_on_every_wire() {
    for wire in Wire::ALL {
        let busy = Failure { kind: ErrorKind::Unavailable, message: "busy".into(), retry_after_ms: Some(1) };
        let script =
            Script::new().reply(Reply::default().then(Step::Error(busy)).times(1)).reply(Reply::text("yes"));
        let server = ScriptedServer::speaking(wire, script).await;
        let (seen, error) = read(&*model(wire, &server), asked("hi")).await;
        assert!(error.is_none(), "{wire:?}: {error:?}");
        assert_eq!((seen.text.as_str(), server.requests().len()), ("yes", 2), "{wire:?}");
    }
}

#[tokio::test]
async fn a_request_sets_its_retries() {
    for wire in Wire::ALL {
        for (retries_max, requests) in [(2, 3), (1, 2)] {
            let busy = Reply::error(ErrorKind::Unavailable, "busy").times(2);
            let server =
                ScriptedServer::speaking(wire, Script::new().reply(busy).reply(Reply::text("yes"))).await;
            let request = ChatRequest {
                retries_max: Some(retries_max),
                retry_delay: Some(Duration::ZERO),
                ..asked("hi")
            };
            let (seen, error) = read(&*model(wire, &server), request).await;
            assert_eq!(server.requests().len(), requests, "{wire:?}");
            match error {
                None => assert_eq!((seen.text.as_str(), retries_max), ("yes", 2), "{wire:?}"),
                Some(error) => {
                    assert_eq!((error.kind, retries_max), (ErrorKind::Unavailable, 1), "{wire:?}");
                    assert!(error.message.contains("status 503 (asked 2 times)"), "{}", error.message);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_refused_connection_is_unavailable() {
    for wire in Wire::ALL {
        let mut gone = entry(wire, &ScriptedServer::speaking(wire, Script::new()).await);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        gone.base_url = Some(format!("http://{}/v1", listener.local_addr().unwrap()));
        drop(listener);
        let model = open(vec![gone]).unwrap().resolve_with_notice("m").unwrap().0;
        let (_, error) = read(&*model, once("hi")).await;
        let error = error.unwrap();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{wire:?}: {}", error.full());
        assert!(error.message.contains("no answer from the model `m`"), "{wire:?}: {}", error.message);
        assert!(error.full().contains("check the model's `base_url`"), "{wire:?}: {}", error.full());
    }
}
