//! Runs that are stopped while they wait for a person, before they have begun, and after an interruption.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weft_core::journal::{Ending, Record};
use weft_core::seam::run_store::{RunFilter, StoredRun};
use weft_core::seam::session_store::Session;
use weft_core::seam::task_store::{TaskFilter, TaskStatus};
use weft_core::seam::{RunStore, SessionStore, TaskStore};
use weft_core::{ErrorKind, RunKey, SessionKey, TurnInput};
use weft_dsl::Plan;
use weft_engine::engine::PickedUp;
use weft_engine::{EngineLimits, StartRun};
use weft_testkit::memory_store::MemoryStore;

use crate::faults::{Held, engine_on, engine_within, held_at, journal};
use crate::kit::{Does, asking, node, plan, turn};
use crate::storage::{Bench, bench, bench_with, ending, rest};
use crate::survival::check;

fn given(inputs: &Json) -> TurnInput {
    TurnInput { inputs: inputs.as_object().unwrap().clone(), ..TurnInput::default() }
}

/// A form, a form without fields, and a call that needs approval, all at once.
fn asks() -> Arc<Plan> {
    plan(&[
        node("begin", Does::Echo, &["ask", "gate", "call"]),
        node("ask", Does::Ask(vec!["ok"]), &["m"]),
        node("gate", Does::Ask(vec![]), &["m"]),
        node("call", Does::Approve(vec!["x"], vec!["c1"]), &["m"]),
        node("m", Does::Say(false), &[]).text("{ask@ok}{call@out}"),
    ])
}

/// A run that waits for a person.
async fn waiting(b: &Bench, plan: &Arc<Plan>, input: TurnInput) -> StoredRun {
    let mut handle = b.engine.start(turn(plan, input)).await.unwrap();
    assert_eq!(ending(&rest(&mut handle).await), Ending::Waiting);
    RunStore::get(&*b.store, &handle.key).await.unwrap()
}

/// How the runs of a store have ended, sorted.
async fn endings(store: &MemoryStore) -> Vec<&'static str> {
    let filter = RunFilter { limit: 99, ..RunFilter::default() };
    let runs = RunStore::list(store, &"t".into(), &filter).await.unwrap();
    let mut endings: Vec<_> =
        runs.iter().map(|run| run.ending.map_or("unfinished", Ending::as_str)).collect();
    endings.sort_unstable();
    endings
}

async fn open_tasks(store: &MemoryStore) -> usize {
    let filter = TaskFilter { status: Some(TaskStatus::Open), limit: 99, ..TaskFilter::default() };
    TaskStore::list(store, &"t".into(), &filter).await.unwrap().0.len()
}

#[tokio::test]
async fn a_waiting_run_is_ended_by_one_that_starts_no_work() {
    let plan = asks();
    let b = bench(&plan).await;
    let run = waiting(&b, &plan, asking("q")).await;
    assert_eq!(b.tasks(TaskStatus::Open).await.len(), 3);
    let mut handle = b.engine.stop_waiting(&run, Arc::clone(&plan)).await.unwrap().unwrap();
    let records = rest(&mut handle).await;
    let [Record::RunStarted { resumes, .. }, Record::RunFinished { ending, error: Some(error), .. }] =
        &records[..]
    else {
        panic!("{records:?}")
    };
    assert_eq!((resumes.as_ref(), *ending), (Some(&run.key.id), Ending::Cancelled));
    assert_eq!(&**error, "the run was cancelled");
    assert_eq!(endings(&b.store).await, ["cancelled", "waiting"]);
    // No task counts as answered, not even the one that needs no values.
    let dropped = b.tasks(TaskStatus::Dropped).await;
    assert_eq!(dropped.len(), 3);
    assert!(dropped.iter().all(|task| task.ended_by.as_ref() == Some(&handle.key.id)));
    // A second stop changes nothing, and an answer is too late.
    assert!(b.engine.stop_waiting(&run, Arc::clone(&plan)).await.unwrap().is_none());
    let late = turn(&plan, given(&json!({"ok": 1})));
    let late = StartRun { task: Some(dropped[0].key.id.clone()), ..late };
    let Err(refused) = b.engine.start(late).await else { panic!("the answer is too late") };
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.contains("stopped"), "{}", refused.message);
    assert_eq!(endings(&b.store).await.len(), 2);
    // The next question begins from the start.
    waiting(&b, &plan, asking("again")).await;
    let messages = b.store.messages(&b.key, i64::MAX, 9).await.unwrap();
    let said: Vec<_> = messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(said, ["q", "again"]);
}

/// Its Iteration was started by an earlier run, and ends with this one.
#[tokio::test]
async fn a_run_that_waits_within_a_frame_is_stopped_with_it() {
    let plan = plan(&[
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(2, "ask@ok"), &["m"]).text("{sys.files}"),
        node("item", Does::Item, &["ask"]).within("each"),
        node("ask", Does::Ask(vec!["ok"]), &[]).within("each"),
        node("m", Does::Say(false), &[]).text("{each@all}"),
    ]);
    let b = bench(&plan).await;
    let input = TurnInput { files: vec![json!("a"), json!("b")], ..asking("q") };
    let run = waiting(&b, &plan, input).await;
    let mut handle = b.engine.stop_waiting(&run, plan).await.unwrap().unwrap();
    rest(&mut handle).await;
    let entries = journal(&b.store, &handle.key).await;
    check(&entries, "stopped");
    let started = entries.iter().filter_map(|entry| match &entry.record {
        Record::NodeStarted { who } => Some(who.node.as_str()),
        _ => None,
    });
    assert_eq!(started.collect::<Vec<_>>(), ["each"]);
    assert_eq!((endings(&b.store).await, open_tasks(&b.store).await), (vec!["cancelled", "waiting"], 0));
}

/// Stopping does no work, so it has to be possible when there is room for no other run.
#[tokio::test(start_paused = true)]
async fn a_waiting_run_is_stopped_however_many_runs_are_under_way() {
    let plan = plan(&[
        node("begin", Does::Echo, &["slow"]),
        node("slow", Does::Slow(1_000), &["ask"]),
        node("ask", Does::Ask(vec!["ok"]), &[]),
    ]);
    let limits = EngineLimits { runs_at_once: 1, tenant_runs_at_once: 1, ..EngineLimits::default() };
    let b = bench_with(&plan, limits, []).await;
    let run = waiting(&b, &plan, asking("q")).await;
    let other = SessionKey::new(&"t".into(), "other");
    let session = Session { key: other.clone(), revision: 0, ..b.store.load(&b.key).await.unwrap() };
    let fresh = weft_engine::SessionState::new(&plan).to_json().unwrap();
    SessionStore::create(&*b.store, &Session { state: fresh, ..session }, &[]).await.unwrap();
    let busy = StartRun { session: other, ..turn(&plan, asking("q")) };
    let _busy = b.engine.start(busy.clone()).await.unwrap();
    let third = StartRun { session: SessionKey::new(&"t".into(), "third"), ..busy };
    let Err(full) = b.engine.start(third).await else { panic!("there is no room") };
    assert_eq!(full.kind, ErrorKind::RateLimited);
    let mut handle = b.engine.stop_waiting(&run, plan).await.unwrap().unwrap();
    assert_eq!(ending(&rest(&mut handle).await), Ending::Cancelled);
}

#[tokio::test]
async fn a_run_cancelled_before_it_begins_starts_no_work() {
    let plan = plan(&[node("begin", Does::Echo, &["a"]), node("a", Does::Echo, &[])]);
    let b = bench(&plan).await;
    let mut handle = b.engine.start(turn(&plan, asking("q"))).await.unwrap();
    handle.cancel.cancel();
    let records = rest(&mut handle).await;
    assert!(
        matches!(
            &records[..],
            [Record::RunStarted { .. }, Record::RunFinished { ending: Ending::Cancelled, .. }]
        ),
        "{records:?}"
    );
}

/// A plan that asks at once and works afterwards.
fn asks_first() -> Arc<Plan> {
    plan(&[
        node("begin", Does::Echo, &["ask"]),
        node("ask", Does::Ask(vec!["ok"]), &["slow"]),
        node("slow", Does::Slow(100_000), &[]),
    ])
}

/// Whoever stops a run in the moment in which it comes to wait is told that it stops, so it does not wait.
#[tokio::test(start_paused = true)]
async fn a_run_stopped_while_its_wait_is_stored_does_not_wait() {
    let plan = asks_first();
    let whole = {
        let b = bench(&plan).await;
        let run = waiting(&b, &plan, asking("q")).await;
        journal(&b.store, &run.key).await.len() as u64
    };
    for (held, dies) in [(Held::Asked, false), (Held::Answered, false), (Held::Asked, true)] {
        let memory = Arc::new(MemoryStore::default());
        crate::faults::stored(&memory, &plan).await;
        let (gate, engine) = held_at(&memory, held, whole);
        let mut handle = engine.start(turn(&plan, asking("q"))).await.unwrap();
        gate.arrived.notified().await;
        assert_eq!(open_tasks(&memory).await, 1, "its wait is stored");
        let other = engine_on(&memory);
        assert!(other.cancel(&handle.key).await.unwrap());
        if dies {
            let run = RunStore::get(&*memory, &handle.key).await.unwrap();
            let picked_up = other.pick_up(&run, Arc::clone(&plan)).await.unwrap();
            assert!(matches!(picked_up, PickedUp::Ended(Ending::Cancelled)));
            other.shut_down(Duration::from_secs(9)).await;
        } else {
            gate.opened.notify_one();
            rest(&mut handle).await;
            engine.shut_down(Duration::from_secs(9)).await;
        }
        assert_eq!(endings(&memory).await, ["cancelled", "waiting"], "{held:?}, dies: {dies}");
        assert_eq!(open_tasks(&memory).await, 0);
    }
}

/// The process ended after it announced the run and before it stored an entry.
#[tokio::test]
async fn a_run_stopped_before_it_began_ends_as_cancelled() {
    let plan = asks_first();
    for (cancel_ms, expected) in [(Some(1), Ending::Cancelled), (None, Ending::Failed)] {
        let b = bench(&plan).await;
        let run = StoredRun { cancel_ms, ..StoredRun::begun(RunKey::new(&"t".into(), "r"), "s", "c", 0) };
        RunStore::create(&*b.store, &run).await.unwrap();
        let picked_up = b.engine.pick_up(&run, Arc::clone(&plan)).await.unwrap();
        assert!(matches!(picked_up, PickedUp::Ended(ending) if ending == expected));
        let entries = journal(&b.store, &run.key).await;
        assert!(matches!(&entries[..], [only] if matches!(only.record, Record::RunFinished { .. })));
    }
}

/// That it cannot be resumed once more is no failure of a run that was to stop anyway.
#[tokio::test(start_paused = true)]
async fn a_run_interrupted_too_often_ends_as_cancelled_if_it_was_to_stop() {
    let plan = plan(&[node("begin", Does::Echo, &["slow"]), node("slow", Does::Slow(100_000), &[])]);
    for (stops, expected) in [(true, "cancelled"), (false, "failed")] {
        let limits = EngineLimits { pick_ups: 0, ..EngineLimits::default() };
        let b = bench_with(&plan, limits, []).await;
        let handle = b.engine.start(turn(&plan, asking("q"))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let engine = engine_within(&b.store, limits);
        if stops {
            assert!(RunStore::request_cancel(&*b.store, &handle.key, 1).await.unwrap());
        }
        let run = RunStore::get(&*b.store, &handle.key).await.unwrap();
        assert!(matches!(engine.pick_up(&run, Arc::clone(&plan)).await.unwrap(), PickedUp::Ended(_)));
        assert_eq!(endings(&b.store).await, [expected]);
        check(&journal(&b.store, &handle.key).await, expected);
    }
}

/// Its canvas no longer runs, so nothing can resume it.
#[tokio::test(start_paused = true)]
async fn an_interrupted_run_is_ended_as_cancelled_without_its_canvas() {
    let plan = asks_first();
    let b = bench(&plan).await;
    waiting(&b, &plan, asking("q")).await;
    let handle = b.engine.start(turn(&plan, given(&json!({"ok": 1})))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let run = RunStore::get(&*b.store, &handle.key).await.unwrap();
    assert_eq!((run.ending, open_tasks(&b.store).await), (None, 1), "the answer counts at its end");
    engine_on(&b.store).end_cancelled(&run).await.unwrap();
    assert_eq!((endings(&b.store).await, open_tasks(&b.store).await), (vec!["cancelled", "waiting"], 0));
    let entries = journal(&b.store, &handle.key).await;
    check(&entries, "ended");
    let state = b.store.load(&b.key).await.unwrap().state;
    assert!(state.get("paused").is_none_or(Json::is_null), "{state}");
}
