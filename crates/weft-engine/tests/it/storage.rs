//! Stored turns: rows 20, 22, 23 and 26 of the scheduling table, and what a reader sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::json;
use weft_core::journal::{Ending, Record};
use weft_core::seam::run_store::RunLease;
use weft_core::seam::session_store::{Session, SessionCommit, SessionMessage};
use weft_core::seam::{Clock, RunStore, Seams, SessionStore};
use weft_core::{ErrorKind, Json, SessionKey, TurnInput};
use weft_dsl::Plan;
use weft_engine::engine::Stores;
use weft_engine::{Engine, EngineLimits, RunHandle, SessionState, StartRun};
use weft_models::script::Script;
use weft_testkit::memory_store::MemoryStore;

use crate::golden::samples;
use crate::kit::{Does, Node, asking, choose, node, plan, seams, turn};
use crate::survival::{World, outcome, runtime};

pub(crate) struct Bench {
    pub engine: Engine,
    pub store: Arc<MemoryStore>,
    pub key: SessionKey,
}

pub(crate) async fn bench(plan: &Arc<Plan>) -> Bench {
    bench_with(plan, EngineLimits::default(), []).await
}

/// With its own limits and variables.
pub(crate) async fn bench_with(
    plan: &Arc<Plan>,
    limits: EngineLimits,
    globals: impl IntoIterator<Item = (String, Json)>,
) -> Bench {
    let mut state = SessionState::new(plan);
    state.globals.extend(globals);
    let store = Arc::new(MemoryStore::default());
    let key = SessionKey::new(&"t".into(), "s");
    let session = Session::new(key.clone(), "c", Arc::clone(&plan.version), state.to_json().unwrap(), 0);
    SessionStore::create(&*store, &session, &[]).await.unwrap();
    let stores = Stores {
        runs: store.clone(),
        sessions: store.clone(),
        spending: store.clone(),
        processes: store.clone(),
        messages: store.clone(),
    };
    Bench { engine: Engine::new(seams(), Some(stores), limits), store, key }
}

pub(crate) async fn rest(handle: &mut RunHandle) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some(entry) = handle.entries.next().await.unwrap() {
        records.push(entry.record.clone());
    }
    records
}

pub(crate) fn ending(records: &[Record]) -> Ending {
    let Some(Record::RunFinished { ending, .. }) = records.last() else { panic!("no end: {records:?}") };
    *ending
}

/// Row 20: the history has the visible answer; row 102 of the contract: and the next turn has it.
#[tokio::test]
async fn a_turn_stores_question_and_answer_in_the_session() {
    let plan = plan(&[
        node("begin", Does::Echo, &["m"]),
        node("m", Does::Say(false), &["after"]).text("you said {sys.query} after {sys.history}"),
        node("after", Does::Count("env.n"), &[]),
    ]);
    let b = bench(&plan).await;
    for query in ["one", "two"] {
        let mut handle = b.engine.start(turn(&plan, asking(query))).await.unwrap();
        assert_eq!(ending(&rest(&mut handle).await), Ending::Succeeded);
    }
    let messages = b.store.messages(&b.key, i64::MAX, 10).await.unwrap();
    let said: Vec<_> = messages.iter().map(|m| format!("{} {}", m.role, m.content)).collect();
    assert_eq!(
        said,
        [
            "user one",
            "assistant you said one after []",
            "user two",
            "assistant you said two after [\"user: one\",\"assistant: you said one after []\"]",
        ]
    );
    let state = SessionState::from_json(&b.store.load(&b.key).await.unwrap().state).unwrap();
    assert_eq!((state.turns, &state.globals["env.n"]), (2, &serde_json::json!(2)));
}

/// A clock that advances by a millisecond whenever it is read.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now_ms(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn running(&self) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test]
async fn a_question_has_the_time_at_which_it_was_asked() {
    let plan = plan(&[node("begin", Does::Echo, &["m"]), node("m", Does::Say(false), &[]).text("yes")]);
    let b = bench(&plan).await;
    let clock = Arc::new(Ticking(AtomicI64::new(1_000)));
    let seams = Seams { clock, ..Arc::into_inner(seams()).unwrap() };
    let stores = Stores {
        runs: b.store.clone(),
        sessions: b.store.clone(),
        spending: b.store.clone(),
        processes: b.store.clone(),
        messages: b.store.clone(),
    };
    let engine = Engine::new(Arc::new(seams), Some(stores), EngineLimits::default());
    let records = rest(&mut engine.start(turn(&plan, asking("q"))).await.unwrap()).await;
    let Some(Record::RunStarted { now_ms, .. }) = records.first() else { panic!("{records:?}") };
    let messages = b.store.messages(&b.key, i64::MAX, 10).await.unwrap();
    assert_eq!((messages[0].role.as_str(), messages[0].created_ms), ("user", *now_ms));
    assert_eq!(messages[1].role, "assistant");
    assert!(messages[1].created_ms > *now_ms, "the answer is dated when it is complete: {messages:?}");
}

/// Row 22: one turn of a session at a time.
#[tokio::test(start_paused = true)]
async fn a_concurrent_second_turn_is_refused() {
    let plan = plan(&[node("begin", Does::Echo, &["slow"]), node("slow", Does::Slow(1_000), &[])]);
    let b = bench(&plan).await;
    let mut first = b.engine.start(turn(&plan, asking("1"))).await.unwrap();
    let Err(refused) = b.engine.start(turn(&plan, asking("2"))).await else { panic!() };
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert_eq!(ending(&rest(&mut first).await), Ending::Succeeded);
    let mut third = b.engine.start(turn(&plan, asking("3"))).await.unwrap();
    assert_eq!(ending(&rest(&mut third).await), Ending::Succeeded);
}

/// Rows 23 and 26: cancelling affects one run, ends it as cancelled, and blocks nothing after it.
#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_as_cancelled_and_the_next_one_runs() {
    let plan = plan(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::Stream(vec!["a", "b", "c", "d"], 1_000), &["m"]),
        node("m", Does::Say(true), &[]).text("{llm@out}"),
    ]);
    let b = bench(&plan).await;
    let mut handle = b.engine.start(turn(&plan, asking("1"))).await.unwrap();
    while let Some(entry) = handle.entries.next_event().await.unwrap() {
        if matches!(&entry.record, Record::Said { text, .. } if &**text == "b") {
            break;
        }
    }
    let began = tokio::time::Instant::now();
    assert!(b.engine.cancel(&handle.key).await.unwrap());
    let records = rest(&mut handle).await;
    assert_eq!(ending(&records), Ending::Cancelled);
    let Some(Record::RunFinished { error: Some(error), .. }) = records.last() else { panic!() };
    assert_eq!(&**error, "the run was cancelled", "and no node is blamed");
    assert!(began.elapsed() < Duration::from_secs(1));
    let finished = records.iter().filter(|r| matches!(r, Record::NodeFinished { .. })).count();
    assert_eq!(finished, 2, "the model and the message are closed");
    assert_eq!(b.store.get(&handle.key).await.unwrap().ending, Some(Ending::Cancelled));
    assert!(!b.engine.cancel(&handle.key).await.unwrap(), "it is over");
    let mut next = b.engine.start(turn(&plan, asking("2"))).await.unwrap();
    assert_eq!(ending(&rest(&mut next).await), Ending::Succeeded);
}

/// A stream continues from any number, during the run and after it.
#[tokio::test(start_paused = true)]
async fn events_can_be_read_from_any_number() {
    let plan = plan(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::Stream(vec!["a", "b", "c"], 10), &["m"]),
        node("m", Does::Say(true), &[]).text("{llm@out}"),
    ]);
    let b = bench(&plan).await;
    let handle = b.engine.start(turn(&plan, asking("1"))).await.unwrap();
    let mut live = b.engine.events(&handle.key, 3).await.unwrap();
    let mut numbers = Vec::new();
    while let Some(entry) = live.next_event().await.unwrap() {
        numbers.push(entry.event.unwrap());
    }
    let last = *numbers.last().unwrap();
    assert_eq!(numbers, (4..=last).collect::<Vec<_>>());
    for after in 0..=last {
        let mut stored = b.engine.events(&handle.key, after).await.unwrap();
        let mut again = Vec::new();
        while let Some(entry) = stored.next_event().await.unwrap() {
            again.push(entry.event.unwrap());
        }
        assert_eq!(again, (after + 1..=last).collect::<Vec<_>>());
    }
}

/// A suspension is stored in the session and resumed from it.
#[tokio::test]
async fn a_suspended_run_resumes_from_the_store() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask"]),
        node("ask", Does::Ask(vec!["ok"]), &["m"]),
        node("m", Does::Say(false), &[]).text("{ask@ok}"),
    ]);
    let b = bench(&plan).await;
    let mut first = b.engine.start(turn(&plan, asking("q"))).await.unwrap();
    assert_eq!(ending(&rest(&mut first).await), Ending::Waiting);
    let inputs = serde_json::from_str(r#"{"ok": {"value": "yes"}}"#).unwrap();
    let mut second = b.engine.start(turn(&plan, TurnInput { inputs, ..TurnInput::default() })).await.unwrap();
    assert_eq!(ending(&rest(&mut second).await), Ending::Succeeded);
    let said: Vec<_> =
        b.store.messages(&b.key, i64::MAX, 10).await.unwrap().into_iter().map(|m| m.content).collect();
    assert_eq!(said, ["q", "yes"], "the answers to a form are not a separate question");
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_and_then_leaves_the_rest_to_other_processes() {
    let plan = plan(&[node("begin", Does::Echo, &["slow"]), node("slow", Does::Slow(100_000), &[])]);
    let b = bench(&plan).await;
    let mut handle = b.engine.start(turn(&plan, asking("1"))).await.unwrap();
    b.engine.shut_down(Duration::from_secs(5)).await;
    let error = loop {
        match handle.entries.next().await {
            Ok(next) => assert!(next.is_some(), "it has no end"),
            Err(error) => break error,
        }
    };
    assert!(error.full().contains("continues in the next one"), "{}", error.full());
    assert_eq!(RunStore::get(&*b.store, &handle.key).await.unwrap().ending, None);
}

/// Row 22, between processes: the store's revision lets one turn win, and the other says so.
#[tokio::test(start_paused = true)]
async fn a_turn_overtaken_by_another_process_reports_it_and_keeps_the_other_turn() {
    let plan = plan(&[
        node("begin", Does::Echo, &["slow"]),
        node("slow", Does::Slow(1_000), &["m"]),
        node("m", Does::Say(false), &[]).text("{sys.query}"),
    ]);
    let b = bench(&plan).await;
    let mut slow = b.engine.start(turn(&plan, asking("mine"))).await.unwrap();
    let state = SessionState::new(&plan).to_json().unwrap();
    // Only who has the run may change its session.
    let lease = RunLease::first(&slow.key);
    let (revision, lease) = (0, Some(&lease));
    let commit = SessionCommit { revision, state: &state, messages: &[], tasks: None, lease };
    b.store.commit(&b.key, commit).await.unwrap();
    let records = rest(&mut slow).await;
    let Some(Record::RunFinished { ending: Ending::Failed, error: Some(error), .. }) = records.last() else {
        panic!("{records:?}")
    };
    assert!(error.contains("another run has changed session s"), "{error}");
    assert!(b.store.messages(&b.key, i64::MAX, 10).await.unwrap().is_empty());
}

/// A turn shows what its models would see of the previous conversation: `{sys.history}`.
async fn histories(nodes: &[Node], turns: &[TurnInput]) -> Vec<String> {
    let plan = plan(nodes);
    let b = bench(&plan).await;
    let key = SessionKey::new(&b.key.tenant, "opened");
    let opening = SessionMessage {
        role: "assistant".to_owned(),
        content: "Hello!".to_owned(),
        run: None,
        reference: Json::Null,
        created_ms: 0,
        feedback: None,
    };
    let session = Session { key: key.clone(), ..b.store.load(&b.key).await.unwrap() };
    SessionStore::create(&*b.store, &session, &[opening]).await.unwrap();
    let mut said = Vec::new();
    for input in turns {
        let request = StartRun { session: key.clone(), ..turn(&plan, input.clone()) };
        let records = rest(&mut b.engine.start(request).await.unwrap()).await;
        let texts = records.iter().filter_map(|record| match record {
            Record::Said { text, .. } => Some(&**text),
            _ => None,
        });
        said.push(texts.collect::<String>());
    }
    said
}

#[tokio::test]
async fn a_turn_resumed_after_a_form_is_not_in_its_own_history() {
    let answers = |ok: &str| TurnInput {
        inputs: serde_json::Map::from_iter([("ok".to_owned(), ok.into())]),
        ..TurnInput::default()
    };
    let said = histories(
        &[
            node("begin", Does::Echo, &["hello"]),
            node("hello", Does::Say(false), &["one"]).text("Let me see. "),
            node("one", Does::Ask(vec!["ok"]), &["two"]),
            node("two", Does::Ask(vec!["ok"]), &["m"]).text("{one@ok}"),
            node("m", Does::Say(false), &[]).text("{sys.query} after {sys.history}"),
        ],
        &[asking("Q"), answers("1"), answers("2"), asking("R"), answers("3"), answers("4")],
    )
    .await;
    assert_eq!(said[2], "Q after []");
    assert_eq!(
        said[5], r#"R after ["user: Q","assistant: Let me see. ","assistant: Q after []"]"#,
        "the previous turn is there, with all its text"
    );
}

#[tokio::test]
async fn a_question_repeated_after_a_failure_is_stored_once() {
    let said = histories(
        &[
            node("begin", Does::Echo, &["lucky"]),
            node(
                "lucky",
                choose(&["fails", "m"], |nth, _| if nth < 2 { vec!["fails"] } else { vec!["m"] }),
                &[],
            ),
            node("fails", Does::Fail(ErrorKind::Unavailable), &[]),
            node("m", Does::Say(false), &[]).text("{sys.query} after {sys.history}"),
        ],
        &[asking("Q"), asking("Q"), asking("Q"), asking("R")],
    )
    .await;
    assert_eq!(said[2], "Q after []");
    assert_eq!(said[3], r#"R after ["user: Q","assistant: Q after []"]"#);
}

/// A chain of templates makes no external calls, so most records are there when the store is first called.
#[test]
fn records_of_one_step_are_appended_together() {
    const NODES: usize = 40;
    let id = |at: usize| if at < NODES { format!("StringTransform:S{at}") } else { "Message:M".to_owned() };
    let text = |at: usize| match at {
        0 => "{sys.query}.".to_owned(),
        at => format!("{{{}@result}}.", id(at - 1)),
    };
    let part = |kind: &str, params: Json, to: &[String]| json!({"obj": {"component_name": kind, "params": params}, "downstream": to});
    let mut components = serde_json::Map::new();
    components.insert("begin".to_owned(), part("Begin", json!({"mode": "conversational"}), &[id(0)]));
    for at in 0..NODES {
        let params = json!({"method": "merge", "script": text(at)});
        components.insert(id(at), part("StringTransform", params, &[id(at + 1)]));
    }
    components.insert(id(NODES), part("Message", json!({"content": [text(NODES)]}), &[]));
    let canvas = json!({"components": components, "globals": {"sys.query": ""}}).to_string();
    runtime().block_on(async {
        let world = World::of(&samples().join("loop_until"), &canvas, Script::new()).await;
        let entries = world.hold(&asking("q")).await;
        assert!(entries.len() > 2 * NODES && outcome(&entries).1.contains("q......"), "{entries:?}");
        let appends = world.store.appends.load(Ordering::SeqCst);
        assert!(appends < 8, "{appends} appends for {} entries", entries.len());
    });
}

/// What operators read: each run is counted once, by its ending.
#[tokio::test]
async fn runs_are_counted_by_ending() {
    let fine = plan(&[node("begin", Does::Echo, &["m"]), node("m", Does::Say(false), &[]).text("x")]);
    let b = bench(&fine).await;
    for query in ["one", "two"] {
        let mut handle = b.engine.start(turn(&fine, asking(query))).await.unwrap();
        rest(&mut handle).await;
    }
    let ended = |b: &Bench| -> Vec<(Ending, u64)> {
        b.engine.counts().ended.all().filter(|(_, count)| *count > 0).collect()
    };
    assert_eq!(ended(&b), [(Ending::Succeeded, 2)]);
    let counts = b.engine.counts();
    assert_eq!((counts.started.get(), counts.picked_up.get()), (2, 0));
    assert_eq!(b.engine.runs_at_once(), EngineLimits::default().runs_at_once);

    let broken = plan(&[node("begin", Does::Echo, &["f"]), node("f", Does::Fail(ErrorKind::Invalid), &[])]);
    let b = bench(&broken).await;
    let mut handle = b.engine.start(turn(&broken, asking("one"))).await.unwrap();
    rest(&mut handle).await;
    assert_eq!(ended(&b), [(Ending::Failed, 1)]);
}
