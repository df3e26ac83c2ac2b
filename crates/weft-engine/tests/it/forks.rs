//! Runs that share the beginning of another run, and pinned nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use weft_core::context::Pin;
use weft_core::journal::{Ending, NextEdges};
use weft_core::seam::{RunStore, Seams, SessionStore};
use weft_core::{ComponentId, Entry, ErrorKind, Outputs, Record, Result, RunKey, SessionKey, TurnInput};
use weft_dsl::Plan;
use weft_engine::compare::{Comparison, Verdict};
use weft_engine::engine::{ForkPoint, PickedUp};
use weft_engine::{Engine, RunHandle};
use weft_models::script::Script;
use weft_testkit::memory_store::MemoryStore;

use crate::golden::{read, samples};
use crate::kit::{asking, turn};
use crate::replays::{conversations, held, replayed};
use crate::survival::{OneModel, World, check, outcome, runtime};

fn at(node: &str, edit: Pin) -> ForkPoint {
    ForkPoint { node: node.into(), activation: None, edit }
}

fn gives(name: &str, value: serde_json::Value) -> Pin {
    Pin { outputs: Outputs::of(name, value), to: None }
}

/// Forks a run into a new session and waits for its end.
async fn fork(world: &World, key: &RunKey, session: &str, point: &ForkPoint) -> Result<RunKey> {
    let run = RunStore::get(&*world.store, key).await?;
    let session = SessionKey::new(&key.tenant, session);
    let (key, forked) = world.engine().fork(&run, Arc::clone(&world.plan), session, point).await?;
    if let PickedUp::Running(mut handle) = forked {
        while handle.entries.next().await?.is_some() {}
    }
    Ok(key)
}

#[test]
fn a_fork_without_changes_ends_like_its_source_run() {
    let mut forks = 0;
    // External effects of a run remain: a fork of a run that writes files finds the files.
    for (folder, turns) in conversations().into_iter().filter(|(of, _)| !of.ends_with("files_and_sums")) {
        runtime().block_on(async {
            let world = World::new(&folder).await;
            for (nth, key) in held(&world, &turns).await.into_iter().enumerate() {
                let whole = world.journal(&key).await;
                for entry in &whole {
                    let Record::NodeFinished { who, route, error, .. } = &entry.record else { continue };
                    // A reader of a stream that broke reads the default value in a fork after that point.
                    let broke = error.is_some() && matches!(route, NextEdges::Routed(_));
                    if *route == NextEdges::Suspended || broke {
                        continue;
                    }
                    let place = format!("{} turn {nth} after {}", folder.display(), entry.seq);
                    let (node, activation) = (who.node.clone(), Some(who.activation));
                    let point = ForkPoint { node, activation, edit: Pin::default() };
                    let session = format!("s{nth}-{}", entry.seq);
                    let forked = fork(&world, &key, &session, &point)
                        .await
                        .unwrap_or_else(|e| panic!("{place}: {e:?}"));
                    let entries = world.journal(&forked).await;
                    check(&entries, &place);
                    assert_eq!(outcome(&entries), outcome(&whole), "{place}");
                    let stored =
                        world.store.store.load(&SessionKey::new(&key.tenant, session)).await.unwrap();
                    assert_eq!(stored.revision, 1, "{place}: one turn in its own session");
                    forks += 1;
                }
            }
        });
    }
    assert!(forks > 100, "{forks}");
}

/// The model of the original run could call tools, and its agent called no planner.
#[test]
fn a_fork_with_another_model_replays_identically() {
    let folder = samples().join("agent_planner");
    let canvas = read(&folder.join("canvas.json")).unwrap().replace("\"driver\": \"planner\",", "");
    let script = Script::parse(&read(&folder.join("script.json")).unwrap()).unwrap();
    runtime().block_on(async {
        let world = World::of(&folder, &canvas, script).await;
        let key = held(&world, &[asking("What is 6 times 7?")]).await.remove(0);
        let models = Arc::new(OneModel(Arc::new(world.model.with_info(|info| info.tools = false))));
        let engine = world.engine_with(Arc::new(Seams { models, ..(*world.seams).clone() }));
        let run = RunStore::get(&*world.store, &key).await.unwrap();
        let (plan, session) = (Arc::clone(&world.plan), SessionKey::new(&key.tenant, "f"));
        let (key, forked) = engine.fork(&run, plan, session, &at("begin", Pin::default())).await.unwrap();
        if let PickedUp::Running(mut handle) = forked {
            while handle.entries.next().await.unwrap().is_some() {}
        }
        assert_eq!(outcome(&world.journal(&key).await).0, Ending::Succeeded);
        assert_eq!(replayed(&world, &key).await.differences, []);
    });
}

/// The answer of a run.
fn answer(entries: &[Entry]) -> String {
    outcome(entries).1
}

#[test]
fn a_fork_continues_with_the_edit_and_leaves_the_source_run_unchanged() {
    let folder = samples().join("stream_two_models");
    let (_, turns) = conversations().into_iter().find(|(of, _)| *of == folder).unwrap();
    runtime().block_on(async {
        let world = World::new(&folder).await;
        let key = held(&world, &turns).await.remove(0);
        let before = world.journal(&key).await;
        let writer = before.iter().find_map(|entry| match &entry.record {
            Record::NodeFinished { who, .. } if &*who.kind == "LLM" => Some(who.node.clone()),
            _ => None,
        });
        let point = at(writer.unwrap().as_str(), gives("content", json!("Something else entirely.")));
        let forked = fork(&world, &key, "other", &point).await.unwrap();
        let after = world.journal(&forked).await;
        assert!(answer(&after).contains("Something else entirely."), "{}", answer(&after));
        assert_eq!(world.journal(&key).await, before);
        // The user is shown the edited text, too.
        let messages =
            world.store.store.messages(&SessionKey::new(&key.tenant, "other"), i64::MAX, 9).await.unwrap();
        assert!(messages.last().unwrap().content.contains("Something else entirely."));
        let Some(Record::RunStarted { forks: Some(forks), .. }) = after.first().map(|e| &e.record) else {
            panic!("it names its source")
        };
        assert_eq!(forks.run, key.id);

        let compared = Comparison::of(&before, &after);
        assert!(!compared.is_same() && compared.answer.is_some());
        let changed: Vec<_> = compared.nodes.iter().filter(|n| n.verdict == Verdict::Changed).collect();
        assert_eq!(changed[0].place.node, point.node);
        assert!(changed[0].changes.contains_key("outputs") && changed.len() == 2, "{changed:?}");
        assert!(Comparison::of(&before, &before).is_same());
    });
}

#[test]
fn a_fork_can_take_another_branch() {
    let folder = samples().join("categorize_three_intents");
    let (_, turns) = conversations().into_iter().find(|(of, _)| *of == folder).unwrap();
    runtime().block_on(async {
        let world = World::new(&folder).await;
        let key = held(&world, &turns).await.remove(0);
        let before = world.journal(&key).await;
        let (node, went) = before
            .iter()
            .find_map(|entry| match &entry.record {
                Record::NodeFinished { who, route: NextEdges::Routed(weft_core::Route::To(to)), .. } => {
                    Some((who.node.clone(), to.clone()))
                }
                _ => None,
            })
            .unwrap();
        let branching = world.plan.nodes.iter().find(|plan| plan.id == node).unwrap();
        let ways = branching.shape.branches.as_ref().unwrap().iter().flat_map(|(_, ids)| ids);
        let other: Vec<ComponentId> = ways.filter(|id| !went.contains(id)).take(1).cloned().collect();
        let edit = Pin { outputs: Outputs::new(), to: Some(other.clone()) };
        let forked = fork(&world, &key, "other", &at(node.as_str(), edit)).await.unwrap();
        let compared = Comparison::of(&before, &world.journal(&forked).await);
        let verdict = |id: &ComponentId| compared.nodes.iter().find(|n| n.place.node == *id).unwrap().verdict;
        assert_eq!((verdict(&went[0]), verdict(&other[0])), (Verdict::OnlyFirst, Verdict::OnlySecond));
        assert!(compared.nodes.iter().any(|n| n.changes.contains_key("route")));

        let nowhere = Pin { outputs: Outputs::new(), to: Some(vec!["Message:None".into()]) };
        let refused = fork(&world, &key, "third", &at(node.as_str(), nowhere)).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
        let refused = fork(&world, &key, "third", &at("LLM:None", Pin::default())).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NotFound);
        let refused = fork(&world, &key, "other", &at(node.as_str(), Pin::default())).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict);
        // The refused fork has left nothing behind.
        assert!(world.store.store.load(&SessionKey::new(&key.tenant, "third")).await.is_err());
    });
}

fn pinned(query: &str, pins: impl IntoIterator<Item = (&'static str, Pin)>) -> TurnInput {
    let pins: BTreeMap<_, _> = pins.into_iter().map(|(id, pin)| (ComponentId::from(id), pin)).collect();
    TurnInput { pins, ..asking(query) }
}

#[test]
fn a_pinned_node_returns_its_pinned_outputs_without_running() {
    let folder = samples().join("stream_two_models");
    runtime().block_on(async {
        let world = World::new(&folder).await;
        let writers: Vec<&'static str> = world
            .plan
            .nodes
            .iter()
            .filter(|node| &*node.kind == "LLM")
            .map(|node| &*node.id.to_string().leak())
            .collect();
        let pins = writers.iter().map(|id| (*id, gives("content", json!(format!("pinned {id}")))));
        let entries = world.hold(&pinned("q", pins)).await;
        assert_eq!(outcome(&entries).0, Ending::Succeeded);
        assert!(writers.iter().all(|id| answer(&entries).contains(&format!("pinned {id}"))));
        assert!(!entries.iter().any(|entry| matches!(entry.record, Record::EffectStarted { .. })));
    });
}

#[test]
fn invalid_pins_are_refused_with_the_reason() {
    let folder = samples().join("categorize_three_intents");
    runtime().block_on(async {
        let world = World::new(&folder).await;
        let id = |kind: &str| {
            let node = world.plan.nodes.iter().find(|node| &*node.kind == kind).unwrap();
            &*node.id.to_string().leak()
        };
        let check = |id: &'static str, pin: Pin, reason: &'static str| {
            let (engine, plan) = (world.engine(), Arc::clone(&world.plan));
            async move {
                let Err(error) = engine.start(turn(&plan, pinned("q", [(id, pin)]))).await else {
                    panic!("{id} was pinned")
                };
                assert_eq!(error.kind, ErrorKind::Invalid);
                assert!(error.full().contains(reason), "{}", error.full());
            }
        };
        check("LLM:None", Pin::default(), "no such node").await;
        check(id("Begin"), Pin::default(), "inputs").await;
        check(id("Categorize"), gives("category_name", json!("x")), "`to`").await;
        check(id("Message"), Pin { to: Some(Vec::new()), ..Pin::default() }, "does not branch").await;
        // Nothing of it was started.
        assert!(world.hold(&asking("q")).await.len() > 2);
    });
}

/// An active run with a call beside the edited node.
struct Calling {
    plan: Arc<Plan>,
    /// How many times it was made.
    calls: Arc<AtomicU64>,
    store: Arc<MemoryStore>,
    engine: Engine,
    handle: RunHandle,
}

impl Calling {
    async fn begin() -> Self {
        let (plan, calls) = crate::faults::calling_beside();
        let store = Arc::new(MemoryStore::default());
        crate::faults::stored(&store, &plan).await;
        let engine = crate::faults::engine_on(&store);
        let handle = engine.start(turn(&plan, asking("q"))).await.unwrap();
        Self { plan, calls, store, engine, handle }
    }
}

/// An agent-like node beside the edited one has made an at-most-once call and waits for it when the fork point
/// ends.
#[tokio::test(start_paused = true)]
async fn a_call_beside_the_edited_node_is_reused() {
    let Calling { plan, calls, store, engine, mut handle } = Calling::begin().await;
    while handle.entries.next().await.unwrap().is_some() {}
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let run = RunStore::get(&*store, &handle.key).await.unwrap();
    let point = at("quick", gives("out", json!("EDITED")));
    let session = SessionKey::new(&run.key.tenant, "forked");
    let (key, forked) = engine.fork(&run, Arc::clone(&plan), session, &point).await.unwrap();
    let PickedUp::Running(mut handle) = forked else { panic!("it continues") };
    let mut said = String::new();
    while let Some(entry) = handle.entries.next().await.unwrap() {
        if let Record::Said { text, .. } = &entry.record {
            said.push_str(text);
        }
    }
    assert_eq!(RunStore::get(&*store, &key).await.unwrap().ending, Some(Ending::Succeeded));
    assert_eq!(calls.load(Ordering::SeqCst), 1, "it was made, and returned");
    assert_eq!(said, "EDITED called");
    // Replaying the fork from its journal gives the same, although one node was pinned.
    let run = RunStore::get(&*store, &key).await.unwrap();
    let replayed = engine.replay(&run, Arc::clone(&plan)).await.unwrap();
    assert_eq!(replayed.differences, []);
    // The same holds for a fork of the fork.
    let session = SessionKey::new(&run.key.tenant, "forked again");
    let point = at("m", gives("out", json!("Nothing.")));
    let (key, forked) = engine.fork(&run, Arc::clone(&plan), session, &point).await.unwrap();
    if let PickedUp::Running(mut handle) = forked {
        while handle.entries.next().await.unwrap().is_some() {}
    }
    let run = RunStore::get(&*store, &key).await.unwrap();
    let replayed = engine.replay(&run, plan).await.unwrap();
    assert_eq!(replayed.differences, []);
}

/// The same while the source run still waits for its call: nothing was interrupted, and the fork makes its own
/// call.
#[tokio::test(start_paused = true)]
async fn a_call_pending_in_the_source_run_is_made_by_the_fork() {
    let Calling { plan, calls, store, engine, mut handle } = Calling::begin().await;
    let ended = |entry: &Entry| match &entry.record {
        Record::NodeFinished { who, .. } => who.node.as_str() == "quick",
        _ => false,
    };
    while !ended(&handle.entries.next().await.unwrap().unwrap()) {}
    assert_eq!(calls.load(Ordering::SeqCst), 1, "it has begun");
    let run = RunStore::get(&*store, &handle.key).await.unwrap();
    let point = at("quick", gives("out", json!("EDITED")));
    let session = SessionKey::new(&run.key.tenant, "forked");
    let (key, forked) = engine.fork(&run, Arc::clone(&plan), session, &point).await.unwrap();
    let PickedUp::Running(mut other) = forked else { panic!("it continues") };
    while other.entries.next().await.unwrap().is_some() {}
    while handle.entries.next().await.unwrap().is_some() {}
    for key in [&handle.key, &key] {
        assert_eq!(RunStore::get(&*store, key).await.unwrap().ending, Some(Ending::Succeeded));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn an_edited_message_text_is_shown() {
    let folder = samples().join("stream_two_models");
    let (_, turns) = conversations().into_iter().find(|(of, _)| *of == folder).unwrap();
    runtime().block_on(async {
        let world = World::new(&folder).await;
        let key = held(&world, &turns).await.remove(0);
        let before = world.journal(&key).await;
        let message = before.iter().rev().find_map(|entry| match &entry.record {
            Record::NodeFinished { who, .. } if &*who.kind == "Message" => Some(who.node.clone()),
            _ => None,
        });
        let point = at(message.unwrap().as_str(), gives("content", json!("By hand.")));
        let forked = fork(&world, &key, "other", &point).await.unwrap();
        let after = world.journal(&forked).await;
        check(&after, "an edited message");
        assert!(answer(&after).contains("By hand."), "{}", answer(&after));
        let messages =
            world.store.store.messages(&SessionKey::new(&key.tenant, "other"), i64::MAX, 9).await.unwrap();
        assert!(messages.last().unwrap().content.ends_with("By hand."), "{messages:?}");
        let run = RunStore::get(&*world.store, &forked).await.unwrap();
        let replayed = world.engine().replay(&run, Arc::clone(&world.plan)).await.unwrap();
        assert_eq!(replayed.differences, []);
    });
}
