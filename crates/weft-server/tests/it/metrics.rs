//! Metrics for operators, and who may read them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use weft_app::Auth;
use weft_app::config::{AccountsConfig, LimitsConfig};
use weft_core::Secret;
use weft_core::access::MemberRole;
use weft_engine::clock::SystemClock;
use weft_server::router::router;
use weft_server::state::ServerState;
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Script, ScriptedModel};

use crate::support::{Bench, bench, chat_canvas, default_tenant, echo_canvas, endless, process_with};

impl Bench {
    /// The value of a metric.
    async fn metric(&self, name: &str) -> Option<f64> {
        let page = self.get("/metrics").await.text;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        Some(value.parse().unwrap())
    }
}

#[tokio::test]
async fn only_owners_of_the_first_tenant_may_read_the_metrics() {
    let bench = bench(Script::new()).await;
    let (owner, _) = bench.as_member("default", MemberRole::Owner).await;
    let page = owner.get("/metrics").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/plain; version=0.0.4");
    for (tenant, role) in [
        ("default", MemberRole::Editor),
        ("default", MemberRole::Viewer),
        ("another", MemberRole::Owner),
        ("another", MemberRole::Viewer),
    ] {
        let (member, _) = bench.as_member(tenant, role).await;
        let refused = member.get("/metrics").await;
        assert_eq!((refused.status.as_u16(), refused.refusal().0), (403, 103), "{tenant} {role}");
    }
    let nobody = Request::builder().uri("/metrics").body(Body::empty()).unwrap();
    assert_eq!(bench.send(nobody).await.status, 401);
}

#[tokio::test]
async fn a_metrics_token_opens_only_the_metrics_and_replaces_other_access() {
    let token = "metrics-token-of-an-operator";
    let config = AccountsConfig { metrics_token: Secret::new(token), ..AccountsConfig::default() };
    let store = (Arc::new(MemoryStore::new()), ScriptedModel::new(Script::new()));
    let bench = process_with(store, (Auth::On, LimitsConfig::default()), (Arc::new(SystemClock), config));
    let scraper = bench.with(token);
    assert_eq!(scraper.get("/metrics").await.status, 200);
    for path in ["/api/v1/agents", "/api/v1/runs", "/api/v1/usage"] {
        assert_eq!(scraper.get(path).await.status, 401, "{path}");
    }
    let (owner, _) = bench.as_member("default", MemberRole::Owner).await;
    assert_eq!(owner.get("/metrics").await.refusal().0, 103);
    for wrong in ["metrics-token-of-an-operato", "", "METRICS-TOKEN-OF-AN-OPERATOR"] {
        assert_eq!(bench.with(wrong).get("/metrics").await.status, 401, "{wrong}");
    }
}

#[tokio::test]
async fn runs_and_requests_are_counted_by_fixed_labels() {
    let bench = bench(Script::new()).await;
    let id = bench.store("canary4711", echo_canvas()).await;
    let asked = json!({"query": "canary4711", "stream": false, "user_id": "canary4711"});
    bench.post(&format!("/api/v1/agents/{id}/completions"), asked).await.data();
    bench.get("/api/v1/canary4711?canary4711=1").await;
    let odd = Request::builder().method("CANARY4711").uri("/healthz").body(Body::empty()).unwrap();
    bench.send(odd).await;
    let route = "route=\"/api/v1/agents/{id}/completions\"";
    for (name, expected) in [
        ("weft_runs_started_total".to_owned(), 1.0),
        ("weft_runs_ended_total{status=\"succeeded\"}".to_owned(), 1.0),
        ("weft_runs_ended_total{status=\"failed\"}".to_owned(), 0.0),
        (format!("weft_http_requests_total{{method=\"POST\",{route},status=\"2xx\"}}"), 1.0),
        (format!("weft_http_request_duration_seconds_count{{method=\"POST\",{route}}}"), 1.0),
        ("weft_http_requests_total{method=\"GET\",route=\"none\",status=\"4xx\"}".to_owned(), 1.0),
        ("weft_backlog{queue=\"documents\"}".to_owned(), 0.0),
    ] {
        assert_eq!(bench.metric(&name).await, Some(expected), "{name}");
    }
    let page = bench.get("/metrics").await.text;
    assert!(page.contains("method=\"other\",route=\"/healthz\""), "{page}");
    for private in ["canary4711", id.as_str(), "default"] {
        assert!(!page.to_lowercase().contains(&private.to_lowercase()), "{private} in {page}");
    }
    // Each family appears once, with its help text and type.
    let told = |what: &str| -> Vec<String> {
        let named = |line: &str| line.strip_prefix(what)?.split(' ').next().map(str::to_owned);
        page.lines().filter_map(named).collect()
    };
    let types = told("# TYPE ");
    assert_eq!(told("# HELP "), types);
    let mut once = types.clone();
    once.dedup();
    assert_eq!(once, types);
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        let name = name.split('{').next().unwrap();
        let is_of = |family: &String| {
            let rest = name.strip_prefix(family.as_str());
            rest.is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
        };
        assert!(types.iter().any(is_of), "{line}");
    }
}

#[tokio::test]
async fn active_runs_and_streams_are_counted_while_they_last() {
    let bench = bench(Script::new().reply(endless(&["So "]).always())).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let mut stream = bench.open("/v1/canvas/completion", json!({"id": id, "query": "x"})).await;
    stream.until("So ").await;
    assert_eq!(bench.metric("weft_runs_under_way").await, Some(1.0));
    assert_eq!(bench.metric("weft_http_streams_open").await, Some(1.0));
    let run = stream.frames()[0].json()["task_id"].as_str().unwrap().to_owned();
    assert!(bench.app.cancel(&default_tenant(), &run).await.unwrap());
    stream.whole().await;
    assert_eq!(bench.metric("weft_http_streams_open").await, Some(0.0));
    assert_eq!(bench.metric("weft_runs_ended_total{status=\"cancelled\"}").await, Some(1.0));
}

/// A page with some values missing is better than none.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_block_the_other_metrics() {
    let plain = bench(Script::new()).await;
    let app = plain.app.with_parts(|parts| {
        parts.meters.backlog = Arc::new(|| Box::pin(std::future::pending()));
    });
    let router = router(ServerState::new(app.clone(), Auth::On).unwrap());
    let bench = Bench { app, router, ..plain };
    let asked = tokio::time::timeout(Duration::from_secs(60), bench.get("/metrics"));
    let page = asked.await.unwrap().text;
    assert!(page.contains("weft_build_info{version=") && !page.contains("weft_backlog"), "{page}");
}
