//! Authentication, and requests that match no route.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use futures::{StreamExt as _, stream};
use serde_json::json;
use weft_app::Auth;
use weft_app::config::LimitsConfig;
use weft_testkit::Script;

use crate::support::{bench, bench_with, default_tenant, echo_canvas};

#[tokio::test]
async fn a_valid_token_is_required() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let routes = [
        ("GET", "/api/v1/agents".to_owned()),
        ("POST", format!("/api/v1/agents/{id}/completions")),
        ("POST", "/api/v1/agents/chat/completions".to_owned()),
        ("POST", format!("/api/v1/agents_openai/{id}/chat/completions")),
        ("GET", "/v1/canvas/list".to_owned()),
        ("POST", "/api/canvas/completion".to_owned()),
        ("POST", "/v1/api/completion".to_owned()),
        ("GET", "/api/v1/runs".to_owned()),
        ("GET", "/api/v1/models".to_owned()),
        ("GET", format!("/api/v1/agents/{id}/logs/x")),
        ("GET", "/v1/canvas/trace".to_owned()),
        ("POST", "/api/v1/tasks/x/cancel".to_owned()),
    ];
    let tokens = [None, Some("Bearer weft-wrong"), Some("Bearer"), Some("Basic eDp5"), Some("")];
    for (method, path) in &routes {
        for token in tokens {
            let mut request = Request::builder().method(*method).uri(path);
            if let Some(token) = token {
                request = request.header("authorization", token);
            }
            let refused = bench.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{method} {path} {token:?}");
            assert_eq!(refused.json()["code"], 401);
            assert_eq!(refused.json()["message"], "<Unauthorized '401: Unauthorized'>");
        }
    }
    for path in ["/healthz", "/readyz", "/api/v1/system/ping"] {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        assert_eq!(bench.send(request).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn the_first_token_is_created_once() {
    let bench = bench(Script::new()).await;
    assert!(bench.app.first_token().await.unwrap().is_none());
    assert_eq!(
        bench.app.tokens.find(&weft_app::tokens::hash(&bench.token)).await.unwrap().tenant,
        default_tenant()
    );
}

#[tokio::test]
async fn without_authentication_only_loopback_names_are_accepted() {
    let bench = bench_with(Script::new(), Auth::Off, LimitsConfig::default()).await;
    let from = |host: &str| {
        Request::builder().uri("/api/v1/agents").header("host", host).body(Body::empty()).unwrap()
    };
    assert_eq!(bench.send(from("127.0.0.1:9380")).await.json()["code"], 0);
    let refused = bench.send(from("evil.example")).await;
    assert_eq!(refused.json()["code"], 103);
    assert!(refused.headers.get("access-control-allow-origin").is_none());
}

/// A page may send a form to any address without asking: an empty body or `multipart/form-data`. The address of a
/// picture is enough where `GET` changes something.
#[tokio::test]
async fn without_authentication_other_origins_cannot_change_anything() {
    let bench = bench_with(Script::new(), Auth::Off, LimitsConfig::default()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let from = |method: &str, path: &str, kind: &str, (name, value): (&str, &str)| {
        let request = Request::builder().method(method).uri(path).header("host", "localhost:9380");
        request.header("content-type", kind).header(name, value).body(Body::empty()).unwrap()
    };
    let reset = format!("/api/v1/agents/{id}/reset");
    let (hook, tried) = (format!("/api/v1/webhook/{id}?q=x"), format!("/api/v1/agents/{id}/webhook/test"));
    let begun = format!("/v1/api/new_conversation?canvas_id={id}");
    let routes = [
        ("POST", reset.as_str(), "text/plain"),
        ("POST", "/api/v1/datasets/x/documents", "multipart/form-data; boundary=b"),
        ("POST", "/api/v1/tasks/x/cancel", "application/x-www-form-urlencoded"),
        ("DELETE", "/api/v1/agents/x", "text/plain"),
        ("PUT", "/v1/canvas/cancel/x", "text/plain"),
        ("GET", hook.as_str(), "text/plain"),
        ("GET", tried.as_str(), "text/plain"),
        ("GET", begun.as_str(), "text/plain"),
    ];
    let pages = [("origin", "http://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")];
    for (method, path, kind) in routes {
        for page in pages {
            let refused = bench.send(from(method, path, kind, page)).await;
            assert_eq!(
                (refused.status, refused.refusal().0),
                (StatusCode::FORBIDDEN, 103),
                "{path} {page:?}"
            );
        }
        let own = bench.send(from(method, path, kind, ("origin", "http://localhost:9380"))).await;
        assert_ne!(own.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn pages_with_a_token_may_call_from_any_origin() {
    let bench = bench(Script::new()).await;
    let asked = Request::builder().method("OPTIONS").uri("/api/v1/agents");
    let asked = asked.header("origin", "http://app.example").header("access-control-request-method", "POST");
    let asked = asked.header("access-control-request-headers", "authorization,content-type");
    let allowed = bench.send(asked.body(Body::empty()).unwrap()).await.headers;
    // `*` would not cover the `authorization` header.
    assert_eq!(allowed["access-control-allow-headers"], "authorization,content-type");
    assert_eq!(allowed["access-control-allow-origin"], "*");
    assert!(allowed.get("access-control-allow-credentials").is_none());
}

#[tokio::test]
async fn requests_that_match_no_route_get_an_error_response() {
    let limits = LimitsConfig { body_bytes: 1_000, ..LimitsConfig::default() };
    let bench = bench_with(Script::new(), Auth::On, limits).await;
    let missing = bench.get("/api/v1/nothing?x=1").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let body =
        json!({"code": 404, "message": "Not Found: /api/v1/nothing", "data": null, "error": "Not Found"});
    assert_eq!(missing.json(), body);
    let garbled = bench.get("/api/v1/agents/%FF").await;
    assert_eq!((garbled.status, garbled.refusal().0), (StatusCode::BAD_REQUEST, 101));
    let method = bench.ask("DELETE", "/api/v1/completion", json!(null)).await;
    assert_eq!((method.status, method.refusal().0), (StatusCode::OK, 100));
    assert_eq!(method.refusal().1, "<MethodNotAllowed '405: Method Not Allowed'>");
    let large = bench.post("/api/v1/agents", json!({"title": "x".repeat(2_000), "dsl": {}})).await;
    assert_eq!((large.status, large.refusal().0), (StatusCode::PAYLOAD_TOO_LARGE, 413));
    assert!(large.refusal().1.contains("`limits.body_bytes` (1000 bytes)"), "{}", large.text);
    let check = async |kind: &str, body: &str, words: &str| {
        let mut request = bench.request("POST", "/api/v1/agents", &json!(null));
        request.headers_mut().insert("content-type", kind.parse().unwrap());
        *request.body_mut() = Body::from(body.to_owned());
        let refused = bench.send(request).await;
        assert_eq!((refused.status, refused.refusal().0), (StatusCode::OK, 101), "{body}");
        assert!(refused.refusal().1.contains(words), "{}", refused.text);
    };
    check("application/json", "{\"title\": ", "Malformed JSON syntax").await;
    check("application/json", "[]", "expected object, got list").await;
    check("text/plain", "{}", "Unsupported content type: Expected application/json, got text/plain").await;
    check("application/json", "{\"title\": \"\u{0}\"", "Malformed JSON syntax").await;
    assert_eq!(bench.get("/api/v1/runs/gone/events").await.refusal(), (102, "Run not found!".into()));
    let place = bench.get("/api/v1/runs/gone/events?after=x").await.refusal();
    assert_eq!(place.0, 101);
    // A database would refuse it as a pattern, and that would look like a defect of the server.
    let long = "a".repeat(60_000);
    for path in ["agents", "chats", "searches", "files", "memories"] {
        let refused = bench.get(&format!("/api/v1/{path}?keywords={long}")).await.refusal();
        assert_eq!(refused, (101, "`keywords` has more than 1000 characters".into()), "{path}");
    }
    assert_eq!(bench.get("/api/v1/agents?keywords=%FF%00&page=18446744073709551615").await.json()["code"], 0);
}

#[tokio::test]
async fn a_compressed_body_is_refused_with_what_to_do() {
    let bench = bench(Script::new()).await;
    for (path, kind) in [
        ("/api/v1/agents", "application/json"),
        ("/api/v1/files", "multipart/form-data; boundary=b"),
        ("/api/v1/chat/audio/transcription", "multipart/form-data; boundary=b"),
    ] {
        let mut request = bench.request("POST", path, &json!({"title": "A"}));
        request.headers_mut().insert("content-type", kind.parse().unwrap());
        request.headers_mut().insert("content-encoding", "GZIP".parse().unwrap());
        let refused = bench.send(request).await.refusal();
        assert!(refused.0 == 101 && refused.1.contains("compressed (GZIP)"), "{path}: {refused:?}");
    }
    let mut request = bench.request("GET", "/api/v1/agents", &json!(null));
    request.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    bench.send(request).await.data();
}

#[tokio::test]
async fn too_many_runs_are_refused_and_may_be_retried() {
    let limits = LimitsConfig { runs_at_once: 1, ..LimitsConfig::default() };
    let script = Script::new().reply(crate::support::endless(&["So "]).always());
    let bench = bench_with(script, Auth::On, limits).await;
    let id = bench.store("Chat", crate::support::chat_canvas()).await;
    let mut stream = bench.open("/v1/canvas/completion", json!({"id": id, "query": "x"})).await;
    stream.until("So ").await;
    let refused = bench.post(&format!("/api/v1/agents/{id}/completions"), json!({"query": "x"})).await;
    assert_eq!((refused.status, refused.refusal().0), (StatusCode::TOO_MANY_REQUESTS, 429));
    let run = stream.frames()[0].json()["task_id"].as_str().unwrap().to_owned();
    assert!(bench.app.cancel(&default_tenant(), &run).await.unwrap());
    stream.whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_times_out() {
    let bench = bench(Script::new()).await;
    let mut request = bench.request("POST", "/api/v1/agents", &json!(null));
    let first = futures::stream::iter([Ok::<_, std::io::Error>("{\"title\": ")]);
    *request.body_mut() = Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()));
    let refused = bench.send(request).await.refusal();
    assert_eq!(refused, (101, "the body of the request did not arrive in time".into()));
}

#[tokio::test]
async fn a_part_of_a_form_whose_head_never_ends_is_refused_early() {
    let bench = bench(Script::new()).await;
    for begun in ["--frontier\r\nX-Long: ", "no boundary at all"] {
        let taken = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&taken);
        let more = stream::repeat(Bytes::from(vec![b'x'; 16 << 10])).take(4_000);
        let sent = stream::iter([Bytes::from(begun)]).chain(more).map(move |piece| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(piece)
        });
        let mut request = bench.request("POST", "/api/v1/files", &json!(null));
        let kind = "multipart/form-data; boundary=frontier".parse().unwrap();
        request.headers_mut().insert("content-type", kind);
        *request.body_mut() = Body::from_stream(sent);
        let refused = bench.send(request).await.refusal();
        let words = "the head of a part of the form is too long: it may have 65536 bytes";
        assert_eq!(refused, (101, words.into()));
        let taken = taken.load(Ordering::Relaxed);
        assert!(taken < 20, "{taken} pieces were taken");
    }
}
