//! Runs replayed from their journals, without any external service.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use weft_core::budget::{BudgetLimits, PeriodLimits};
use weft_core::id::{ChunkId, DatasetId};
use weft_core::seam::chat_model::{ChatModel, ModelDirectory, ModelInfo};
use weft_core::seam::clock::FixedClock;
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_core::seam::knowledge::{DatasetBrief, Found, Knowledge, Passage, SearchRequest};
use weft_core::seam::run_store::{RunLease, StoredEntry, StoredRun};
use weft_core::seam::{Http, RunStore, Seams};
use weft_core::{
    Ending, Entry, Error, ErrorKind, Outputs, Record, Result, RunKey, TenantId, TurnInput, async_trait,
};
use weft_engine::engine::{Allowances, PickedUp, Replayed};
use weft_engine::{Engine, EngineLimits};
use weft_models::script::Script;
use weft_testkit::MemoryWorkspace;

use crate::golden::{Input, read, samples};
use crate::kit::turn;
use crate::survival::{OneModel, World, outcome, runtime};

/// Nothing is available.
struct Nowhere;

fn nothing() -> Error {
    Error::new(ErrorKind::Unavailable, "there is no outside")
}

impl ModelDirectory for Nowhere {
    fn resolve(&self, _: &TenantId, _: &str) -> Result<Arc<dyn ChatModel>> {
        Err(nothing())
    }

    fn list(&self, _: &TenantId) -> Vec<ModelInfo> {
        Vec::new()
    }
}

#[async_trait]
impl Http for Nowhere {
    async fn send(&self, _: &TenantId, _: HttpRequest) -> Result<HttpResponse> {
        Err(nothing())
    }

    async fn may_reach(&self, _: &TenantId, _: &str) -> Result<()> {
        Err(nothing())
    }
}

#[async_trait]
impl Knowledge for Nowhere {
    async fn datasets(&self, _: &TenantId, _: &[String]) -> Result<Vec<DatasetBrief>> {
        Err(nothing())
    }

    async fn search(&self, _: &TenantId, _: &SearchRequest) -> Result<Found> {
        Err(nothing())
    }

    async fn passages(&self, _: &TenantId, _: &[DatasetId], _: &[ChunkId]) -> Result<Vec<Passage>> {
        Err(nothing())
    }
}

pub(crate) fn nowhere() -> Arc<Seams> {
    Arc::new(Seams {
        models: Arc::new(Nowhere),
        http: Arc::new(Nowhere),
        knowledge: Arc::new(Nowhere),
        workspace: Arc::new(MemoryWorkspace::default()),
        clock: Arc::new(FixedClock(0)),
        ..weft_testkit::around::no_seams()
    })
}

/// Every conversation of every sample, turn by turn.
pub(crate) fn conversations() -> Vec<(PathBuf, Vec<TurnInput>)> {
    let folders = std::fs::read_dir(samples()).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir());
    let mut all: Vec<_> = folders
        .flat_map(|folder| {
            let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
            input.conversations.into_iter().map(move |c| (folder.clone(), c.turns))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

pub(crate) async fn replayed(world: &World, key: &RunKey) -> Replayed {
    let run = RunStore::get(&*world.store, key).await.unwrap();
    world.engine_with(nowhere()).replay(&run, Arc::clone(&world.plan)).await.unwrap()
}

pub(crate) async fn held(world: &World, turns: &[TurnInput]) -> Vec<RunKey> {
    let mut keys = Vec::new();
    for input in turns {
        let mut handle = world.engine().start(turn(&world.plan, input.clone())).await.unwrap();
        while handle.entries.next().await.unwrap().is_some() {}
        keys.push(handle.key);
    }
    keys
}

#[test]
fn every_sample_run_replays_identically_from_its_journal() {
    let mut kinds = BTreeSet::new();
    for (folder, turns) in conversations() {
        runtime().block_on(async {
            let world = World::new(&folder).await;
            // Later turns have changed the session by the time the first one is replayed.
            for key in held(&world, &turns).await {
                let Replayed { entries, differences } = replayed(&world, &key).await;
                assert_eq!(differences, [], "{}", folder.display());
                assert_eq!(entries, world.journal(&key).await);
                kinds.extend(entries.iter().filter_map(|entry| match &entry.record {
                    Record::EffectFinished { key, .. } => Some(key.rsplit_once('#').unwrap().0.to_owned()),
                    _ => None,
                }));
            }
        });
    }
    assert!(["model", "http", "search"].iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
}

#[test]
fn an_interrupted_run_replays_identically() {
    for name in ["agent_tools", "stream_two_models", "loop_until", "web_lookup"] {
        let folder = samples().join(name);
        let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
        let question = input.conversations[0].turns[0].clone();
        let whole = runtime().block_on(async { World::new(&folder).await.hold(&question).await });
        for cut in 2..whole.len() as u64 {
            let (world, key) = runtime().block_on(async {
                let world = World::new(&folder).await;
                world.cut_at(Some(cut));
                let handle = world.engine().start(turn(&world.plan, question.clone())).await.unwrap();
                world.store.stalled.notified().await;
                (world, handle.key)
            });
            runtime().block_on(async {
                world.cut_at(None);
                let run = RunStore::get(&*world.store, &key).await.unwrap();
                if let PickedUp::Running(mut handle) =
                    world.engine().pick_up(&run, Arc::clone(&world.plan)).await.unwrap()
                {
                    while handle.entries.next().await.unwrap().is_some() {}
                }
                assert_eq!(replayed(&world, &key).await.differences, [], "{name} cut after {cut}");
            });
        }
    }
}

/// A journal with a different content, in a separate store.
async fn retold(folder: &Path, question: &TurnInput, change: impl Fn(&mut Entry)) -> Vec<&'static str> {
    let world = World::new(folder).await;
    let key = held(&world, std::slice::from_ref(question)).await.remove(0);
    differing(&world, &key, &World::new(folder).await, change).await
}

/// How the replay of a run differs from its journal with a different content, in another store.
async fn differing(
    from: &World,
    key: &RunKey,
    world: &World,
    change: impl Fn(&mut Entry),
) -> Vec<&'static str> {
    let mut entries = from.journal(key).await;
    let run = RunStore::get(&*from.store, key).await.unwrap();
    entries.iter_mut().for_each(&change);
    RunStore::create(&*world.store, &StoredRun { ending: None, ..run }).await.unwrap();
    let stored = |entry: Entry| StoredEntry {
        seq: entry.seq,
        event: entry.event,
        at_ms: entry.at_ms,
        record: serde_json::to_string(&entry.record).unwrap().into(),
    };
    world.store.append(&RunLease::first(key), entries.into_iter().map(stored).collect()).await.unwrap();
    replayed(world, key).await.differences.into_iter().map(|difference| difference.what).collect()
}

/// As an older version wrote it.
fn without_settings(entry: &mut Entry) {
    if let Record::RunStarted { settings, .. } = &mut entry.record {
        *settings = None;
    }
}

/// Runs one turn to its end.
async fn ended(engine: &Engine, world: &World, input: &TurnInput) -> RunKey {
    let mut handle = engine.start(turn(&world.plan, input.clone())).await.unwrap();
    while handle.entries.next().await.unwrap().is_some() {}
    handle.key
}

/// The planner ran because the model could not call tools, which nothing but the journal knows later.
#[test]
fn the_planner_of_a_model_without_tool_calls_replays_identically() {
    let folder = samples().join("agent_planner");
    let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
    let question = &input.conversations[0].turns[0];
    let canvas = read(&folder.join("canvas.json")).unwrap().replace("\"driver\": \"planner\",", "");
    let script = || Script::parse(&read(&folder.join("script.json")).unwrap()).unwrap();
    runtime().block_on(async {
        let world = World::of(&folder, &canvas, script()).await;
        let models = Arc::new(OneModel(Arc::new(world.model.with_info(|info| info.tools = false))));
        let engine = world.engine_with(Arc::new(Seams { models, ..(*world.seams).clone() }));
        let key = ended(&engine, &world, question).await;
        let journal = world.journal(&key).await;
        assert_eq!(outcome(&journal).0, Ending::Succeeded);
        let warns = |entry: &Entry| matches!(&entry.record, Record::Warned { message, .. } if message.contains("the planner"));
        assert!(journal.iter().any(warns));
        assert_eq!(replayed(&world, &key).await.differences, []);
        let other = World::of(&folder, &canvas, script()).await;
        assert_eq!(differing(&world, &key, &other, without_settings).await, [""; 0]);
    });
}

/// Whatever budgets the settings have by now.
#[test]
fn runs_replay_identically_under_other_budgets() {
    let folder = samples().join("agent_tools");
    let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
    let question = &input.conversations[0].turns[0];
    let one = BudgetLimits { model_calls: Some(1), ..BudgetLimits::default() };
    let (limits, none) = (EngineLimits::default(), Allowances::default());
    let cases = [
        (EngineLimits { budget: one, ..limits }, none.clone()),
        (limits, Allowances { session: one, ..none.clone() }),
        // What other runs use of it is not in the journal.
        (limits, Allowances { canvas: PeriodLimits { ever: one, ..PeriodLimits::default() }, ..none }),
    ];
    for (limits, allowances) in cases {
        runtime().block_on(async {
            let world = World::new(&folder).await;
            let within = world.engine_within(Arc::clone(&world.seams), limits, allowances.clone());
            let key = ended(&within, &world, question).await;
            let journal = world.journal(&key).await;
            assert!(journal.iter().any(|entry| matches!(entry.record, Record::Limited { .. })));
            assert_eq!(replayed(&world, &key).await.differences, [], "{allowances:?}");
            let other = World::new(&folder).await;
            assert_eq!(differing(&world, &key, &other, without_settings).await, [""; 0]);

            let world = World::new(&folder).await;
            let key = ended(&world.engine(), &world, question).await;
            let run = RunStore::get(&*world.store, &key).await.unwrap();
            let strict = world.engine_within(nowhere(), limits, allowances);
            let again = strict.replay(&run, Arc::clone(&world.plan)).await.unwrap();
            assert_eq!(again.differences, []);
        });
    }
}

#[test]
fn replay_differences_are_named() {
    let folder = samples().join("agent_tools");
    let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
    let question = input.conversations[0].turns[0].clone();
    let check = |what: &str, change: &dyn Fn(&mut Record)| {
        let told = runtime().block_on(retold(&folder, &question, |entry| change(&mut entry.record)));
        assert!(told.contains(&what), "{what}: {told:?}");
    };
    assert_eq!(runtime().block_on(retold(&folder, &question, |_| {})), [""; 0]);
    check("outputs", &|record| {
        if let Record::NodeFinished { outputs, .. } = record {
            *outputs = Arc::new(Outputs::of("content", json!("something else")));
        }
    });
    check("text", &|record| {
        if let Record::Said { text, .. } = record {
            *text = "!".into();
        }
    });
    check("tool", &|record| {
        if let Record::ToolFinished { call, .. } = record {
            call.result = Arc::new(json!("another result"));
        }
    });
    // A call without a record is not made: the work fails instead.
    check("error", &|record| {
        if let Record::EffectFinished { key, .. } | Record::EffectStarted { key, .. } = record {
            *key = "elsewhere#0".into();
        }
    });
}

/// A timeout has ended the work in the middle of a call, and with it its stream readers.
#[test]
fn listeners_of_a_call_that_never_returned_are_not_compared() {
    let folder = samples().join("agent_tools");
    let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
    let question = input.conversations[0].turns[0].clone();
    let told = runtime().block_on(retold(&folder, &question, |entry| {
        if matches!(&entry.record, Record::EffectFinished { key, .. } if &**key == "model#1") {
            entry.record = Record::Warned { node: "begin".into(), message: "it is late".into() };
        }
    }));
    assert_eq!(told, [""; 0]);
}

/// The working time before a suspension is stored with it, for its budget.
#[test]
fn durations_of_waiting_nodes_are_not_compared() {
    let folder = samples().join("agent_approval");
    let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
    let question = input.conversations[0].turns[0].clone();
    let told = |member: &'static str| {
        let change = move |entry: &mut Entry| {
            if let Record::NodeFinished { suspension: Some(suspension), .. } = &mut entry.record {
                suspension.state["spent"][member] = json!(20);
            }
        };
        runtime().block_on(retold(&folder, &question, change))
    };
    assert_eq!(told("millis"), [""; 0]);
    assert_eq!(told("model_calls"), ["suspension"]);
}
