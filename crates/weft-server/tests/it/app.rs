//! The functions that routes and command line share, with the real backends in memory.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_app::{App, Config, assemble_in_memory};
use weft_core::seam::ToolSource;
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::seam::databases::{Database, DatabaseKind, TlsMode};
use weft_core::seam::tool_server_store::StoredToolServer;
use weft_core::{CanvasId, CanvasKey, ErrorKind, Secret, SessionId, SessionKey, TurnInput};
use weft_dsl::CompileOptions;
use weft_server::answer::collect;
use weft_server::dialect::ragflow::RunView;

use crate::support::{component, default_tenant, echo_canvas};

fn head(title: &str) -> CanvasHead {
    CanvasHead { title: title.into(), ..CanvasHead::default() }
}

async fn with_echo() -> (App, CanvasKey) {
    let app = assemble_in_memory(&Config::default()).await.unwrap();
    let dsl = serde_json::to_string_pretty(&echo_canvas()).unwrap();
    let id = Some(CanvasId::new("echo"));
    let (stored, problems) = app.put_canvas(&default_tenant(), id, head("Echo"), &dsl).await.unwrap();
    assert!(problems.iter().all(|problem| !problem.is_error()), "{problems:?}");
    (app, stored.key)
}

#[tokio::test]
async fn a_canvas_is_stored_compiled_and_run() {
    let (app, key) = with_echo().await;
    let session = app.open_session(&key, "ada", Some(SessionId::new("s1"))).await.unwrap();
    let opening = app.sessions.messages(&session.key, i64::MAX, 10).await.unwrap();
    assert_eq!((opening.len(), opening[0].content.as_str()), (1, "Hi!"));
    let input = TurnInput { query: "hello".into(), ..TurnInput::default() };
    let mut run = app.start_turn(&session.key, input).await.unwrap();
    let mut view = RunView::new(&run.key.id, &session.key.id);
    let answer = collect(&mut run.entries, &mut view).await.unwrap();
    assert_eq!(answer.text(), "you said: hello");
    assert!(view.started_ms > 0);
    let taken = app.open_session(&key, "ada", Some(SessionId::new("s1"))).await.unwrap_err();
    assert_eq!(taken.kind, ErrorKind::Conflict);
    assert!(!app.cancel(&default_tenant(), run.key.id.as_str()).await.unwrap(), "the run has ended");
    app.shut_down(Duration::from_secs(5)).await.unwrap();
    assert!(app.canvases.get(&key).await.is_err(), "the store is closed");
}

#[tokio::test]
async fn a_canvas_checked_before_storing_is_not_compiled_again() {
    let app = assemble_in_memory(&Config::default()).await.unwrap();
    // This component is only for benchmarks, so this app would refuse to compile it.
    let dsl = json!({"components": {
        "begin": component("Begin", &json!({}), &["Lookup:L"]),
        "Lookup:L": component("Lookup", &json!({"key": "k"}), &[]),
    }});
    let text = dsl.to_string();
    let options = CompileOptions { measuring: true, ..CompileOptions::default() };
    let compiled = |text: &str| {
        let canvas = weft_dsl::load(text.as_bytes()).unwrap();
        weft_dsl::compile(&canvas, &app.catalog, &options).unwrap().plan
    };
    let key = CanvasKey::new(&default_tenant(), "checked");
    let stored = app.put_checked(&key, head("Checked"), &text, compiled(&text)).await.unwrap();
    assert_eq!(app.plan(&key, &stored.version).await.unwrap().version, stored.version);
    // The plan applies only to the canvas that it was compiled for.
    let other = CanvasKey::new(&default_tenant(), "other");
    let (plan, changed) = (compiled(&text), text.replace("Lookup:L", "Lookup:M"));
    let stored = app.put_checked(&other, head("Other"), &changed, plan).await.unwrap();
    assert_eq!(app.plan(&other, &stored.version).await.unwrap_err().kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn a_version_is_compiled_once_and_its_sessions_keep_it() {
    let (app, key) = with_echo().await;
    let session = app.open_session(&key, "ada", None).await.unwrap();
    let plan = app.plan(&key, &session.canvas_version).await.unwrap();
    assert!(Arc::ptr_eq(&plan, &app.plan(&key, &session.canvas_version).await.unwrap()));
    assert_eq!(plan.version, session.canvas_version);

    // Different whitespace makes no new version; different content does.
    let compact = echo_canvas().to_string();
    let (same, _) = app.put_canvas(&key.tenant, Some(key.id.clone()), head("Echo"), &compact).await.unwrap();
    assert_eq!(same.version, session.canvas_version);
    let changed = compact.replace("you said", "now");
    let (changed, _) =
        app.put_canvas(&key.tenant, Some(key.id.clone()), head("Echo"), &changed).await.unwrap();
    assert_ne!(changed.version, session.canvas_version);
    let input = || TurnInput { query: "x".into(), ..TurnInput::default() };
    let said = async |session: &SessionKey| {
        let mut run = app.start_turn(session, input()).await.unwrap();
        let mut view = RunView::new(&run.key.id, &session.id);
        collect(&mut run.entries, &mut view).await.unwrap().text()
    };
    assert_eq!(said(&session.key).await, "you said: x");
    let newer = app.open_session(&key, "ada", None).await.unwrap();
    assert_eq!(said(&newer.key).await, "now: x");
    assert_eq!(app.plan(&key, "nothing").await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_canvas_with_a_missing_model_is_an_error() {
    let app = assemble_in_memory(&Config::default()).await.unwrap();
    let dsl = crate::support::chat_canvas().to_string();
    let (stored, problems) = app.put_canvas(&default_tenant(), None, head("Chat"), &dsl).await.unwrap();
    assert!(problems.iter().any(|problem| problem.message.contains("MODEL_NOT_CONFIGURED")), "{problems:?}");
    let refused = app.open_session(&stored.key, "ada", None).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(refused.message.contains("MODEL_NOT_CONFIGURED"), "{}", refused.message);
    for (dsl, words) in [("{", "is not JSON"), ("[1]", "is not a JSON object")] {
        let refused = app.put_canvas(&default_tenant(), None, head("Bad"), dsl).await.unwrap_err();
        assert!(refused.kind == ErrorKind::Invalid && refused.message.contains(words), "{}", refused.message);
    }
}

/// Addresses that a tenant configures pass the same address guard as those that canvases request.
#[tokio::test]
async fn addresses_tested_by_tenants_cannot_be_private() {
    let app = assemble_in_memory(&Config::default()).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254"] {
        let server = StoredToolServer {
            id: host.into(),
            name: host.into(),
            url: format!("http://{host}:{port}/mcp"),
            transport: "streamable-http".into(),
            description: String::new(),
            sealed: Secret::new("{}"),
            tools: serde_json::Map::new(),
            revision: 0,
            created_ms: 0,
            updated_ms: 0,
        };
        let refused = app.tool_servers.listed(&default_tenant(), &server, 5).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Denied, "{host}: {}", refused.full());
        app.tool_servers.store().add(&default_tenant(), &server).await.unwrap();
        let refused = ToolSource::tools(&app.tool_servers, &default_tenant(), host).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Denied, "{host}: {}", refused.full());
        for kind in [DatabaseKind::Postgres, DatabaseKind::MySql] {
            let database = Database {
                kind,
                host: host.trim_matches(['[', ']']).to_owned(),
                port,
                name: "d".into(),
                user: "u".into(),
                password: Secret::new("s3cret-0815"),
                tls: TlsMode::default(),
            };
            let refused = app.try_database(&default_tenant(), database).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Denied, "{host}: {}", refused.full());
            assert!(!refused.full().contains("s3cret"), "{}", refused.full());
        }
    }
    let nobody = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(nobody.is_err(), "a connection was made");
}
