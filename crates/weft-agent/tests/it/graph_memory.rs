//! Requests of a user to remember something.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_agent::graph::{EventKind, GraphSettings, Node, TurnOptions};
use weft_agent::long_term::{LongTermMemory, Mem0, Owner, Storing};
use weft_core::seam::http::HttpBody;
use weft_core::{ErrorKind, TenantId};
use weft_models::Reply;
use weft_testkit::FakeHttp;

use crate::graph_kit::{Counted, Watched, ada, count, script, streamed};

fn mem0(http: &FakeHttp) -> Mem0 {
    Mem0::new(Arc::new(http.clone()), TenantId::from("t"), "http://mem0.test/").with_key("k")
}

#[tokio::test]
async fn a_memory_is_stored_once_and_the_state_is_unchanged() {
    let http =
        FakeHttp::new().on("/memories", 200, r#"{"results": [{"id": "m1", "memory": "x", "event": "ADD"}]}"#);
    let watched = Watched::default();
    let model = script([Reply::text("I will."), Reply::text("Sunny.")]);
    let agent = ada(&model, &Counted::default())
        .memory(Arc::new(mem0(&http)))
        .checkpointer(Arc::new(watched.clone()))
        .build()
        .unwrap();
    let options = TurnOptions { owner: Some(Owner::user("eve")), ..TurnOptions::default() };
    let (events, reply) = streamed(&agent, "t", "Please remember that I like tea.", options.clone()).await;
    assert_eq!(reply.unwrap().warnings, Vec::<String>::new());
    let requests = http.requests();
    assert_eq!(requests.len(), 1);
    let expected = json!({
        "user_id": "eve", "messages": [{"role": "user", "content": "I like tea."}], "infer": false
    });
    assert_eq!(requests[0].body, HttpBody::Json(expected));
    assert_eq!(requests[0].url, "http://mem0.test/memories");
    assert_eq!(requests[0].headers, [("Authorization".to_owned(), "Token k".to_owned())]);
    let stored = |kind: &EventKind| matches!(kind, EventKind::MemoryStored { ids } if *ids == ["m1"]);
    assert_eq!(count(&events, stored), 1);
    let (before, after) = (&watched.after(Node::InitState)[0].1, &watched.after(Node::MemoryTrigger)[0].1);
    assert_eq!(before, after, "the state is unchanged");

    agent.process_message_with("t", "How is the weather?", options).await.unwrap();
    assert_eq!(http.requests().len(), 1, "an ordinary message stores nothing");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_or_hangs_fails_no_turn() {
    struct Hangs;
    #[weft_core::async_trait]
    impl LongTermMemory for Hangs {
        async fn add(&self, _: &Owner, _: &str, _: Storing) -> weft_core::Result<Vec<String>> {
            std::future::pending().await
        }
        async fn search(
            &self,
            _: &Owner,
            _: &str,
            _: usize,
        ) -> weft_core::Result<Vec<weft_agent::long_term::Remembered>> {
            std::future::pending().await
        }
    }
    let failing = FakeHttp::new().on("/memories", 500, "broken");
    let stores: [(Arc<dyn LongTermMemory>, &str); 2] =
        [(Arc::new(mem0(&failing)), "answered 500: broken"), (Arc::new(Hangs), "within 10s")];
    for (store, problem) in stores {
        let model = script([Reply::text("I will.")]);
        let settings =
            GraphSettings { memory_time_limit: Duration::from_secs(10), ..GraphSettings::default() };
        let agent = ada(&model, &Counted::default()).memory(store).settings(settings).build().unwrap();
        let reply = agent.process_message("t", "Remember: tea").await.unwrap();
        assert_eq!(reply.reply, "I will.");
        assert!(reply.warnings.iter().any(|warning| warning.contains(problem)), "{:?}", reply.warnings);
    }
}

#[tokio::test]
async fn memories_belong_to_a_user_and_both_response_shapes_are_read() {
    let http = FakeHttp::new()
        .once(
            "/search",
            200,
            r#"[{"id": "1", "memory": "tea", "score": 0.9}, {"id": "2", "memory": "milk"}]"#,
        )
        .once("/search", 200, r#"{"results": [{"id": "3", "memory": "rice", "score": 0.5}]}"#)
        .once("/search", 200, "not JSON")
        .once("/search", 401, "no");
    let memory = mem0(&http);
    let owner = Owner { agent_id: Some("a".to_owned()), ..Owner::default() };
    let found = memory.search(&owner, "drink", 1).await.unwrap();
    assert_eq!(found.iter().map(|found| found.text.as_str()).collect::<Vec<_>>(), ["tea"]);
    assert_eq!(memory.search(&owner, "eat", 5).await.unwrap()[0].id, "3");
    assert_eq!(memory.search(&owner, "x", 5).await.unwrap_err().kind, ErrorKind::Garbled);
    assert_eq!(memory.search(&owner, "x", 5).await.unwrap_err().kind, ErrorKind::Unauthenticated);
    let nobody = memory.add(&Owner::default(), "x", Storing::Verbatim).await;
    assert_eq!(nobody.unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(http.requests().len(), 4, "without a user nothing is requested");
}
