//! Stopping runs that wait for a person, and those that were interrupted.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use weft_app::{Config, assemble_in_memory};
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::seam::run_store::RunFilter;
use weft_core::seam::task_store::{TaskFilter, TaskStatus};
use weft_core::{Catalog, Ending, ErrorKind, SessionId, TaskKey, TurnInput};
use weft_engine::engine::PickedUp;
use weft_testkit::{Dice, FaultRates, FaultyStore, Script};

use crate::support::{Bench, bench, chat_canvas, default_tenant, endless, events, form_canvas};

/// The ids of a turn that waits: of its run, of its session, and of its only task.
async fn waits(bench: &Bench, agent: &str) -> [String; 3] {
    let path = format!("/api/v1/agents/{agent}/completions");
    let ended = bench.post(&path, json!({"query": "q", "stream": false})).await.data();
    assert_eq!(ended["data"]["status"], "waiting", "{ended}");
    let open = bench.inbox(&format!("?session_id={}", ended["session_id"].as_str().unwrap())).await;
    [&ended["message_id"], &ended["session_id"], &open[0]["id"]].map(|id| id.as_str().unwrap().to_owned())
}

/// The runs of a session with their status, sorted by that.
async fn runs(bench: &Bench, session: &str) -> Vec<(String, String)> {
    let listed = bench.get(&format!("/api/v1/runs?session_id={session}")).await.data();
    let word = |run: &Json, member: &str| run[member].as_str().unwrap().to_owned();
    let runs = listed["runs"].as_array().unwrap().iter();
    let mut runs: Vec<_> = runs.map(|run| (word(run, "status"), word(run, "id"))).collect();
    runs.sort();
    runs
}

#[tokio::test]
async fn a_run_that_waits_is_stopped_by_each_route_and_by_each_id() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Form", form_canvas()).await;
    for (method, path, which, body) in [
        ("POST", "/api/v1/tasks/ID/cancel", 0, Json::Null),
        ("PUT", "/v1/canvas/cancel/ID", 1, Json::Null),
        ("PATCH", "/api/v1/tasks/ID", 0, json!({"action": "stop"})),
        ("POST", "/api/v1/tasks/ID/cancel", 2, Json::Null),
    ] {
        let ids = waits(&bench, &agent).await;
        let path = path.replace("ID", &ids[which]);
        for time in ["first", "second"] {
            assert_eq!(bench.ask(method, &path, body.clone()).await.data(), true, "{time} {method}");
        }
        let all = runs(&bench, &ids[1]).await;
        let [(cancelled, by), (waiting, of)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((cancelled.as_str(), waiting.as_str(), of), ("cancelled", "waiting", &ids[0]));
        let told = bench.get(&format!("/api/v1/runs/{by}/events")).await.frames();
        assert_eq!(events(&told), ["workflow_started", "workflow_finished", "[DONE]"]);
        assert_eq!(told[1].json()["data"]["status"], "cancelled");
        let late = format!("/api/v1/tasks/{}/answer", ids[2]);
        let late = bench.post(&late, json!({"inputs": {"colour": "red"}})).await;
        assert_eq!(late.status, StatusCode::CONFLICT, "{}", late.text);
        assert!(late.text.contains("was dropped: its run was stopped") && late.text.contains(by.as_str()));
        // The next question is none to the form.
        let next = json!({"session_id": ids[1], "query": "again", "stream": false});
        let next = bench.post(&format!("/api/v1/agents/{agent}/completions"), next).await.data();
        assert_eq!(next["data"]["status"], "waiting", "{next}");
    }
}

#[tokio::test]
async fn another_tenant_stops_nothing_and_learns_nothing() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Form", form_canvas()).await;
    let ids = waits(&bench, &agent).await;
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    let unknown = stranger.post("/api/v1/tasks/nothing/cancel", Json::Null).await;
    assert_eq!(unknown.data(), true);
    for id in &ids {
        let told = stranger.post(&format!("/api/v1/tasks/{id}/cancel"), Json::Null).await;
        assert_eq!((told.status, &told.text), (unknown.status, &unknown.text));
    }
    assert_eq!((bench.inbox("").await.len(), runs(&bench, &ids[1]).await.len()), (1, 1));
}

/// One process gets the answer and another one the request to stop.
#[tokio::test]
async fn an_answer_and_a_stop_at_the_same_moment_do_not_both_succeed() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Form", form_canvas()).await;
    let (other, tenant) = (bench.restarted(), default_tenant());
    for round in 0..20 {
        let ids = waits(&bench, &agent).await;
        let path = format!("/api/v1/tasks/{}/answer", ids[2]);
        let (answer, stop) =
            (bench.post(&path, json!({"inputs": {"colour": "red"}})), other.app.cancel(&tenant, &ids[0]));
        let (answered, stopped) = match round % 2 {
            0 => futures::join!(answer, stop),
            _ => {
                let (stopped, answered) = futures::join!(stop, answer);
                (answered, stopped)
            }
        };
        let ended = runs(&bench, &ids[1]).await.into_iter().map(|(status, _)| status).collect::<Vec<_>>();
        if stopped.unwrap() {
            assert_eq!(answered.status, StatusCode::CONFLICT, "{}", answered.text);
            assert_eq!(ended, ["cancelled", "waiting"]);
        } else {
            assert_eq!(answered.data()["data"]["content"], "red it is");
            assert_eq!(ended, ["succeeded", "waiting"]);
        }
    }
}

/// No component of its canvas is known any more.
fn without_components(bench: &Bench) -> weft_app::App {
    bench.restarted().app.with_parts(|parts| parts.catalog = Arc::new(Catalog::new([])))
}

#[tokio::test]
async fn a_run_that_waits_is_stopped_although_its_canvas_cannot_run_any_more() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Form", form_canvas()).await;
    let ids = waits(&bench, &agent).await;
    let app = without_components(&bench);
    assert!(app.cancel(&default_tenant(), &ids[0]).await.unwrap());
    assert_eq!(bench.inbox("").await.len(), 0);
    let all = runs(&bench, &ids[1]).await;
    let [(cancelled, by), (waiting, of)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((cancelled.as_str(), waiting.as_str(), of), ("cancelled", "waiting", &ids[0]));
    let task = TaskKey::new(&default_tenant(), ids[2].as_str());
    let dropped = app.tasks.get(&task).await.unwrap();
    assert_eq!(dropped.ended_by, Some(by.as_str().into()));
    assert!(!app.cancel(&default_tenant(), &ids[0]).await.unwrap());
}

/// Otherwise its session would be busy until another process has ended the run that takes its place.
#[tokio::test]
async fn a_stop_that_fails_leaves_no_run_under_way() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Form", form_canvas()).await;
    let ids = waits(&bench, &agent).await;
    let rates = FaultRates { done_but_failed: 1_000, ..FaultRates::default() };
    let faulty = Arc::new(FaultyStore::new(bench.store.clone(), rates, Dice::new(0)));
    let app = without_components(&bench).with_parts(|parts| parts.sessions = faulty);
    let failed = app.cancel(&default_tenant(), &ids[0]).await.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Unavailable, "{}", failed.full());
    let ended = runs(&bench, &ids[1]).await.into_iter().map(|(status, _)| status).collect::<Vec<_>>();
    assert_eq!(ended, ["cancelled", "waiting"]);
}

#[tokio::test]
async fn an_interrupted_run_is_stopped_although_its_canvas_cannot_run_any_more() {
    let bench = bench(Script::new().reply(endless(&["So "]).always())).await;
    let agent = bench.store("Chat", chat_canvas()).await;
    let canvas = weft_core::CanvasKey::new(&default_tenant(), agent);
    let session = bench.app.open_session(&canvas, "", Some(SessionId::new("s"))).await.unwrap();
    let input = TurnInput { query: "q".into(), ..TurnInput::default() };
    let handle = bench.app.start_turn(&session.key, input).await.unwrap();
    while bench.model.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    // Its process hands it over.
    bench.app.engine.shut_down(Duration::ZERO).await;
    let app = without_components(&bench);
    let found = app.cut_off().await.unwrap();
    assert!(app.pick_up(&found[0]).await.is_err(), "nothing can resume it");
    assert!(app.cancel(&default_tenant(), "s").await.unwrap());
    let found = app.cut_off().await.unwrap();
    assert!(matches!(app.pick_up(&found[0]).await.unwrap(), PickedUp::Ended(Ending::Cancelled)));
    assert_eq!(app.runs.get(&handle.key).await.unwrap().ending, Some(Ending::Cancelled));
    assert!(!app.cancel(&default_tenant(), "s").await.unwrap());
}

/// With the store that Weft uses by default.
#[tokio::test]
async fn a_run_that_waits_in_the_embedded_store_is_stopped() {
    let app = assemble_in_memory(&Config::default()).await.unwrap();
    let head = CanvasHead { title: "Form".into(), ..CanvasHead::default() };
    let (canvas, _) =
        app.put_canvas(&default_tenant(), None, head, &form_canvas().to_string()).await.unwrap();
    let session = app.open_session(&canvas.key, "", Some(SessionId::new("s"))).await.unwrap();
    let waits = async || {
        let input = TurnInput { query: "q".into(), ..TurnInput::default() };
        let mut run = app.start_turn(&session.key, input).await.unwrap();
        while run.entries.next().await.unwrap().is_some() {}
        assert_eq!(app.runs.get(&run.key).await.unwrap().ending, Some(Ending::Waiting));
        run.key.id
    };
    let open = async || {
        let filter = TaskFilter { status: Some(TaskStatus::Open), ..TaskFilter::default() };
        app.tasks.list(&default_tenant(), &filter).await.unwrap().1
    };
    let first = waits().await;
    assert_eq!(open().await, 1);
    assert!(app.cancel(&default_tenant(), first.as_str()).await.unwrap());
    assert!(!app.cancel(&default_tenant(), first.as_str()).await.unwrap());
    assert_eq!(open().await, 0);
    // By the id of the session, and after that the next question begins anew.
    waits().await;
    assert!(app.cancel(&default_tenant(), "s").await.unwrap());
    assert!(!app.cancel(&default_tenant(), "s").await.unwrap());
    waits().await;
    let filter = RunFilter { limit: 9, ..RunFilter::default() };
    let runs = app.runs.list(&default_tenant(), &filter).await.unwrap();
    let cancelled = runs.iter().filter(|run| run.ending == Some(Ending::Cancelled));
    assert_eq!((runs.len(), cancelled.count()), (5, 2));
    app.shut_down(Duration::from_secs(5)).await.unwrap();
}
