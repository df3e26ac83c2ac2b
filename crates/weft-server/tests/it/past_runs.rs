//! Past runs over HTTP: replayed, forked, compared; and their usage.

use serde_json::{Value as Json, json};
use weft_testkit::{Reply, Script};

use crate::support::{Bench, bench, chat_canvas};

async fn asked(script: Script) -> (Bench, String) {
    let bench = bench(script).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let path = format!("/api/v1/agents/{id}/completions");
    bench.post(&path, json!({"query": "hello", "stream": false})).await.data();
    let runs = bench.get("/api/v1/runs").await.data();
    let run = runs["runs"][0]["id"].as_str().unwrap().to_owned();
    (bench, run)
}

fn script() -> Script {
    Script::new().reply(Reply::text("first")).reply(Reply::text("second"))
}

#[tokio::test]
async fn a_replayed_run_gives_the_same_answer() {
    let (bench, run) = asked(script()).await;
    let again = bench.restarted();
    let told = again.post(&format!("/api/v1/runs/{run}/replay"), Json::Null).await.data();
    assert_eq!((&told["same"], &told["differences"]), (&json!(true), &json!([])), "{told}");
    assert!(told["events"].as_u64().unwrap() > 5, "{told}");
    assert_eq!(bench.model.requests().len(), 1, "the model is not called again");
    let (code, message) = again.post("/api/v1/runs/absent/replay", Json::Null).await.refusal();
    assert!(code == 102 && message.contains("absent"), "{code} {message}");
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    assert_eq!(stranger.post(&format!("/api/v1/runs/{run}/replay"), Json::Null).await.refusal().0, 102);
}

#[tokio::test]
async fn a_fork_continues_with_edited_outputs_and_can_be_compared() {
    let (bench, run) = asked(script()).await;
    let started = bench.get(&format!("/api/v1/runs/{run}/events")).await.frames();
    let llm = started
        .iter()
        .map(crate::support::Frame::json)
        .find(|event| event["data"]["component_type"] == "Agent")
        .unwrap_or_else(|| panic!("no model in {}", started.len()));
    let node = llm["data"]["component_id"].as_str().unwrap();
    let fork = format!("/api/v1/runs/{run}/fork");
    let forked = bench.post(&fork, json!({"node": node, "outputs": {"content": "edited"}})).await.data();
    assert_eq!(forked["forks"], json!(run));
    let other = forked["run_id"].as_str().unwrap();
    let events = bench.get(&format!("/api/v1/runs/{other}/events")).await;
    let last = events.frames().iter().rev().nth(1).map(crate::support::Frame::json).unwrap_or_default();
    assert_eq!(last["data"]["outputs"]["content"], "edited", "{}", events.text);
    let diff = bench.get(&format!("/api/v1/runs/{run}/diff?with={other}")).await.data();
    let changed: Vec<&Json> =
        diff["nodes"].as_array().unwrap().iter().filter(|node| node["verdict"] != "same").collect();
    assert!(changed.iter().any(|one| one["node"] == node), "{diff}");

    // An invalid value is named.
    let refused = |body: Json| async { bench.post(&fork, body).await.refusal() };
    assert_eq!(refused(json!({})).await.0, 101);
    assert_eq!(refused(json!({"node": node, "activation": "x"})).await.0, 101);
    let (code, message) = refused(json!({"node": "Nowhere:X"})).await;
    assert!(code == 102 && message.contains("Nowhere:X"), "{code} {message}");
    assert_eq!(bench.get(&format!("/api/v1/runs/{run}/diff")).await.refusal().0, 101);
    assert_eq!(bench.get(&format!("/api/v1/runs/{run}/diff?with=absent")).await.refusal().0, 102);
}

#[tokio::test]
async fn usage_of_runs_is_listed_by_canvas_and_day() {
    let (bench, _) = asked(script()).await;
    let told = bench.get("/api/v1/spending?days=2").await.data();
    let line = &told["spending"][0];
    assert_eq!(
        (line["model_calls"].as_u64(), told["spending"].as_array().unwrap().len()),
        (Some(1), 1),
        "{told}"
    );
    assert!(line["tokens"].as_u64().unwrap() > 0 && line["date"].as_str().unwrap().len() == 10, "{line}");
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    assert_eq!(stranger.get("/api/v1/spending").await.data()["spending"], json!([]));
    for days in ["x", "0", "3661"] {
        let (code, message) = bench.get(&format!("/api/v1/spending?days={days}")).await.refusal();
        assert!(code == 101 && message == "`days` must be a number between 1 and 3660", "{days}: {message}");
    }
}
