//! Share tokens: what a public page gives to its visitors.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use weft_app::Auth;
use weft_app::config::{AccountsConfig, LimitsConfig};
use weft_core::access::MemberRole;
use weft_core::seam::canvas_store::{CanvasFilter, CanvasHead, StoredCanvas};
use weft_core::seam::share_store::{ShareTarget, ShareToken};
use weft_core::seam::{CanvasStore, ShareStore};
use weft_core::{CanvasId, CanvasKey, Error, ErrorKind, Result, TenantId, async_trait};
use weft_server::router::router;
use weft_server::state::ServerState;
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Reply, Script, ScriptedModel};

use crate::support::{Bench, HandClock, bench, chat_canvas, echo_canvas, events, process_with, said};

const NOW_MS: i64 = 1_700_000_000_000;

/// A public page for an agent or an assistant.
async fn page(bench: &Bench, of: &str) -> Bench {
    let made = bench.post(&format!("/api/v1/{of}/shares"), json!({"name": "our page"})).await.data();
    let token = made["token"].as_str().unwrap();
    assert!(token.starts_with("weftshare-") && token.len() > 50, "{token}");
    assert_eq!(made["name"], "our page");
    bench.with(token)
}

async fn chat(bench: &Bench) -> String {
    let settings =
        json!({"name": "Chat", "prompt_config": {"system": "The hidden words.", "prologue": "Hello!"}});
    bench.post("/api/v1/chats", settings).await.data()["id"].as_str().unwrap().to_owned()
}

/// A store that does not respond.
struct Away;

fn away<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unavailable, "the store is away"))
}

#[async_trait]
impl CanvasStore for Away {
    async fn put(&self, _: &CanvasKey, _: &CanvasHead, _: &str) -> Result<StoredCanvas> {
        away()
    }

    async fn change(&self, _: &StoredCanvas, _: &CanvasHead, _: &str) -> Result<Option<StoredCanvas>> {
        away()
    }

    async fn get(&self, _: &CanvasKey) -> Result<StoredCanvas> {
        away()
    }

    async fn tenant_of(&self, _: &CanvasId) -> Result<Option<TenantId>> {
        away()
    }

    async fn version(&self, _: &CanvasKey, _: &str) -> Result<Arc<str>> {
        away()
    }

    async fn list(&self, _: &TenantId, _: &CanvasFilter) -> Result<(Vec<StoredCanvas>, u64)> {
        away()
    }

    async fn delete(&self, _: &CanvasKey) -> Result<()> {
        away()
    }
}

#[async_trait]
impl ShareStore for Away {
    async fn add_share(&self, _: &ShareToken) -> Result<()> {
        away()
    }

    async fn share(&self, _: &str) -> Result<ShareToken> {
        away()
    }

    async fn share_used(&self, _: &str, _: i64) -> Result<()> {
        away()
    }

    async fn shares(&self, _: &TenantId, _: &ShareTarget, _: u64) -> Result<Vec<ShareToken>> {
        away()
    }

    async fn remove_share(&self, _: &TenantId, _: &ShareTarget, _: &str) -> Result<()> {
        away()
    }

    async fn remove_shares(&self, _: &TenantId, _: &ShareTarget) -> Result<u64> {
        away()
    }
}

#[tokio::test]
async fn an_unavailable_store_is_not_reported_as_a_missing_agent() {
    let mut bench = bench(Script::new()).await;
    let shown = bench.store("Shown", echo_canvas()).await;
    let missing = bench.get("/api/v1/agentbots/nobody/inputs").await.refusal();
    assert_eq!((missing.0, missing.1.as_str()), (102, "Can't find agent by ID: nobody"));
    bench.app = bench.app.with_parts(|parts| parts.canvases = Arc::new(Away));
    bench.router = router(ServerState::new(bench.app.clone(), Auth::On).unwrap());
    let (code, message) = bench.get(&format!("/api/v1/agentbots/{shown}/inputs")).await.refusal();
    assert!(code == 105 && !message.contains("Can't find"), "{code} {message}");
}

#[tokio::test]
async fn a_share_token_opens_only_one_agent() {
    let bench = bench(Script::new()).await;
    let (shown, other) =
        (bench.store("Shown", echo_canvas()).await, bench.store("Other", echo_canvas()).await);
    let visitor = page(&bench, &format!("agents/{shown}")).await;
    let about = visitor.get(&format!("/api/v1/agentbots/{shown}/inputs")).await.data();
    assert_eq!((&about["title"], &about["prologue"]), (&json!("Shown"), &json!("Hi!")));
    let ask = format!("/api/v1/agentbots/{shown}/completions");
    let frames = visitor.post(&ask, json!({"question": "hello"})).await.frames();
    assert_eq!(said(&frames), "you said: hello");
    let told = events(&frames);
    assert!(!told.iter().any(|event| event.starts_with("node_")), "node events are hidden: {told:?}");
    let session = frames[0].json()["session_id"].as_str().unwrap().to_owned();
    let again = json!({"question": "again", "session_id": session, "stream": false});
    assert_eq!(visitor.post(&ask, again).await.data()["data"]["content"], "you said: again");
    let chat = chat(&bench).await;
    for (method, path) in [
        ("GET", format!("/api/v1/agentbots/{other}/inputs")),
        ("POST", format!("/api/v1/agentbots/{other}/completions")),
        ("GET", format!("/api/v1/chatbots/{shown}/info")),
        ("GET", format!("/api/v1/chatbots/{chat}/info")),
        ("GET", format!("/api/v1/agents/{shown}")),
        ("POST", format!("/api/v1/agents/{shown}/completions")),
        ("GET", format!("/api/v1/agents/{shown}/sessions")),
        ("GET", "/api/v1/agents".to_owned()),
        ("POST", format!("/api/v1/agents/{shown}/shares")),
        ("GET", "/api/v1/system/tokens".to_owned()),
        ("POST", "/api/v1/system/tokens".to_owned()),
        ("GET", "/api/v1/users/me".to_owned()),
        ("POST", "/mcp".to_owned()),
    ] {
        let refused = visitor.ask(method, &path, json!({})).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{method} {path}: {}", refused.text);
        assert!(refused.text.contains("share token"), "{}", refused.text);
    }
}

#[tokio::test]
async fn visitors_can_only_ask_questions() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Shown", echo_canvas()).await;
    let visitor = page(&bench, &format!("agents/{agent}")).await;
    let ask = format!("/api/v1/agentbots/{agent}/completions");
    for name in
        ["version", "files", "pins", "idempotency_key", "dialect", "multitask_strategy", "parallel_messages"]
    {
        let refused = visitor.post(&ask, json!({"question": "x", name: "x"})).await.refusal();
        assert!(refused.0 == 101 && refused.1.contains(name), "{refused:?}");
    }
    // The token determines the user of the session.
    let answer =
        visitor.post(&ask, json!({"question": "x", "user_id": "somebody", "stream": false})).await.data();
    let session = answer["session_id"].as_str().unwrap().to_owned();
    let listed = bench.get(&format!("/api/v1/agents/{agent}/sessions/{session}")).await.data();
    assert!(listed["user_id"].as_str().unwrap().starts_with("share-"), "{listed}");
    // A session of any other user is not found.
    let theirs = format!("/api/v1/agents/{agent}/completions");
    let theirs = bench.post(&theirs, json!({"query": "x", "stream": false})).await;
    let theirs = theirs.data()["session_id"].as_str().unwrap().to_owned();
    let other = page(&bench, &format!("agents/{agent}")).await;
    for (page, session) in [(&visitor, &theirs), (&other, &session), (&visitor, &"none".to_owned())] {
        let refused = page.post(&ask, json!({"question": "x", "session_id": session})).await.refusal();
        assert_eq!(refused, (102, "Session not found!".into()));
    }
}

#[tokio::test]
async fn a_public_page_shows_the_published_version() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Shown", echo_canvas()).await;
    let visitor = page(&bench, &format!("agents/{agent}")).await;
    let path = format!("/api/v1/agents/{agent}");
    bench.ask("PUT", &path, json!({"release": true})).await.data();
    let mut draft = echo_canvas();
    draft["components"]["Message:Echo"]["obj"]["params"]["content"] = json!(["a draft"]);
    bench.ask("PUT", &path, json!({"dsl": draft})).await.data();
    let ask = async |page: &Bench| {
        let asked = json!({"question": "x", "stream": false});
        let answer = page.post(&format!("/api/v1/agentbots/{agent}/completions"), asked).await.data();
        answer["data"]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask(&visitor).await, "you said: x");
    let sessions = format!("/api/v1/agents/{agent}/completions");
    let own = bench.post(&sessions, json!({"query": "x", "stream": false})).await.data();
    assert_eq!(own["data"]["content"], "a draft");
}

#[tokio::test]
async fn a_share_token_of_an_assistant_hides_its_instructions() {
    let bench = bench(Script::new().reply(Reply::text("An answer.").always())).await;
    let id = chat(&bench).await;
    let visitor = page(&bench, &format!("chats/{id}")).await;
    assert_eq!(visitor.get(&format!("/api/v1/chatbots/{id}/info")).await.data()["prologue"], "Hello!");
    let ask = format!("/api/v1/chatbots/{id}/completions");
    for stream in [true, false] {
        let answer = visitor.post(&ask, json!({"question": "x", "stream": stream})).await;
        assert!(answer.text.contains("An answer.") && !answer.text.contains("hidden"), "{}", answer.text);
    }
    for (name, value) in [("kb_ids", json!(["d"])), ("llm_id", json!("m")), ("doc_ids", json!("d"))] {
        let refused = visitor.post(&ask, json!({"question": "x", name: value})).await.refusal();
        assert!(refused.0 == 101 && refused.1.contains(name), "{refused:?}");
    }
    assert_eq!(
        visitor.post(&format!("/api/v1/chats/{id}/completions"), json!({"question": "x"})).await.status,
        403
    );
}

/// A variable that an assistant requests from visitors may have the name of an option, and does not act as that
/// option.
#[tokio::test]
async fn a_variable_of_an_assistant_does_not_act_as_an_option() {
    let bench = bench(Script::new().reply(Reply::text("An answer.").always())).await;
    let parameters = json!([{"key": "kb_ids", "optional": true}, {"key": "llm_id", "optional": true}]);
    let settings =
        json!({"name": "Chat", "prompt_config": {"system": "{kb_ids} {llm_id}", "parameters": parameters}});
    let id = bench.post("/api/v1/chats", settings).await.data()["id"].as_str().unwrap().to_owned();
    let ask = format!("/api/v1/chatbots/{id}/completions");
    let body = json!({"question": "x", "kb_ids": ["nobody's"], "llm_id": "unknown", "stream": false});
    let refused = bench.post(&ask, body.clone()).await.refusal();
    assert!(refused.1.contains("nobody's"), "a member of the tenant sets the option: {refused:?}");
    let visitor = page(&bench, &format!("chats/{id}")).await;
    assert_eq!(visitor.post(&ask, body).await.data()["answer"], "An answer.");
}

#[tokio::test]
async fn share_tokens_expire_are_revoked_and_are_removed_with_their_target() {
    let clock = HandClock::at(NOW_MS);
    let store = (Arc::new(MemoryStore::new()), ScriptedModel::new(Script::new()));
    let config = AccountsConfig { share_calls_per_minute: 3, ..AccountsConfig::default() };
    let bench = process_with(store, (Auth::On, LimitsConfig::default()), (clock.clone(), config));
    let (editor, _) = bench.as_member("default", MemberRole::Editor).await;
    let agent = editor.store("Shown", echo_canvas()).await;
    let path = format!("/api/v1/agents/{agent}/shares");
    let make = async |body: Json| editor.post(&path, body).await;
    let later = NOW_MS + 1_000;
    for wrong in [
        json!({"expires_time": NOW_MS}),
        json!({"expires_time": "x"}),
        json!({"expire_time": NOW_MS}),
        json!({"expires": later}),
        json!({"expires_time": later, "expire_time": later + 1}),
        json!({"name": "a\nb"}),
    ] {
        assert_eq!(make(wrong.clone()).await.refusal().0, 101, "{wrong}");
    }
    // A name that answers have, which clients send as well.
    for body in [json!({"expire_time": later}), json!({"expire_time": later, "expires_time": later})] {
        assert_eq!(make(body).await.data()["expire_time"], later);
    }
    assert_eq!(editor.post("/api/v1/agents/none/shares", json!({})).await.refusal().0, 102);
    let brief = make(json!({"expires_time": NOW_MS + 1_000})).await.data();
    let lasting = make(json!({})).await.data();
    let look = async |token: &Json| {
        let visitor = bench.with(token["token"].as_str().unwrap());
        visitor.get(&format!("/api/v1/agentbots/{agent}/inputs")).await.status
    };
    assert_eq!((look(&brief).await, look(&lasting).await), (StatusCode::OK, StatusCode::OK));
    clock.go_on(1_000);
    assert_eq!(look(&brief).await, StatusCode::UNAUTHORIZED);
    // The rate limit per minute, regardless of who presents the token.
    assert_eq!((look(&lasting).await, look(&lasting).await), (StatusCode::OK, StatusCode::OK));
    assert_eq!(look(&lasting).await, StatusCode::TOO_MANY_REQUESTS);
    clock.go_on(60_000);
    let listed = editor.get(&path).await;
    assert!(!listed.text.contains("weftshare-"), "{}", listed.text);
    let rows = listed.data();
    let used = rows.as_array().unwrap().iter().find(|row| row["id"] == lasting["id"]);
    assert_eq!(used.unwrap()["last_used_time"], NOW_MS);
    let one = format!("{path}/{}", lasting["id"].as_str().unwrap());
    assert_eq!(editor.ask("DELETE", &one, Json::Null).await.data(), true);
    assert_eq!(editor.ask("DELETE", &one, Json::Null).await.refusal().0, 102);
    assert_eq!(look(&lasting).await, StatusCode::UNAUTHORIZED);
    let last = make(json!({})).await.data();
    editor.ask("DELETE", &format!("/api/v1/agents/{agent}"), Json::Null).await.data();
    assert_eq!(look(&last).await, StatusCode::UNAUTHORIZED, "the token is removed with the agent");
}

#[tokio::test]
async fn an_agent_of_a_visitor_may_call_a_model() {
    let bench = bench(Script::new().reply(Reply::text("An answer.").always())).await;
    let agent = bench.store("Chat", chat_canvas()).await;
    let visitor = page(&bench, &format!("agents/{agent}")).await;
    let frames =
        visitor.post(&format!("/api/v1/agentbots/{agent}/completions"), json!({"query": "x"})).await.frames();
    assert_eq!(said(&frames), "An answer.");
}

/// The oldest clients use other names for share tokens and sessions.
#[tokio::test]
async fn the_oldest_names_of_tokens_and_sessions_work() {
    let bench = bench(Script::new()).await;
    let created = bench.post("/api/v1/agents", json!({"title": "Echo", "dsl": echo_canvas()})).await.data();
    let agent = created["id"].as_str().unwrap().to_owned();
    let refused = bench.post("/v1/api/new_token", json!({})).await.refusal();
    assert!(refused.0 == 101 && refused.1.contains("`canvas_id`"), "{refused:?}");
    let made = bench.post("/v1/api/new_token", json!({"canvas_id": agent})).await.data();
    assert_eq!((&made["source"], &made["dialog_id"]), (&json!("agent"), &json!(agent)));
    let token = made["token"].as_str().unwrap().to_owned();
    let visitor = bench.with(&token);
    let about = format!("/api/v1/agentbots/{agent}/inputs");
    assert_eq!(visitor.get(&about).await.data()["title"], "Echo");
    // Lists show which tokens exist, but not their values.
    let listed = bench.get(&format!("/v1/api/token_list?canvas_id={agent}")).await.data();
    let shown = listed[0]["token"].as_str().unwrap();
    assert!(shown.starts_with("weftshare-***") && !token.contains(&shown[13..]), "{shown}");
    let stranger = bench.as_stranger().await;
    assert_eq!(stranger.get(&format!("/v1/api/token_list?canvas_id={agent}")).await.refusal().0, 102);
    assert_eq!(stranger.post("/v1/api/rm", json!({"tokens": [token]})).await.data(), true);
    assert_eq!(visitor.get(&about).await.data()["title"], "Echo", "it is not theirs");
    assert_eq!(
        bench.post("/v1/api/rm", json!({"tokens": [token, "gone"], "tenant_id": "x"})).await.data(),
        true
    );
    assert_eq!(visitor.get(&about).await.status, 401);
    assert_eq!(bench.get("/v1/api/stats").await.refusal().0, 103);
    let refused = bench.get("/v1/api/new_conversation?user_id=u").await.refusal();
    assert!(refused.0 == 101 && refused.1.contains("`dialog_id`"), "{refused:?}");
    let path = format!("/v1/api/new_conversation?canvas_id={agent}&user_id=u");
    let begun = bench.get(&path).await.data();
    assert_eq!((&begun["user_id"], &begun["agent_id"]), (&json!("u"), &json!(agent)));
    let asked = json!({"conversation_id": begun["id"], "stream": false, "messages": [{"role": "user", "content": "hi"}]});
    assert!(bench.post("/v1/api/completion", asked).await.data()["answer"].as_str().unwrap().contains("hi"));
    assert_eq!(stranger.get(&path).await.refusal().0, 102);
}

/// Older clients create a key and build pages with the page token that comes with it.
#[tokio::test]
async fn a_page_token_comes_with_a_key_and_ends_with_it() {
    let bench = bench(Script::new()).await;
    let (agent, chat) = (bench.store("Shown", echo_canvas()).await, chat(&bench).await);
    let made = bench.post("/api/v1/system/tokens", json!({"name": "pages"})).await.data();
    let beta = made["beta"].as_str().unwrap().to_owned();
    assert_eq!(beta.len(), 32);
    let visitor = bench.with(&beta);
    let ask = format!("/api/v1/agentbots/{agent}/completions");
    let answer = visitor.post(&ask, json!({"question": "hello", "stream": false})).await.data();
    assert_eq!(answer["data"]["content"], "you said: hello");
    assert_eq!(visitor.get(&format!("/api/v1/chatbots/{chat}/info")).await.data()["title"], "Chat");
    for path in
        ["/api/v1/agents".to_owned(), format!("/api/v1/agents/{agent}"), "/api/v1/system/tokens".to_owned()]
    {
        assert_eq!(visitor.get(&path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    // Agents of another tenant are not found.
    let theirs = bench.as_stranger().await.store("Theirs", echo_canvas()).await;
    assert_eq!(visitor.get(&format!("/api/v1/agentbots/{theirs}/inputs")).await.refusal().0, 102);
    let listed = bench.get("/api/v1/system/tokens").await.data();
    assert!(listed.as_array().unwrap().iter().all(|key| key["beta"].is_null()), "{listed}");
    let key = format!("/api/v1/system/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(bench.ask("DELETE", &key, json!({})).await.data(), true);
    assert_eq!(visitor.post(&ask, json!({"question": "hello"})).await.status, StatusCode::UNAUTHORIZED);
    // A key that may not create share tokens comes without one.
    let made = bench.post("/api/v1/system/tokens", json!({"name": "reads", "role": "viewer"})).await.data();
    assert_eq!(made["beta"], Json::Null);
}

#[tokio::test]
async fn a_key_is_not_kept_without_its_page_token() {
    let bench = bench(Script::new()).await;
    let app = bench.app.with_parts(|parts| parts.accounts.stores.shares = Arc::new(Away));
    let router = router(ServerState::new(app.clone(), Auth::On).unwrap());
    let (token, model, store) = (bench.token.clone(), bench.model.clone(), bench.store.clone());
    let failing = Bench { app, router, token, model, store };
    let (code, message) = failing.post("/api/v1/system/tokens", json!({"name": "pages"})).await.refusal();
    assert!(code == 105 && message.contains("the store is away"), "{code} {message}");
    let listed = bench.get("/api/v1/system/tokens").await.data();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
}
