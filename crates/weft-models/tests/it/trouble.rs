//! Operator settings for models with failures.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weft_core::ErrorKind;
use weft_core::seam::ModelDirectory as _;
use weft_core::seam::chat_model::{Audience, ChatRequest};
use weft_models::script::{Failure, Fault};
use weft_models::{ModelEntry, StructuredOutput};
use weft_testkit::{Reply, Script, ScriptedServer, Step, Wire};

use crate::{asked, entry, open, read};

fn at_once(user: &str) -> ChatRequest {
    ChatRequest { retry_delay: Some(Duration::ZERO), ..asked(user) }
}

/// Calls the model of a modified entry.
async fn ask(
    wire: Wire,
    server: &ScriptedServer,
    change: impl FnOnce(&mut ModelEntry),
    request: ChatRequest,
) -> (String, Option<weft_core::Error>) {
    let mut entry = entry(wire, server);
    change(&mut entry);
    let model = open(vec![entry]).unwrap().resolve_with_notice("m").unwrap().0;
    let (seen, error) = read(&*model, request).await;
    (seen.text, error)
}

#[tokio::test]
async fn timeouts_and_retries_come_from_the_entry() {
    for wire in Wire::ALL {
        let slow = || Script::new().reply(Reply::text("late").delay_ms(400).always());
        let server = ScriptedServer::speaking(wire, slow()).await;
        let short = |entry: &mut ModelEntry| {
            (entry.first_piece_seconds, entry.retries) = (Some(0.05), Some(1));
        };
        let (_, error) = ask(wire, &server, short, at_once("hi")).await;
        let error = error.unwrap();
        assert_eq!(error.kind, ErrorKind::Timeout, "{wire:?}: {}", error.full());
        assert!(
            error.message.contains("within 0.05 s") && error.message.contains("asked 2 times"),
            "{error:?}"
        );
        let (text, error) = ask(wire, &server, |_| {}, at_once("hi")).await;
        assert_eq!((text.as_str(), error.is_none()), ("late", true), "{wire:?}");

        let pauses = Reply::text("a").then(Step::Wait(400)).then(Step::Text("b".into()));
        let server = ScriptedServer::speaking(wire, Script::new().reply(pauses.always())).await;
        let idle = |entry: &mut ModelEntry| entry.idle_seconds = Some(0.1);
        let (text, error) = ask(wire, &server, idle, at_once("hi")).await;
        assert!(error.unwrap().message.contains("stopped in the middle"), "{wire:?}");
        assert_eq!(text, "a", "{wire:?}");
        let total = |entry: &mut ModelEntry| entry.answer_seconds = Some(0.2);
        let (_, error) = ask(wire, &server, total, at_once("hi")).await;
        assert!(error.unwrap().message.contains("did not finish its answer within 0.2 s"), "{wire:?}");
    }
}

/// A canvas that sets no retries gets those of the entry, and zero means none.
#[tokio::test]
async fn zero_retries_mean_none() {
    for wire in Wire::ALL {
        let check = async |entry: Option<u32>, canvas: Option<u32>, expected: usize| {
            let busy = Script::new().reply(Reply::error(ErrorKind::Unavailable, "busy").always());
            let server = ScriptedServer::speaking(wire, busy).await;
            let request = ChatRequest { retries_max: canvas, ..at_once("hi") };
            ask(wire, &server, |own| own.retries = entry, request).await.1.unwrap();
            assert_eq!(server.requests().len(), expected, "{wire:?} {entry:?} {canvas:?}");
        };
        check(None, None, 4).await;
        check(Some(0), None, 1).await;
        check(Some(1), None, 2).await;
        check(Some(5), Some(0), 1).await;
        check(Some(0), Some(2), 3).await;
    }
}

#[tokio::test]
async fn an_answer_cut_before_anyone_read_it_is_retried() {
    for wire in Wire::ALL {
        let script = || {
            let half = Reply::text("half").then(Step::Fault(Fault::Cut));
            Script::new().reply(half).reply(Reply::text("whole"))
        };
        let check = async |audience: Audience, expected: &str, requests: usize| {
            let server = ScriptedServer::speaking(wire, script()).await;
            let (text, error) = {
                let request = ChatRequest { audience: audience.clone(), ..at_once("hi") };
                ask(wire, &server, |_| {}, request).await
            };
            assert_eq!((text.as_str(), server.requests().len()), (expected, requests), "{wire:?}");
            assert_eq!(error.is_some(), audience == Audience::Listening, "{wire:?}");
        };
        check(Audience::Nobody, "whole", 2).await;
        check(Audience::Listening, "half", 1).await;
    }
}

/// Providers also give the retry time as a date.
#[tokio::test]
async fn a_retry_after_date_is_respected() {
    use axum::http::StatusCode;
    use axum::response::IntoResponse as _;
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = std::sync::Arc::clone(&seen);
    let router = axum::Router::new().fallback(move || {
        let mut times = noted.lock().unwrap();
        times.push(Instant::now());
        let first = times.len() == 1;
        async move {
            if first {
                let dates = [
                    ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
                    ("retry-after", "Sun, 06 Nov 1994 08:49:38 GMT"),
                ];
                return (StatusCode::TOO_MANY_REQUESTS, dates, "slow down").into_response();
            }
            let whole = json!({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]});
            axum::Json(whole).into_response()
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut entry = ModelEntry::new("m", weft_models::Provider::OpenAi);
    entry.base_url = Some(format!("http://{}/v1", listener.local_addr().unwrap()));
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    let model = open(vec![entry]).unwrap().resolve_with_notice("m").unwrap().0;
    assert_eq!(read(&*model, at_once("hi")).await.0.text, "yes");
    let times = seen.lock().unwrap();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "{:?}", times[1] - times[0]);
}

fn structured() -> ChatRequest {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    ChatRequest { schema: Some(schema), ..at_once("hi") }
}

/// Where a request has the answer format on each wire.
fn form(wire: Wire, body: &Json) -> Option<&Json> {
    match wire {
        Wire::OpenAi => body.get("response_format"),
        Wire::Anthropic => body.get("output_config").or_else(|| body.get("output_format")),
        Wire::Gemini => body.pointer("/generationConfig/responseMimeType"),
        Wire::Ollama => body.get("format"),
    }
}

/// A server that does not know the parameter refuses the whole request. It is retried once without it, and from
/// then on never sent it.
#[tokio::test]
async fn a_refused_answer_format_is_dropped_and_remembered() {
    for wire in Wire::ALL {
        let refused =
            Failure { kind: ErrorKind::Invalid, message: "unknown parameter".into(), retry_after_ms: None };
        let refusal = Reply::default().then(Step::Error(refused)).times(1);
        let script = Script::new().reply(refusal).reply(Reply::text(r#"{"a": 1}"#).always());
        let server = ScriptedServer::speaking(wire, script).await;
        let model = open(vec![entry(wire, &server)]).unwrap().resolve_with_notice("m").unwrap().0;
        for (warnings, requests) in [(1, 2), (0, 3)] {
            let (seen, error) = read(&*model, structured()).await;
            assert!(error.is_none(), "{wire:?}: {error:?}");
            assert_eq!((seen.text.as_str(), seen.warnings.len()), (r#"{"a": 1}"#, warnings), "{wire:?}");
            assert_eq!(server.requests().len(), requests, "{wire:?}");
        }
        let named: Vec<_> =
            server.requests().iter().map(|request| form(wire, &request.body).is_some()).collect();
        assert_eq!(named, [true, false, false], "{wire:?}");
    }
}

#[tokio::test]
async fn the_structured_output_mode_is_a_setting() {
    for wire in Wire::ALL {
        let check = async |setting: Option<StructuredOutput>, named: bool| {
            let script = Script::new().reply(Reply::text(r#"{"a": 1}"#).always());
            let server = ScriptedServer::speaking(wire, script).await;
            let change = |entry: &mut ModelEntry| entry.structured_output = setting;
            assert!(ask(wire, &server, change, structured()).await.1.is_none());
            let body = &server.requests()[0].body;
            assert_eq!(form(wire, body).is_some(), named, "{wire:?} {setting:?}: {body}");
            if wire == Wire::OpenAi && named {
                let kind =
                    if setting == Some(StructuredOutput::Json) { "json_object" } else { "json_schema" };
                assert_eq!(body["response_format"]["type"], kind);
            }
        };
        check(None, true).await;
        check(Some(StructuredOutput::Schema), true).await;
        check(Some(StructuredOutput::Prompt), false).await;
        // The two others have no format without a schema.
        check(Some(StructuredOutput::Json), matches!(wire, Wire::OpenAi | Wire::Ollama)).await;
    }
}

/// A model that stays down is replaced by those of its list, and by no others.
#[tokio::test]
async fn the_listed_fallback_models_answer_in_its_place() {
    let busy = Script::new().reply(Reply::error(ErrorKind::Unavailable, "busy").always());
    let down = ScriptedServer::speaking(Wire::OpenAi, busy).await;
    let up = ScriptedServer::speaking(Wire::Anthropic, Script::text("here")).await;
    let named = |name: &str, wire: Wire, server: &ScriptedServer, fallback: &[&str]| {
        let mut entry = entry(wire, server);
        (entry.name, entry.retries) = (name.to_owned(), Some(1));
        entry.fallback = fallback.iter().map(|name| (*name).to_owned()).collect();
        entry
    };
    // Two that are fallbacks of each other are no cycle.
    let entries = vec![
        named("first", Wire::OpenAi, &down, &["second", "third@anthropic"]),
        named("second", Wire::OpenAi, &down, &["first"]),
        named("third", Wire::Anthropic, &up, &[]),
    ];
    let directory = open(entries).unwrap();
    let tenant = weft_core::TenantId::from("t");
    let (seen, error) = read(&*directory.resolve(&tenant, "first").unwrap(), at_once("hi")).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!((seen.text.as_str(), seen.answered_by.as_deref()), ("here", Some("third")));
    assert_eq!(seen.warnings.len(), 2);
    assert!(
        seen.warnings[0].contains("`first`") && seen.warnings[0].contains("`second`"),
        "{:?}",
        seen.warnings
    );
    assert_eq!(down.requests().len(), 4);
    let (_, error) = read(&*directory.resolve(&tenant, "second").unwrap(), at_once("hi")).await;
    assert!(error.unwrap().message.contains("nor could its fallbacks"));
    assert_eq!(down.requests().len(), 8);
}
