//! Sessions.

use serde_json::{Value as Json, json};
use weft_core::SessionKey;
use weft_core::seam::SessionStore as _;
use weft_core::seam::session_store::{SessionCommit, SessionMessage};
use weft_testkit::{Reply, Script};

use crate::support::{bench, chat_canvas, default_tenant, echo_canvas};

#[tokio::test]
async fn a_session_contains_the_messages() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let path = format!("/api/v1/agents/{id}/sessions");
    let created = bench.post(&path, json!({"name": "first", "user_id": "ada"})).await.data();
    assert_eq!(
        (&created["agent_id"], &created["user_id"], &created["name"]),
        (&json!(id), &json!("ada"), &json!("first"))
    );
    assert_eq!(created["message"][0]["content"], "Hi!");
    assert_eq!(created["messages"], created["message"]);
    assert_eq!(created["dsl"]["components"], echo_canvas()["components"]);
    let session = created["id"].as_str().unwrap();

    let ask = json!({"query": "hello", "session_id": session, "stream": false});
    let answer = bench.post(&format!("/api/v1/agents/{id}/completions"), ask).await.data();
    assert_eq!(answer["data"]["content"], "you said: hello");

    let got = bench.get(&format!("{path}/{session}")).await.data();
    let said: Vec<_> = got["message"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["role"].clone(), m["content"].clone()))
        .collect();
    let expected = [("assistant", "Hi!"), ("user", "hello"), ("assistant", "you said: hello")];
    assert_eq!(said, expected.map(|(role, content)| (json!(role), json!(content))));
    assert_eq!(got["message"][2]["id"], answer["message_id"]);
    assert_eq!(got["message"][2]["reference"], json!([]));

    let listed = bench.get(&format!("{path}?id={session}&dsl=false")).await.json();
    assert_eq!(
        (&listed["code"], &listed["total"], &listed["data"][0]["id"]),
        (&json!(0), &json!(1), &json!(session))
    );
    assert!(listed["data"][0].get("dsl").is_none());
    assert_eq!(bench.get(&format!("{path}?user_id=bob")).await.json()["data"], json!([]));
    for (by, code) in [("create_time", 0), ("update_time", 0), ("garbage", 101)] {
        assert_eq!(bench.get(&format!("{path}?orderby={by}")).await.json()["code"], code, "{by}");
    }
}

#[tokio::test]
async fn a_token_can_be_created_only_for_the_own_tenant() {
    let bench = bench(Script::new()).await;
    let (code, message) =
        bench.post("/api/v1/system/tokens", json!({"name": "x", "tenant": "other"})).await.refusal();
    assert!(code == 101 && message.contains("`tenant`"), "{message}");
    assert_eq!(bench.post("/api/v1/system/tokens", json!({"name": "x"})).await.data()["name"], "x");
}

/// Row 86 of the contract: the path of a session lists the nodes that ran, in that order.
#[tokio::test]
async fn the_path_of_a_session_is_the_order_of_its_nodes() {
    let bench = bench(Script::new()).await;
    let canvas: serde_json::Value =
        serde_json::from_str(include_str!("../../../../canvases/diamond/canvas.json")).unwrap();
    let id = bench.store("Diamond", canvas).await;
    let sessions = format!("/api/v1/agents/{id}/sessions");
    let session = bench.post(&sessions, json!({})).await.data()["id"].as_str().unwrap().to_owned();
    let path = async || bench.get(&format!("{sessions}/{session}")).await.data()["dsl"]["path"].clone();
    assert_eq!(path().await, json!([]));
    let mut expected = Vec::new();
    for _ in 0..2 {
        let ask = json!({"query": "x", "session_id": session, "stream": false});
        let answer = bench.post(&format!("/api/v1/agents/{id}/completions"), ask).await.data();
        let run = answer["message_id"].as_str().unwrap();
        let events = bench.get(&format!("/api/v1/runs/{run}/events")).await.frames();
        let events: Vec<_> = events.iter().map(|frame| frame.json()).collect();
        let began = events.iter().filter(|event| event["event"] == "node_started");
        expected.extend(began.map(|event| event["data"]["component_id"].clone()));
        assert_eq!(path().await, json!(expected));
    }
    assert_eq!(expected.len() % 2, 0);
    assert_eq!((&expected[0], &expected[expected.len() / 2]), (&json!("begin"), &json!("begin")));
}

#[tokio::test]
async fn sessions_are_removed_only_by_explicit_ids() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let path = format!("/api/v1/agents/{id}/sessions");
    let create = async || bench.post(&path, json!({})).await.data()["id"].as_str().unwrap().to_owned();
    let count = async || bench.get(&path).await.json()["total"].as_u64().unwrap();
    let delete = async |body| bench.ask("DELETE", &path, body).await;
    let (a, b, c) = (create().await, create().await, create().await);
    for body in [json!(null), json!({}), json!({"ids": null}), json!({"ids": []})] {
        assert_eq!(delete(body).await.data(), true);
    }
    assert_eq!(count().await, 3);
    assert_eq!(
        delete(json!({"ids": ["x"]})).await.refusal(),
        (102, "The agent doesn't own the session x".into())
    );
    let partly = delete(json!({"ids": [a, "x", a]})).await.data();
    let errors = json!(["The agent doesn't own the session x", format!("Duplicate session ids: {a}")]);
    assert_eq!(partly, json!({"success_count": 1, "errors": errors}));
    assert_eq!(bench.ask("DELETE", &format!("{path}/{b}"), json!(null)).await.data(), true);
    assert_eq!(bench.get(&format!("{path}/{b}")).await.refusal(), (102, "Session not found!".into()));
    assert_eq!(count().await, 1);
    assert_eq!(delete(json!({"delete_all": true})).await.data(), true);
    assert_eq!(count().await, 0);
    assert_eq!(bench.get(&format!("{path}/{c}")).await.refusal().0, 102);
    let (code, message) = bench.post("/api/v1/agents/nope/sessions", json!({})).await.refusal();
    assert_eq!((code, message.as_str()), (102, "Agent not found."));
}

#[tokio::test]
async fn a_session_of_another_agent_or_tenant_is_not_found() {
    let bench = bench(Script::text("hi")).await;
    let (a, b) = (bench.store("A", echo_canvas()).await, bench.store("B", chat_canvas()).await);
    let session = bench.post(&format!("/api/v1/agents/{a}/sessions"), json!({})).await.data()["id"].clone();
    let turn = json!({"query": "x", "session_id": session, "stream": false});
    let (code, message) =
        bench.post(&format!("/api/v1/agents/{b}/completions"), turn.clone()).await.refusal();
    assert_eq!((code, message.as_str()), (103, "Session does not belong to the requested agent."));
    let ours = bench.post(&format!("/api/v1/agents/{a}/completions"), turn.clone()).await.data();

    let stranger = crate::support::Bench { token: bench.stranger().await, ..bench };
    assert_eq!(stranger.get(&format!("/api/v1/agents/{a}")).await.refusal().0, 102);
    assert_eq!(stranger.get("/api/v1/agents").await.data()["total"], 0);
    let (code, message) = stranger.post(&format!("/api/v1/agents/{a}/completions"), turn).await.refusal();
    assert_eq!((code, message.as_str()), (102, "Session not found!"));
    let run = ours["message_id"].as_str().unwrap();
    assert_eq!(stranger.get(&format!("/api/v1/runs/{run}/events")).await.refusal().0, 102);
    assert_eq!(stranger.get("/api/v1/runs").await.data()["runs"], json!([]));
    assert_eq!(stranger.ask("DELETE", &format!("/api/v1/agents/{a}"), json!(null)).await.refusal().0, 103);
}

#[tokio::test]
async fn a_session_continues_after_a_failed_turn() {
    use weft_core::ErrorKind;
    let broken = Reply::text("half an ").then(weft_testkit::Step::Fault(weft_models::script::Fault::Cut));
    let script = Script::new()
        .reply(Reply::text("first").times(1))
        .reply(broken.times(1))
        .reply(Reply::error(ErrorKind::Invalid, "no such model").times(1))
        .reply(Reply::text("fine again").times(1));
    let bench = bench(script).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let path = format!("/api/v1/agents/{id}/sessions");
    let session = bench.post(&path, json!({})).await.data()["id"].as_str().unwrap().to_owned();
    let ask = async |query: &str| {
        let turn = json!({"query": query, "session_id": session, "stream": false});
        bench.post(&format!("/api/v1/agents/{id}/completions"), turn).await.json()
    };
    assert_eq!(ask("one").await["data"]["data"]["content"], "first");
    for query in ["two", "three"] {
        let failed = ask(query).await;
        assert_eq!(failed["code"], 500, "{failed}");
        let shown = failed["data"]["data"]["content"].as_str().unwrap();
        assert!(shown.starts_with("**ERROR**: ") && failed["data"]["event"].is_string(), "{failed}");
    }
    assert_eq!(ask("four").await["data"]["data"]["content"], "fine again");
    let got = bench.get(&format!("{path}/{session}")).await.data();
    let roles: Vec<_> =
        got["message"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles.iter().filter(|role| **role == "user").count(), 4, "{got}");
    let last = bench.model.requests().pop().unwrap();
    assert!(last.messages.iter().any(|message| message.text == "first"), "{last:?}");
}

/// Sessions can be megabytes each, so a long list is loaded one session at a time as the client reads.
#[tokio::test]
async fn a_list_of_sessions_is_loaded_as_the_client_reads() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Greet", echo_canvas()).await;
    let chat = bench.post("/api/v1/chats", json!({"name": "Chat"})).await.data();
    for path in [
        format!("/api/v1/agents/{agent}/sessions"),
        format!("/api/v1/chats/{}/sessions", chat["id"].as_str().unwrap()),
    ] {
        for _ in 0..5 {
            bench.post(&path, json!({})).await.data();
        }
        let in_order = format!("{path}?orderby=create_time&desc=false&page_size=1000");
        let all = bench.get(&in_order).await.json();
        let last = all["data"][4]["id"].as_str().unwrap().to_owned();
        let mut list = bench.opened("GET", &in_order, Json::Null).await;
        list.until("\"id\"").await;
        let key = SessionKey::new(&default_tenant(), last);
        let session = bench.store.load(&key).await.unwrap();
        let late = SessionMessage {
            role: "user".into(),
            content: "said meanwhile".into(),
            run: None,
            reference: Json::Null,
            created_ms: 0,
            feedback: None,
        };
        let change = SessionCommit {
            revision: session.revision,
            state: &session.state,
            messages: &[late],
            tasks: None,
            lease: None,
        };
        bench.store.commit(&key, change).await.unwrap();
        assert!(!list.text.contains("said meanwhile"));
        list.until("said meanwhile").await;
    }
}
