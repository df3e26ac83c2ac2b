//! Model usage by several groupings, for the own tenant.

use serde_json::{Value as Json, json};
use weft_testkit::{Reply, Script};

use crate::support::{Bench, bench, chat_canvas};

impl Bench {
    async fn ask_as(&self, agent: &str, user: &str) -> String {
        let path = format!("/api/v1/agents/{agent}/completions");
        let asked = self.post(&path, json!({"query": "q", "stream": false, "user_id": user})).await.data();
        asked["session_id"].as_str().unwrap().to_owned()
    }

    async fn usage(&self, query: &str) -> Json {
        self.get(&format!("/api/v1/usage{query}")).await.data()
    }
}

fn lines(usage: &Json, member: &str) -> Vec<String> {
    let line = |line: &Json| format!("{} {}", line[member].as_str().unwrap(), line["model_calls"]);
    usage["usage"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn usage_is_shown_by_every_grouping() {
    let bench = bench(Script::new().reply(Reply::text("Hi").usage(700, 100).always())).await;
    let (one, two) = (bench.store("One", chat_canvas()).await, bench.store("Two", chat_canvas()).await);
    let session = bench.ask_as(&one, "ann").await;
    bench.ask_as(&one, "bob").await;
    bench.ask_as(&two, "ann").await;
    let by_model = bench.usage("").await;
    let line = &by_model["usage"][0];
    assert_eq!((&line["model_calls"], &line["prompt_tokens"]), (&json!(3), &json!(2_100)));
    assert_eq!((&line["completion_tokens"], &line["total_tokens"]), (&json!(300), &json!(2_400)));
    assert!(!line["model"].as_str().unwrap().is_empty(), "{line}");
    assert_eq!(by_model["total"]["total_tokens"], 2_400);
    assert_eq!(lines(&bench.usage("?by=agent").await, "agent_id"), [format!("{one} 2"), format!("{two} 1")]);
    assert_eq!(lines(&bench.usage("?by=user").await, "user_id"), ["ann 2", "bob 1"]);
    assert_eq!(lines(&bench.usage("?by=node").await, "node"), ["Agent:A 3"]);
    assert_eq!(bench.usage("?by=session").await["usage"].as_array().unwrap().len(), 3);
    let day = bench.usage("?by=day&days=1").await["usage"][0]["date"].clone();
    assert_eq!(
        lines(&bench.usage(&format!("?by=user&date={}", day.as_str().unwrap())).await, "user_id").len(),
        2
    );
    let mine = bench.usage(&format!("?by=user,agent&session_id={session}")).await;
    assert_eq!(lines(&mine, "user_id"), ["ann 1"]);
    assert_eq!((&mine["usage"][0]["agent_id"], &mine["total"]["model_calls"]), (&json!(one), &json!(1)));
    // The next process knows it, too, and another tenant does not.
    assert_eq!(bench.restarted().usage("").await["total"]["model_calls"], 3);
    let stranger = bench.with(&bench.stranger().await);
    assert_eq!(stranger.usage("").await, json!({"usage": [], "total": stranger.usage("").await["total"]}));
    assert_eq!(stranger.usage("").await["total"]["model_calls"], 0);
}

#[tokio::test]
async fn invalid_groupings_and_dates_are_named() {
    let bench = bench(Script::new()).await;
    for (query, part) in [
        ("?by=planet", "`by` must be one or more of day, agent, node, model, user, session"),
        ("?days=0", "`days` must be a number between 1 and 3660"),
        ("?days=many", "`days` must be"),
        ("?date=2024-02-30", "`date` must be a day"),
    ] {
        let refused = bench.get(&format!("/api/v1/usage{query}")).await.json();
        assert_eq!(refused["code"], 101, "{query}");
        assert!(refused["message"].as_str().unwrap().contains(part), "{refused}");
    }
}

/// Ingestion happens outside of runs, so its usage would be listed nowhere else.
#[tokio::test]
async fn usage_of_ingestion_is_shown_with_its_dataset() {
    let bench = bench(Script::new()).await;
    let made = bench
        .post("/api/v1/datasets", json!({"name": "d", "embedding_model": "hash@Local@test"}))
        .await
        .data();
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/datasets/{id}");
    let document = bench.document(&path, "a.txt", "some words in a document").await;
    bench.read(&path, &[&document]).await;
    let usage = bench.usage("?by=node,model,agent").await;
    let line = &usage["usage"][0];
    assert_eq!(line["node"], format!("dataset:{id}"), "{usage}");
    assert_eq!((&line["model"], &line["agent_id"]), (&json!("hash@test"), &json!("")));
    assert!(line["model_calls"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!(usage["usage"].as_array().unwrap().len(), 1);
    let stranger = bench.with(&bench.stranger().await);
    assert_eq!(stranger.usage("?by=node").await["total"]["model_calls"], 0);
}
