//! Limits on how many objects a tenant may keep, as clients see them.

use serde_json::{Value as Json, json};
use weft_app::config::LimitsConfig;
use weft_app::{Auth, Config, assemble_in_memory};
use weft_server::router::router;
use weft_server::state::ServerState;
use weft_testkit::Script;

use crate::support::{Bench, bench, echo_canvas};

/// A server with a real store in memory.
async fn bench_within(limits: LimitsConfig) -> Bench {
    let app = assemble_in_memory(&Config { limits, ..Config::default() }).await.unwrap();
    let token = app.first_token().await.unwrap().unwrap().reveal().to_owned();
    let router = router(ServerState::new(app.clone(), Auth::On).unwrap());
    Bench { app, router, token, ..bench(Script::new()).await }
}

/// Checks that a request is refused with the status for a quota, and names the setting.
#[track_caller]
fn is_over(reading: &crate::support::Reading, setting: &str) {
    let (code, message) = reading.refusal();
    assert_eq!((reading.status.as_u16(), code), (429, 429), "{message}");
    assert!(message.contains(setting), "{message}");
}

async fn add(bench: &Bench, path: &str, body: Json) -> Json {
    bench.post(path, body).await.data()
}

#[tokio::test]
async fn canvases_and_datasets_are_limited_for_each_tenant() {
    let limits = LimitsConfig { tenant_canvases: 1, tenant_datasets: 1, ..LimitsConfig::default() };
    let bench = bench_within(limits).await;
    let stranger = bench.as_stranger().await;
    let agent = |title: &str| json!({"title": title, "dsl": echo_canvas()});
    let named = |name: &str| json!({"name": name});

    let first = bench.store("One", echo_canvas()).await;
    is_over(&bench.post("/api/v1/agents", agent("Two")).await, "limits.tenant_canvases");
    let renamed = json!({"title": "Uno", "dsl": echo_canvas()});
    bench.ask("PUT", &format!("/api/v1/agents/{first}"), renamed).await.data();
    stranger.store("One", echo_canvas()).await;
    bench.ask("DELETE", &format!("/api/v1/agents/{first}"), Json::Null).await.data();
    bench.store("Two", echo_canvas()).await;

    let first = add(&bench, "/api/v1/datasets", named("One")).await["id"].clone();
    is_over(&bench.post("/api/v1/datasets", named("Two")).await, "limits.tenant_datasets");
    add(&stranger, "/api/v1/datasets", named("One")).await;
    bench.ask("DELETE", "/api/v1/datasets", json!({"ids": [first]})).await.data();
    add(&bench, "/api/v1/datasets", named("Two")).await;
}

#[tokio::test]
async fn assistants_and_search_apps_are_limited_together_for_each_tenant() {
    let limits = LimitsConfig { tenant_chats: 1, ..LimitsConfig::default() };
    let bench = bench_within(limits).await;
    let stranger = bench.as_stranger().await;
    let named = |name: &str| json!({"name": name});
    let (chats, searches) = ("/api/v1/chats", "/api/v1/searches");

    let first = add(&bench, chats, named("One")).await["id"].clone();
    is_over(&bench.post(chats, named("Two")).await, "limits.tenant_chats");
    is_over(&bench.post(searches, named("Three")).await, "limits.tenant_chats");
    add(&stranger, chats, named("One")).await;
    bench.ask("DELETE", chats, json!({"ids": [first]})).await.data();
    add(&bench, searches, named("Three")).await;
}

#[tokio::test]
async fn sessions_and_api_keys_are_limited_for_each_tenant() {
    // One key is that of the first start.
    let limits = LimitsConfig { tenant_sessions: 1, tenant_api_keys: 2, ..LimitsConfig::default() };
    let bench = bench_within(limits).await;
    let stranger = bench.as_stranger().await;

    let agent = format!("/api/v1/agents/{}", bench.store("One", echo_canvas()).await);
    let sessions = format!("{agent}/sessions");
    let first = add(&bench, &sessions, json!({})).await["id"].clone();
    is_over(&bench.post(&sessions, json!({})).await, "limits.tenant_sessions");
    let question = json!({"query": "hello", "stream": false});
    is_over(&bench.post(&format!("{agent}/completions"), question.clone()).await, "limits.tenant_sessions");
    // The session that exists goes on.
    let next = json!({"query": "hello", "stream": false, "session_id": first});
    bench.post(&format!("{agent}/completions"), next).await.data();
    let theirs = stranger.store("One", echo_canvas()).await;
    add(&stranger, &format!("/api/v1/agents/{theirs}/sessions"), json!({})).await;
    bench.ask("DELETE", &sessions, json!({"ids": [first]})).await.data();
    bench.post(&format!("{agent}/completions"), question).await.data();

    let keys = "/api/v1/system/tokens";
    add(&bench, keys, json!({"name": "second"})).await;
    is_over(&bench.post(keys, json!({"name": "third"})).await, "limits.tenant_api_keys");
    add(&stranger, keys, json!({"name": "second"})).await;
}
