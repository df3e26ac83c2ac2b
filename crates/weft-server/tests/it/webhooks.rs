//! Webhooks: other programs start runs of a canvas whose Begin allows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value as Json, json};
use weft_app::Auth;
use weft_app::config::LimitsConfig;
use weft_app::hmac::sign;
use weft_core::webhook::HmacAlgorithm;
use weft_core::{CanvasKey, SessionKey};
use weft_server::router::router;
use weft_server::state::ServerState;
use weft_server::webhook::Peer;
use weft_testkit::{Dice, FaultRates, FaultyStore, Script};

use crate::support::{
    Bench, HandClock, Reading, bench, bench_with, chat_canvas, component, default_tenant, echo_canvas,
    endless, process_at,
};

/// A canvas that outputs the payload it received.
fn canvas(begin: &Json) -> Json {
    let mut params = json!({"mode": "Webhook"});
    params.as_object_mut().unwrap().extend(begin.as_object().unwrap().clone());
    let content = "{begin@query.q} {begin@headers.X-Trace} {begin@body.n} {begin@body}";
    json!({"components": {
        "begin": component("Begin", &params, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": [content]}), &[]),
    }})
}

fn with(mut of: Json, more: &Json) -> Json {
    of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    of
}

/// A webhook without authentication that returns the text.
fn open() -> Json {
    json!({"security": {"auth_type": "none", "allow_anonymous": true}, "execution_mode": "Streaming",
    "schema": {
        "query": {"properties": {"q": {"type": "string"}}},
        "headers": {"properties": {"X-Trace": {"type": "string"}}},
        "body": {"properties": {"n": {"type": "number"}}, "required": ["n"]},
    }})
}

/// A call without a token of the server.
async fn called(bench: &Bench, path: &str, headers: &[(&str, &str)], body: &str) -> Reading {
    let mut request = Request::builder().method("POST").uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from(body.to_owned())).unwrap();
    request.extensions_mut().insert(Peer("10.1.2.3".parse().unwrap()));
    bench.send(request).await
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[track_caller]
fn refused(answer: &Reading, words: &str) {
    assert_eq!(answer.status, 400, "{}", answer.text);
    let told = answer.json();
    assert_eq!(told["code"], 400);
    assert!(told["message"].as_str().unwrap().contains(words), "{told}");
}

#[tokio::test]
async fn a_call_starts_a_run_with_the_declared_parameters() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Hook", canvas(&open())).await;
    let body = r#"{"n": "7", "other": 1, "id": "x", "name": "no file"}"#;
    for path in [format!("/api/v1/agents/{id}/webhook?q=hi&p=2"), format!("/api/v1/webhook/{id}?q=hi")] {
        let answer = called(&bench, &path, &[JSON, ("x-trace", "t1")], body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let told = answer.json();
        assert_eq!((&told["success"], &told["code"]), (&json!(true), &json!(200)));
        assert_eq!(told["message"], r#"hi t1 7 {"n":7}"#, "undeclared parameters are left out");
    }
    let path = format!("/api/v1/agents/{id}/webhook");
    refused(&called(&bench, &path, &[JSON], "{}").await, "body missing required field: n");
    refused(&called(&bench, &path, &[JSON], r#"{"n": true}"#).await, "expected number, got bool");
    refused(&called(&bench, &path, &[JSON], r#"{"n": "x"}"#).await, "body.n auto-cast failed");
    refused(&called(&bench, &path, &[JSON], "{").await, "not JSON");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let answer = called(&bench, &path, &form, "n=8&x=y").await;
    assert_eq!(answer.json()["message"], "  8 {\"n\":8}");
    // Each call has its own session.
    let sessions = bench.get(&format!("/api/v1/agents/{id}/sessions")).await.json();
    assert_eq!(sessions["total"], 3, "{sessions}");
}

#[tokio::test]
async fn calls_that_the_settings_do_not_allow_are_refused() {
    let bench = bench(Script::new()).await;
    let path =
        async |title: &str, dsl: Json| format!("/api/v1/agents/{}/webhook", bench.store(title, dsl).await);
    let ask = async |path: &str| called(&bench, path, &[JSON], "{\"n\": 1}").await;
    refused(&ask("/api/v1/agents/gone/webhook").await, "Canvas not found.");
    refused(&ask(&path("Echo", echo_canvas()).await).await, "Webhook not configured for this agent.");
    refused(&ask(&path("Silent", canvas(&json!({}))).await).await, "Webhook security is required.");
    let anonymous = json!({"security": {"auth_type": "none"}});
    refused(&ask(&path("None", canvas(&anonymous)).await).await, "requires allow_anonymous to be true");
    let get = path("Get", canvas(&with(open(), &json!({"methods": ["GET"]})))).await;
    refused(&ask(&get).await, "HTTP method 'POST' not allowed for this webhook.");
    let wrong = json!({"security": {"auth_type": "magic"}});
    refused(&ask(&path("Wrong", canvas(&wrong)).await).await, "Invalid DSL format.");
    let typed = path("Typed", canvas(&with(open(), &json!({"content_types": "application/json"})))).await;
    refused(
        &called(&bench, &typed, &[("content-type", "text/xml")], "<n/>").await,
        "expect 'application/json', got 'text/xml'",
    );
    refused(
        &called(&bench, &typed, &[JSON, ("content-encoding", "gzip")], "{\"n\": 1}").await,
        "the body is compressed (gzip)",
    );
    assert_eq!(ask(&typed).await.status, 200);
    assert_eq!(called(&bench, &typed, &[], "{\"n\": 1}").await.status, 200);
    let security = |more: Json| {
        let open = open();
        let security = with(open["security"].clone(), &more);
        canvas(&with(open, &json!({"security": security})))
    };
    let elsewhere = path("Elsewhere", security(json!({"ip_whitelist": ["192.0.2.0/24"]}))).await;
    refused(&ask(&elsewhere).await, "IP 10.1.2.3 is not allowed by whitelist");
    assert_eq!(ask(&path("Here", security(json!({"ip_whitelist": ["10.0.0.0/8"]}))).await).await.status, 200);
    let rare = path("Rare", security(json!({"rate_limit": {"limit": 2, "per": "hour"}}))).await;
    assert_eq!((ask(&rare).await.status.as_u16(), ask(&rare).await.status.as_u16()), (200, 200));
    refused(&ask(&rare).await, "Rate limit error: Too many requests (rate limit exceeded)");
    let small = path("Small", security(json!({"max_body_size": "1kb"}))).await;
    let large = format!("{{\"n\": 1, \"x\": \"{}\"}}", "y".repeat(2_000));
    let length = large.len().to_string();
    let told = called(&bench, &small, &[JSON, ("content-length", &length)], &large).await;
    refused(&told, &format!("Request body too large: {length} > 1024"));
    // The declared length is not trusted.
    refused(
        &called(&bench, &small, &[JSON, ("content-length", "10")], &large).await,
        "Request body too large",
    );
    let by_text = bench.get("/api/v1/runs").await.data();
    assert_eq!(by_text["runs"].as_array().unwrap().len(), 5, "no refused call has run");
}

#[tokio::test]
async fn secrets_authenticate_callers_and_are_stored_nowhere() {
    let bench = bench(Script::new()).await;
    bench.ask("PUT", "/api/v1/secrets/HOOK", json!({"value": "rosebud-0815"})).await.data();
    let guarded = |security: Json| canvas(&with(open(), &json!({"security": security})));
    let token =
        json!({"auth_type": "token", "token": {"token_header": "X-Key", "token_value": "{secret.HOOK}"}});
    let token = bench.store("Token", guarded(token)).await;
    let path = format!("/api/v1/agents/{token}/webhook");
    let ask = async |headers: &[(&str, &str)]| called(&bench, &path, headers, "{\"n\": 1}").await;
    refused(&ask(&[JSON]).await, "Invalid token authentication");
    refused(&ask(&[JSON, ("x-key", "rosebud-0814")]).await, "Invalid token authentication");
    // The name of the secret is not its value.
    refused(&ask(&[JSON, ("x-key", "{secret.HOOK}")]).await, "Invalid token authentication");
    assert_eq!(ask(&[JSON, ("x-key", "rosebud-0815"), ("authorization", "Bearer hush")]).await.status, 200);
    let runs = bench.get("/api/v1/runs").await.data();
    let run = runs["runs"][0]["id"].as_str().unwrap().to_owned();
    let journal = bench.store.as_ref();
    let key = weft_core::RunKey::new(&crate::support::default_tenant(), run);
    let entries = weft_core::seam::RunStore::entries(journal, &key, 0, 1_000).await.unwrap();
    for entry in entries {
        assert!(!entry.record.contains("rosebud") && !entry.record.contains("hush"), "{}", entry.record);
    }
    let basic = json!({"auth_type": "basic", "basic_auth": {"username": "ada", "password": "{secret.HOOK}"}});
    let basic = bench.store("Basic", guarded(basic)).await;
    let path = format!("/api/v1/agents/{basic}/webhook");
    let ask =
        async |value: &str| called(&bench, &path, &[JSON, ("authorization", value)], "{\"n\": 1}").await;
    assert_eq!(ask("Basic YWRhOnJvc2VidWQtMDgxNQ==").await.status, 200);
    refused(&ask("Basic YWRhOg==").await, "Invalid Basic Auth credentials");
    let jwt = json!({"auth_type": "jwt", "jwt": {"secret": "your-256-bit-secret"}});
    let jwt = bench.store("Jwt", guarded(jwt)).await;
    let path = format!("/api/v1/agents/{jwt}/webhook");
    let ask =
        async |value: &str| called(&bench, &path, &[JSON, ("authorization", value)], "{\"n\": 1}").await;
    // The well-known example token from jwt.io.
    let known = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c";
    assert_eq!(ask(&format!("Bearer {known}")).await.status, 200);
    refused(&ask(&format!("Bearer {}x", &known[..known.len() - 1])).await, "Invalid JWT");
    refused(&ask("Basic x").await, "Missing Bearer token");
    // A missing secret admits nobody.
    bench.ask("DELETE", "/api/v1/secrets/HOOK", Json::Null).await;
    let path = format!("/api/v1/agents/{token}/webhook");
    for given in ["", "rosebud-0815"] {
        refused(&called(&bench, &path, &[JSON, ("x-key", given)], "{\"n\": 1}").await, "does not exist");
    }
}

#[tokio::test]
async fn callers_without_the_secret_do_not_lock_out_the_others() {
    let bench = bench(Script::new()).await;
    let path = async |title: &str, security: Json| {
        let security = with(security, &json!({"rate_limit": {"limit": 2, "per": "hour"}}));
        let dsl = canvas(&with(open(), &json!({"security": security})));
        format!("/api/v1/agents/{}/webhook", bench.store(title, dsl).await)
    };
    let token = path(
        "Token",
        json!({"auth_type": "token", "token": {"token_header": "X-Key", "token_value": "rosebud-0815"}}),
    );
    let signed = path("Signed", json!({"auth_type": "signature", "signature": {"secret": "rosebud"}}));
    let body = "{\"n\": 1}";
    let signature = weft_core::hex(&sign(HmacAlgorithm::Hs256, b"rosebud", &[body.as_bytes()]));
    let limited = "Rate limit error: Too many requests (rate limit exceeded)";
    for (path, header, good, words) in [
        (token.await, "x-key", "rosebud-0815", "Invalid token authentication"),
        (signed.await, "x-signature-256", &*signature, "Invalid signature"),
    ] {
        let ask = async |key: &str| called(&bench, &path, &[JSON, (header, key)], body).await;
        for words in [words, words, limited, limited] {
            refused(&ask("guess").await, words);
        }
        assert_eq!((ask(good).await.status.as_u16(), ask(good).await.status.as_u16()), (200, 200));
        refused(&ask(good).await, limited);
    }
}

/// Counts the log lines for operators that webhooks have written on this thread.
#[derive(Clone, Default)]
struct Noise(Arc<AtomicUsize>);

impl tracing::Subscriber for Noise {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO && metadata.target().contains("webhook")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn calls_of_a_canvas_that_cannot_run_do_not_fill_the_log() {
    let bench = bench(Script::new()).await;
    let wrong = json!({"security": {"auth_type": "magic"}});
    let wrong = bench.store("Wrong", canvas(&wrong)).await;
    let nameless = json!({"security": {"auth_type": "token",
        "token": {"token_header": "x-key", "token_value": "{secret.HOOK}"}}});
    bench.ask("PUT", "/api/v1/secrets/HOOK", json!({"value": "rosebud-0815"})).await.data();
    let nameless = bench.store("Nameless", canvas(&with(open(), &nameless))).await;
    bench.ask("DELETE", "/api/v1/secrets/HOOK", Json::Null).await;
    let noise = Noise::default();
    let _guard = tracing::subscriber::set_default(noise.clone());
    for _ in 0..3 {
        let path = format!("/api/v1/agents/{wrong}/webhook");
        refused(&called(&bench, &path, &[JSON], "{\"n\": 1}").await, "Invalid DSL format.");
        let path = format!("/api/v1/agents/{nameless}/webhook");
        refused(&called(&bench, &path, &[JSON, ("x-key", "k")], "{\"n\": 1}").await, "does not exist");
    }
    assert_eq!(noise.0.load(Ordering::Relaxed), 0);
    // Its owner learns what is wrong.
    let told = bench.post(&format!("/api/v1/agents/{wrong}/webhook/test"), json!({"n": 1})).await;
    refused(&told, "Unsupported auth_type: magic");
}

#[tokio::test]
async fn a_replayed_signed_call_is_the_same_run() {
    let clock = HandClock::at(1_767_225_600_000);
    let fresh = process_at(
        std::sync::Arc::default(),
        weft_testkit::ScriptedModel::new(Script::new()),
        (Auth::On, LimitsConfig::default()),
        clock.clone(),
    );
    let token = fresh.app.first_token().await.unwrap().unwrap().reveal().to_owned();
    let bench = Bench { token, ..fresh };
    let security = json!({"auth_type": "signature", "signature": {"secret": "rosebud", "header": "X-Sig",
        "timestamp_header": "X-Time", "tolerance_seconds": 300}});
    let id = bench.store("Signed", canvas(&with(open(), &json!({"security": security})))).await;
    let path = format!("/api/v1/agents/{id}/webhook");
    // HMAC with SHA-256 of `1767225600.{"n": 1}`.
    let signature = "sha256=60d2b9c5b9480c84712929f4df59af2305271606ab98cd51ea14bb9f91f13953";
    let headers = [JSON, ("x-sig", signature), ("x-time", "1767225600")];
    let count = async || bench.get("/api/v1/runs").await.data()["runs"].as_array().unwrap().len();
    let first = called(&bench, &path, &headers, "{\"n\": 1}").await;
    assert_eq!(first.status, 200, "{}", first.text);
    let again = called(&bench, &path, &headers, "{\"n\": 1}").await;
    assert_eq!((again.status, again.text, count().await), (first.status, first.text, 1));
    refused(&called(&bench, &path, &headers, "{\"n\": 2}").await, "Invalid signature");
    let later = [JSON, ("x-sig", signature), ("x-time", "1767225601")];
    refused(&called(&bench, &path, &later, "{\"n\": 1}").await, "Invalid signature");
    refused(&called(&bench, &path, &[JSON], "{\"n\": 1}").await, "Missing signature");
    clock.go_on(301_000);
    refused(&called(&bench, &path, &headers, "{\"n\": 1}").await, "too old");
    assert_eq!(count().await, 1);
}

#[tokio::test]
async fn a_call_with_an_idempotency_key_is_one_run() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Hook", canvas(&open())).await;
    let path = format!("/api/v1/agents/{id}/webhook");
    for _ in 0..2 {
        let answer = called(&bench, &path, &[JSON, ("idempotency-key", "k1")], "{\"n\": 1}").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    assert_eq!(bench.get("/api/v1/runs").await.data()["runs"].as_array().unwrap().len(), 1);
    // Many concurrent calls are one run, too, and none is refused.
    let calls = (0..40).map(|_| called(&bench, &path, &[JSON, ("idempotency-key", "k2")], "{\"n\": 1}"));
    for answer in futures::future::join_all(calls).await {
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    assert_eq!(bench.get("/api/v1/runs").await.data()["runs"].as_array().unwrap().len(), 2);
    // The key of a call is refused for another one.
    let with_key = [JSON, ("idempotency-key", "k1")];
    let told = called(&bench, &path, &with_key, "{\"n\": 2}").await;
    refused(&told, "the idempotency key was used for another question");
    let told = called(&bench, &format!("{path}?q=x"), &with_key, "{\"n\": 1}").await;
    refused(&told, "the idempotency key was used for another question");
    let later = [JSON, ("idempotency-key", "k1"), ("x-trace", "t2")];
    assert_eq!(called(&bench, &path, &later, "{\"n\": 1}").await.status, 200, "headers may differ");
    assert_eq!(bench.get("/api/v1/runs").await.data()["runs"].as_array().unwrap().len(), 2);
    let long = "x".repeat(300);
    refused(&called(&bench, &path, &[JSON, ("idempotency-key", &long)], "{\"n\": 1}").await, "");
}

#[tokio::test]
async fn a_refused_call_leaves_no_session() {
    let limits = LimitsConfig { runs_at_once: 1, ..LimitsConfig::default() };
    let bench = bench_with(Script::new().reply(endless(&["So "]).always()), Auth::On, limits).await;
    let id = bench.store("Hook", canvas(&open())).await;
    let agent = bench.store("Chat", chat_canvas()).await;
    let question = json!({"agent_id": agent, "query": "q", "stream": true});
    let mut at_work = bench.open("/api/v1/agents/chat/completions", question).await;
    at_work.until("So ").await;
    let path = format!("/api/v1/agents/{id}/webhook");
    refused(&called(&bench, &path, &[JSON], "{\"n\": 1}").await, "too many runs are under way");
    let with_key = [JSON, ("idempotency-key", "k")];
    refused(&called(&bench, &path, &with_key, "{\"n\": 1}").await, "too many runs are under way");
    let sessions = bench.get(&format!("/api/v1/agents/{id}/sessions")).await.json();
    assert_eq!(sessions["total"], 0, "{sessions}");
}

/// It may be about to start the run that both ask for.
#[tokio::test]
async fn a_call_that_is_refused_leaves_the_conversation_to_its_copy() {
    let mut limits = LimitsConfig::default();
    limits.sessions.wait_seconds = 0;
    let bench = bench_with(Script::new(), Auth::On, limits).await;
    let id = bench.store("Hook", canvas(&open())).await;
    let keyed = bench.app.keyed(&CanvasKey::new(&default_tenant(), id.as_str()), "webhook k").await.unwrap();
    let session = SessionKey::new(&default_tenant(), keyed.session);
    let path = format!("/api/v1/agents/{id}/webhook");
    let with_key = [JSON, ("idempotency-key", "k")];
    let copy = bench.app.engine.hold_session(&session).unwrap();
    refused(&called(&bench, &path, &with_key, "{\"n\": 1}").await, "has waited 0 s");
    assert_eq!(bench.app.sessions.load(&session).await.unwrap().revision, 0);
    drop(copy);
    assert_eq!(called(&bench, &path, &with_key, "{\"n\": 1}").await.status, 200);
}

#[tokio::test]
async fn an_idempotency_key_applies_across_midnight() {
    let clock = HandClock::at(1_700_000_000_000);
    let made = bench(Script::new()).await;
    let settings = (Auth::On, LimitsConfig::default());
    let there = process_at(made.store.clone(), made.model.clone(), settings, clock.clone());
    let bench = Bench { token: made.token.clone(), ..there };
    let id = bench.store("Hook", canvas(&open())).await;
    let path = format!("/api/v1/agents/{id}/webhook");
    for _ in 0..20 {
        let answer = called(&bench, &path, &[JSON, ("idempotency-key", "k1")], "{\"n\": 1}").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        clock.go_on(3_600_000);
    }
    assert_eq!(bench.get("/api/v1/runs").await.data()["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_response_follows_the_settings_of_the_canvas() {
    let bench = bench(Script::new()).await;
    let of = async |title: &str, more: Json| {
        let id = bench.store(title, canvas(&with(open(), &more))).await;
        called(&bench, &format!("/api/v1/agents/{id}/webhook"), &[JSON], "{\"n\": 1}").await
    };
    let said = of(
        "Said",
        json!({"execution_mode": "Immediately",
        "response": {"status": 202, "body_template": "{\"ok\": true}"}}),
    )
    .await;
    assert_eq!((said.status.as_u16(), said.json()), (202, json!({"ok": true})));
    let text =
        of("Text", json!({"execution_mode": "Immediately", "response": {"body_template": "<b>thanks</b>"}}))
            .await;
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(of("Nothing", json!({"execution_mode": "Immediately"})).await.text, "null");
    let deferred = of("Deferred", json!({"execution_mode": "Deferred"})).await;
    assert_eq!(deferred.status, 202);
    let run = deferred.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(deferred.headers["location"], format!("/api/v1/runs/{run}").as_str());
    let events = bench.get(&format!("/api/v1/runs/{run}/events")).await.text;
    assert!(events.contains("\"status\":\"succeeded\""), "{events}");
    // In pieces for callers that request a stream, without node events.
    let id = bench.store("Streamed", canvas(&open())).await;
    let headers = [JSON, ("accept", "text/event-stream")];
    let stream = called(&bench, &format!("/api/v1/agents/{id}/webhook"), &headers, "{\"n\": 1}").await;
    let frames = stream.frames();
    let kinds = crate::support::events(&frames);
    assert_eq!(kinds.last().unwrap(), "[DONE]");
    assert!(kinds.contains(&"message".to_owned()) && !stream.text.contains("node_finished"), "{kinds:?}");
    assert_eq!(crate::support::said(&frames).trim(), "1 {\"n\":1}");
    // The last message may set the status.
    let teapot = json!({"components": {
        "begin": component("Begin", &with(open(), &json!({"mode": "Webhook"})), &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["short and stout"], "status": 418}), &[]),
    }});
    let id = bench.store("Teapot", teapot).await;
    let answer = called(&bench, &format!("/api/v1/agents/{id}/webhook"), &[JSON], "{\"n\": 1}").await;
    assert_eq!((answer.status.as_u16(), answer.json()["code"].clone()), (418, json!(418)));
    // A failed run is reported in the same form as every other refusal.
    let mut failing = chat_canvas();
    failing["components"]["begin"] =
        component("Begin", &with(open(), &json!({"mode": "Webhook"})), &["Agent:A"]);
    let id = bench.store("Failing", failing).await;
    let answer = called(&bench, &format!("/api/v1/agents/{id}/webhook"), &[JSON], "{\"n\": 1}").await;
    assert_eq!((answer.status.as_u16(), answer.json()["success"].clone()), (400, json!(false)));
}

#[tokio::test]
async fn files_of_a_form_are_kept_for_the_canvas_that_declares_them() {
    let bench = bench(Script::new()).await;
    let schema = json!({"body": {"properties": {"note": {"type": "string"}, "doc": {"type": "file"}}}});
    let id = bench.store("Files", canvas(&with(open(), &json!({"schema": schema})))).await;
    let kind = ("content-type", "multipart/form-data; boundary=B");
    let part = |name: &str, file: &str, text: &str| {
        let file = if file.is_empty() { String::new() } else { format!("; filename=\"{file}\"") };
        format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{text}\r\n")
    };
    let body = part("note", "", "hi")
        + &part("doc", "a.txt", "of a file")
        + &part("other", "b.txt", "x")
        + "--B--\r\n";
    let path = format!("/api/v1/agents/{id}/webhook");
    let answer = called(&bench, &path, &[kind], &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("a.txt") && message.contains("hi") && !message.contains("b.txt"), "{message}");
    // Some clients write a name beyond ASCII in the encoded form alone.
    let head = "Content-Disposition: form-data; name=\"doc\"; filename*=utf-8''%E8%AF%AD.txt";
    let encoded = part("note", "", "hi") + &format!("--B\r\n{head}\r\n\r\nof a file\r\n--B--\r\n");
    let answer = called(&bench, &path, &[kind], &encoded).await;
    assert!(answer.status == 200 && answer.text.contains("语.txt"), "{}", answer.text);
    let many: String =
        (0..11).map(|n| part("doc", &format!("{n}.txt"), "x")).collect::<String>() + "--B--\r\n";
    refused(&called(&bench, &path, &[kind], &many).await, "more than 10 files");
    refused(&called(&bench, &path, &[kind], "--B").await, "the form cannot be read");
    // A repeat of the same call stores nothing, either.
    for _ in 0..2 {
        let answer = called(&bench, &path, &[kind, ("idempotency-key", "k")], &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    assert_eq!(
        bench.app.remove_old_files(i64::MAX).await.unwrap(),
        3,
        "files of the three runs that there are"
    );
}

#[tokio::test]
async fn of_equal_calls_at_the_same_time_one_keeps_its_files() {
    let made = bench(Script::new()).await;
    let schema = json!({"body": {"properties": {"doc": {"type": "file"}}}});
    let id = made.store("Files", canvas(&with(open(), &json!({"schema": schema})))).await;
    let sessions = Arc::new(FaultyStore::new(Arc::clone(&made.store), FaultRates::default(), Dice::new(0)));
    let app = made.app.with_parts(|parts| parts.sessions = sessions.clone());
    let router = router(ServerState::new(app.clone(), Auth::On).unwrap());
    let bench = Bench { app, router, ..made.with(&made.token) };
    let path = format!("/api/v1/agents/{id}/webhook");
    let headers = [("content-type", "multipart/form-data; boundary=B"), ("idempotency-key", "k")];
    let body =
        "--B\r\nContent-Disposition: form-data; name=\"doc\"; filename=\"a.txt\"\r\n\r\nx\r\n--B--\r\n";
    // Both have stored their file, and have found no run, before either creates the conversation.
    sessions.fall_asleep();
    let call = || called(&bench, &path, &headers, body);
    let wake = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        sessions.wake_up();
    };
    let (first, second, ()) = futures::join!(call(), call(), wake);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 200), "{} {}", first.text, second.text);
    assert_eq!(bench.get("/api/v1/runs").await.data()["runs"].as_array().unwrap().len(), 1);
    assert_eq!(bench.app.remove_old_files(i64::MAX).await.unwrap(), 1, "those of the run");
}

#[tokio::test]
async fn an_owner_tests_a_webhook_and_sees_the_result() {
    let bench = bench(Script::new()).await;
    let token =
        json!({"security": {"auth_type": "token", "token": {"token_header": "X", "token_value": "rosebud"}}});
    let id = bench.store("Hook", canvas(&with(open(), &token))).await;
    let logs = format!("/api/v1/agents/{id}/webhook/logs");
    let begun = bench.get(&logs).await.data();
    assert_eq!((&begun["webhook_id"], &begun["finished"]), (&Json::Null, &json!(false)));
    let since = begun["next_since_ts"].as_f64().unwrap() - 0.001;
    let test = format!("/api/v1/agents/{id}/webhook/test?q=hi");
    let answer = bench.post(&test, json!({"n": 3})).await;
    assert_eq!(answer.json()["message"], "hi  3 {\"n\":3}", "{}", answer.text);
    // Nobody else can test it or see the result.
    assert_eq!(called(&bench, &test, &[JSON], "{\"n\": 1}").await.status, 401);
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    refused(&stranger.post(&test, json!({"n": 3})).await, "Canvas not found.");
    assert_ne!(stranger.get(&logs).await.json()["code"], 0);
    let found = bench.get(&format!("{logs}?since_ts={since}")).await.data();
    let call = found["webhook_id"].as_str().unwrap();
    let path = format!("/api/v1/webhook_trace/{id}?webhook_id={call}&since_ts={}", found["next_since_ts"]);
    let told = bench.get(&path).await.data();
    assert_eq!(told["finished"], true, "{told}");
    let events = told["events"].as_array().unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds.last()), ("workflow_started", Some(&"finished")));
    let times: Vec<f64> = events.iter().map(|event| event["ts"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let rest =
        bench.get(&format!("{logs}?webhook_id={call}&since_ts={}", told["next_since_ts"])).await.data();
    assert_eq!((&rest["events"], &rest["finished"]), (&json!([]), &json!(true)));
    let unknown = bench.get(&format!("{logs}?webhook_id=gone&since_ts=0")).await.data();
    assert_eq!(unknown["finished"], true);
}

#[tokio::test]
async fn other_programs_call_the_published_version() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Hook", canvas(&open())).await;
    bench.ask("PUT", &format!("/api/v1/agents/{id}"), json!({"release": true})).await.data();
    let mut draft = canvas(&open());
    draft["components"]["Message:M"]["obj"]["params"]["content"] = json!(["draft"]);
    bench.ask("PUT", &format!("/api/v1/agents/{id}"), json!({"dsl": draft})).await.data();
    let answer = called(&bench, &format!("/api/v1/agents/{id}/webhook"), &[JSON], "{\"n\": 1}").await;
    assert_eq!(answer.json()["message"], "  1 {\"n\":1}");
    let tried = bench.post(&format!("/api/v1/agents/{id}/webhook/test"), json!({"n": 1})).await;
    assert_eq!(tried.json()["message"], "draft");
}

#[tokio::test]
async fn an_equal_id_in_another_tenant_changes_nothing() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Hook", canvas(&open())).await;
    let stranger = weft_core::CanvasKey::new(&weft_core::TenantId::from("another"), id.as_str());
    let head = weft_core::seam::canvas_store::CanvasHead { title: "T".to_owned(), ..Default::default() };
    bench.app.canvases.put(&stranger, &head, &echo_canvas().to_string()).await.unwrap();
    let answer = called(&bench, &format!("/api/v1/agents/{id}/webhook"), &[JSON], "{\"n\": 1}").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}
