//! Database error texts stay in the log, whatever route meets them.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value as Json, json};
use tower::ServiceExt as _;
use weft_app::{App, Auth, Config, assemble};
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::seam::run_store::StoredRun;
use weft_core::{CanvasId, RunKey};
use weft_server::router::router;
use weft_server::state::ServerState;

use crate::support::{default_tenant, echo_canvas};

/// Words of databases and their drivers, and the location of our database.
const PRIVATE: [&str; 10] = [
    "sqlx",
    "sqlite",
    "malformed",
    "not a database",
    "constraint failed",
    "weft.db",
    "no such table",
    "(code:",
    "disk image",
    "execution error",
];

async fn ask(app: &App, method: &str, path: &str, body: &Json) -> String {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let state = ServerState::new(app.clone(), Auth::Off).unwrap();
    let response = router(state).oneshot(request.body(body).unwrap()).await.unwrap();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An app with its store in a file, and one agent.
async fn on_disk(folder: &std::path::Path) -> App {
    let app = assemble(&Config { data: folder.to_owned(), ..Config::default() }).await.unwrap();
    let head = CanvasHead { title: "Echo".into(), ..CanvasHead::default() };
    let dsl = echo_canvas().to_string();
    let id = Some(CanvasId::from("echo"));
    // The second process finds it already there.
    let _ = app.put_canvas(&default_tenant(), id, head, &dsl).await;
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_shows_the_error_text_of_a_broken_store() {
    let folder = tempfile::tempdir().unwrap();
    let app = on_disk(folder.path()).await;
    let dataset = "0".repeat(32);
    let of = |rest: &str| format!("/api/v1/datasets/{dataset}{rest}");
    let messages = json!([{"role": "user", "content": "x"}]);
    let routes = [
        ("GET", "/readyz".to_owned(), Json::Null),
        ("GET", "/api/v1/agents".to_owned(), Json::Null),
        ("GET", "/api/v1/agents/other".to_owned(), Json::Null),
        ("POST", "/api/v1/agents".to_owned(), json!({"title": "x", "dsl": echo_canvas()})),
        ("PUT", "/api/v1/agents/echo".to_owned(), json!({"title": "y"})),
        ("DELETE", "/api/v1/agents/echo".to_owned(), Json::Null),
        ("GET", "/api/v1/agents/echo/sessions".to_owned(), Json::Null),
        ("POST", "/api/v1/agents/echo/sessions".to_owned(), json!({})),
        ("GET", "/api/v1/agents/echo/sessions/s".to_owned(), Json::Null),
        ("DELETE", "/api/v1/agents/echo/sessions".to_owned(), json!({"ids": ["s"]})),
        ("POST", "/api/v1/agents/echo/completions".to_owned(), json!({"query": "x", "stream": true})),
        ("POST", "/api/v1/agents/echo/completions".to_owned(), json!({"query": "x", "stream": false})),
        ("POST", "/api/v1/agents/chat/completions".to_owned(), json!({"agent_id": "echo", "query": "x"})),
        (
            "POST",
            "/api/v1/agents_openai/echo/chat/completions".to_owned(),
            json!({"model": "m", "messages": messages}),
        ),
        ("POST", "/api/v1/completion".to_owned(), json!({"conversation_id": "s", "messages": messages})),
        ("POST", "/api/canvas/completion".to_owned(), json!({"id": "echo", "query": "x"})),
        ("GET", "/v1/canvas/list".to_owned(), Json::Null),
        ("GET", "/api/v1/runs".to_owned(), Json::Null),
        ("GET", "/api/v1/runs/r".to_owned(), Json::Null),
        ("GET", "/api/v1/runs/r/events".to_owned(), Json::Null),
        ("POST", "/api/v1/runs/r/replay".to_owned(), json!({})),
        ("GET", "/api/v1/tasks".to_owned(), Json::Null),
        ("GET", "/api/v1/tasks/t".to_owned(), Json::Null),
        ("POST", "/api/v1/tasks/t/answer".to_owned(), json!({"decision": "approve"})),
        ("GET", "/api/v1/agents/echo/schedules".to_owned(), Json::Null),
        ("GET", "/api/v1/spending".to_owned(), Json::Null),
        ("GET", "/api/v1/system/tokens".to_owned(), Json::Null),
        ("POST", "/api/v1/system/tokens".to_owned(), json!({"name": "x"})),
        ("DELETE", "/api/v1/system/tokens/x".to_owned(), Json::Null),
        ("GET", "/api/v1/datasets".to_owned(), Json::Null),
        ("POST", "/api/v1/datasets".to_owned(), json!({"name": "x"})),
        ("GET", of(""), Json::Null),
        ("PUT", of(""), json!({"description": "x"})),
        ("GET", of("/documents"), Json::Null),
        ("DELETE", of("/documents"), json!({"ids": ["d"]})),
        ("GET", of("/documents/d"), Json::Null),
        ("POST", of("/documents/d/chunks"), json!({"content": "x"})),
        ("GET", of("/metadata/summary"), Json::Null),
        ("POST", "/api/v1/retrieval".to_owned(), json!({"question": "x", "dataset_ids": [dataset]})),
    ];
    // The file is replaced while the program uses it.
    let file = folder.path().join("weft.db");
    let length = usize::try_from(std::fs::metadata(&file).unwrap().len()).unwrap();
    for name in ["weft.db", "weft.db-wal"] {
        std::fs::write(folder.path().join(name), vec![0xa5; length]).unwrap();
    }
    let mut told = 0;
    for (method, path, body) in &routes {
        let answer = ask(&app, method, path, body).await;
        let lower = answer.to_lowercase();
        for word in PRIVATE {
            assert!(!lower.contains(word), "{method} {path}: {answer}");
        }
        told += usize::from(answer.contains("the log has the reason under"));
    }
    assert!(told > routes.len() / 2, "only {told} of {} routes used the store", routes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_conflict_shows_no_database_error() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (on_disk(folder.path()).await, on_disk(folder.path()).await);
    let turn = json!({"query": "x", "session_id": "s", "stream": false, "multitask_strategy": "reject"});
    let path = "/api/v1/agents/echo/completions";
    assert!(ask(&here, "POST", path, &turn).await.contains("you said: x"));
    // Whether the two requests collide depends on timing. If they do, neither shows the database's error text.
    for _ in 0..30 {
        let (a, b) = tokio::join!(ask(&here, "POST", path, &turn), ask(&there, "POST", path, &turn));
        for answer in [a, b] {
            assert!(!answer.contains("UNIQUE") && !answer.contains("run.tenant_id"), "{answer}");
        }
    }
    // According to the database, a third run is active.
    let run = StoredRun {
        query: "x".into(),
        owner: Some("third".into()),
        ..StoredRun::begun(RunKey::new(&default_tenant(), "r"), "s", "echo", here.clock.now_ms())
    };
    here.runs.create(&run).await.unwrap();
    let refused =
        here.runs.create(&StoredRun { key: RunKey::new(&default_tenant(), "q"), ..run.clone() }).await;
    assert!(refused.unwrap_err().message.contains("in the middle of a turn"));
    for app in [&here, &there] {
        let answer = ask(app, "POST", path, &turn).await;
        assert!(answer.contains("in the middle of a turn"), "{answer}");
    }
}
