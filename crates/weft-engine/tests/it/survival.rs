//! Interrupted runs: at every point of the journal of every sample canvas, as if the process had been killed
//! there, and recovered by another one.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use weft_core::budget::Spent;
use weft_core::journal::{Ending, NextEdges, Record};
use weft_core::seam::chat_model::{ChatModel, ModelDirectory, ModelInfo};
use weft_core::seam::clock::FixedClock;
use weft_core::seam::run_store::{
    FinishedRun, GiveWayWord, Retention, RunFilter, RunLease, RunRequest, StoredEntry, StoredRun,
};
use weft_core::seam::session_store::Session;
use weft_core::seam::{Knowledge, RunStore, Seams, SessionStore, SpendingStore as _};
use weft_core::{Entry, Json, ProcessId, Result, RunKey, SessionKey, TenantId, async_trait};
use weft_dsl::Plan;
use weft_engine::engine::{Allowances, PickedUp, Stores};
use weft_engine::{Engine, EngineLimits, SessionState};
use weft_models::script::Script;
use weft_models::scripted::ScriptedModel;
use weft_testkit::MemoryWorkspace;
use weft_testkit::memory_store::MemoryStore;

use crate::golden::{Input, documents, http, read, samples};
use crate::kit::{check_that_one_speaks_at_a_time, turn};
use crate::real::compiled;

/// A model that answers equal requests equally, so that a repeated request gets the same answer.
pub(crate) fn steady(script: Script) -> ScriptedModel {
    ScriptedModel::from_fn(weft_testkit::steady(script))
}

pub(crate) struct OneModel(pub Arc<ScriptedModel>);

impl ModelDirectory for OneModel {
    fn resolve(&self, _: &TenantId, _: &str) -> Result<Arc<dyn ChatModel>> {
        Ok(Arc::clone(&self.0) as Arc<dyn ChatModel>)
    }

    fn list(&self, _: &TenantId) -> Vec<ModelInfo> {
        Vec::new()
    }
}

/// A store that accepts the first entries of a run and then never answers again, as for a dead process.
pub(crate) struct Stalling {
    pub store: Arc<MemoryStore>,
    /// How many entries of the active run are stored.
    cut: Mutex<Option<u64>>,
    pub stalled: tokio::sync::Notify,
    /// How many times entries were appended.
    pub appends: std::sync::atomic::AtomicU64,
    /// The next run is announced when this allows it.
    pub announced_after: Mutex<Option<tokio::sync::oneshot::Receiver<()>>>,
}

#[async_trait]
impl RunStore for Stalling {
    async fn create(&self, run: &StoredRun) -> Result<()> {
        RunStore::create(&*self.store, run).await
    }

    async fn announce(&self, run: &StoredRun, revision: i64) -> Result<bool> {
        let after = self.announced_after.lock().unwrap().take();
        if let Some(after) = after {
            after.await.unwrap();
        }
        self.store.announce(run, revision).await
    }

    async fn append(&self, lease: &RunLease, mut entries: Vec<StoredEntry>) -> Result<()> {
        self.appends.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let cut = *self.cut.lock().unwrap();
        let Some(cut) = cut.filter(|cut| entries.last().is_some_and(|last| last.seq >= *cut)) else {
            return self.store.append(lease, entries).await;
        };
        entries.retain(|entry| entry.seq <= cut);
        if !entries.is_empty() {
            self.store.append(lease, entries).await?;
        }
        self.stalled.notify_one();
        std::future::pending().await
    }

    async fn claim(&self, run: &RunKey, seen: i64, by: &ProcessId) -> Result<Option<RunLease>> {
        self.store.claim(run, seen, by).await
    }

    async fn release(&self, leases: &[RunLease]) -> Result<()> {
        self.store.release(leases).await
    }

    async fn request_cancel(&self, run: &RunKey, now_ms: i64) -> Result<bool> {
        self.store.request_cancel(run, now_ms).await
    }

    async fn say_of_giving_way(&self, run: &RunKey, word: GiveWayWord) -> Result<bool> {
        self.store.say_of_giving_way(run, word).await
    }

    async fn requests(&self, owner: &ProcessId) -> Result<Vec<RunRequest>> {
        self.store.requests(owner).await
    }

    async fn unattended(&self, gone: &[ProcessId], count_max: u64) -> Result<Vec<StoredRun>> {
        self.store.unattended(gone, count_max).await
    }

    async fn finish(&self, lease: &RunLease, finished: FinishedRun) -> Result<()> {
        self.store.finish(lease, finished).await
    }

    async fn get(&self, key: &RunKey) -> Result<StoredRun> {
        RunStore::get(&*self.store, key).await
    }

    async fn entries(&self, key: &RunKey, after_seq: u64, count_max: u64) -> Result<Vec<StoredEntry>> {
        self.store.entries(key, after_seq, count_max).await
    }

    async fn expired(&self, tenant: &TenantId, keep: &Retention, count_max: u64) -> Result<Vec<StoredRun>> {
        self.store.expired(tenant, keep, count_max).await
    }

    async fn remove(&self, runs: &[RunKey]) -> Result<u64> {
        self.store.remove(runs).await
    }

    async fn list(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<StoredRun>> {
        RunStore::list(&*self.store, tenant, filter).await
    }
}

/// What outlives a process: the store and the external world.
pub(crate) struct World {
    pub plan: Arc<Plan>,
    pub store: Arc<Stalling>,
    pub seams: Arc<Seams>,
    pub key: SessionKey,
    pub model: Arc<ScriptedModel>,
}

impl World {
    pub(crate) async fn new(folder: &Path) -> Self {
        let script =
            read(&folder.join("script.json")).map_or_else(Script::new, |text| Script::parse(&text).unwrap());
        Self::of(folder, &read(&folder.join("canvas.json")).unwrap(), script).await
    }

    /// The world of a sample with another canvas and another model.
    pub(crate) async fn of(folder: &Path, canvas: &str, script: Script) -> Self {
        let plan = compiled(canvas).unwrap();
        let model: Arc<ScriptedModel> = steady(script).into();
        let knowledge: Arc<dyn Knowledge> = documents(folder).await;
        let seams = Arc::new(Seams {
            models: Arc::new(OneModel(Arc::clone(&model))),
            http: Arc::new(http(folder)),
            knowledge,
            workspace: Arc::new(MemoryWorkspace::default()),
            clock: Arc::new(FixedClock(1_700_000_000_000)),
            ..weft_testkit::around::no_seams()
        });
        let store = Arc::new(MemoryStore::default());
        let key = SessionKey::new(&"t".into(), "s");
        let session = Session::new(
            key.clone(),
            "c",
            Arc::clone(&plan.version),
            SessionState::new(&plan).to_json().unwrap(),
            0,
        );
        SessionStore::create(&*store, &session, &[]).await.unwrap();
        let store = Arc::new(Stalling {
            store,
            cut: Mutex::new(None),
            stalled: tokio::sync::Notify::new(),
            appends: Default::default(),
            announced_after: Mutex::default(),
        });
        Self { plan, store, seams, key, model }
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine_with(Arc::clone(&self.seams))
    }

    /// An engine on the same store, in another world.
    pub(crate) fn engine_with(&self, seams: Arc<Seams>) -> Engine {
        self.engine_within(seams, EngineLimits::default(), Allowances::default())
    }

    /// An engine on the same store, in another world, with other limits.
    pub(crate) fn engine_within(
        &self,
        seams: Arc<Seams>,
        limits: EngineLimits,
        allowances: Allowances,
    ) -> Engine {
        let stores = Stores {
            runs: self.store.clone(),
            sessions: self.store.store.clone(),
            spending: self.store.store.clone(),
            processes: self.store.store.clone(),
            messages: self.store.store.clone(),
        };
        Engine::with_allowances(seams, Some(stores), limits, allowances)
    }

    pub(crate) fn cut_at(&self, cut: Option<u64>) {
        *self.store.cut.lock().unwrap() = cut;
    }

    /// Whether the process is interrupted before this work is over.
    pub(crate) async fn is_cut_off(&self, work: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = work => false,
            () = self.store.stalled.notified() => true,
        }
    }

    /// A process recovers an interrupted run and works to its end.
    pub(crate) async fn go_on_with(&self, key: &RunKey) {
        let run = self.store.get(key).await.unwrap();
        if let PickedUp::Running(mut handle) =
            self.engine().pick_up(&run, Arc::clone(&self.plan)).await.unwrap()
        {
            while handle.entries.next().await.unwrap().is_some() {}
        }
    }

    /// A whole turn.
    pub(crate) async fn hold(&self, input: &weft_core::TurnInput) -> Vec<Entry> {
        let mut handle = self.engine().start(turn(&self.plan, input.clone())).await.unwrap();
        while handle.entries.next().await.unwrap().is_some() {}
        self.journal(&handle.key).await
    }

    /// The usage of all its runs, from the store.
    async fn paid(&self) -> Spent {
        self.store.store.spent(&self.key.tenant, None, 0).await.unwrap().without_time()
    }

    /// The journal of a run as it is shown to people: with masks in place of secrets.
    pub(crate) async fn journal(&self, key: &RunKey) -> Vec<Entry> {
        let stored = self.store.entries(key, 0, 100_000).await.unwrap();
        let entry = |stored: StoredEntry| Entry {
            seq: stored.seq,
            event: stored.event,
            at_ms: stored.at_ms,
            record: serde_json::from_str(&weft_core::masking::shown(&stored.record)).unwrap(),
        };
        stored.into_iter().map(entry).collect()
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Everything that a run shows in the end.
pub(crate) fn outcome(entries: &[Entry]) -> (Ending, String) {
    let Some(Record::RunFinished { ending, outputs, .. }) = entries.last().map(|entry| &entry.record) else {
        panic!("no end")
    };
    (*ending, serde_json::to_string(outputs).unwrap())
}

/// The usage of a run.
fn spent(entries: &[Entry]) -> Spent {
    let Some(Record::RunFinished { spent, .. }) = entries.last().map(|entry| &entry.record) else {
        panic!("no end")
    };
    spent.without_time()
}

/// The same count. The token number of a prompt varies by one or two with random ids in it.
fn same(one: Spent, other: Spent, place: &str) {
    assert!(one.tokens.abs_diff(other.tokens) <= 2, "{place}: {one:?} {other:?}");
    assert_eq!(Spent { tokens: 0, ..one }, Spent { tokens: 0, ..other }, "{place}");
}

/// What must hold for the journal of any run that was interrupted and recovered.
pub(crate) fn check(entries: &[Entry], place: &str) {
    let events: Vec<u64> = entries.iter().filter_map(|entry| entry.event).collect();
    assert_eq!(
        events,
        (1..=events.len() as u64).collect::<Vec<_>>(),
        "{place}: events without gap or repeat"
    );
    let seqs: Vec<u64> = entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{place}");
    let ends = entries.iter().filter(|entry| matches!(entry.record, Record::RunFinished { .. })).count();
    assert_eq!(ends, 1, "{place}: one ending");
    let mut open: HashSet<u32> = HashSet::new();
    let mut given: HashSet<(String, Arc<str>)> = HashSet::new();
    for entry in entries {
        match &entry.record {
            Record::NodeStarted { who } => assert!(open.insert(who.activation), "{place}: started once"),
            Record::NodeFinished { who, route, .. } => {
                // A frame may have been open when its run was suspended.
                open.remove(&who.activation);
                if *route != NextEdges::Suspended {
                    given.retain(|(node, _)| *node != place_of(who));
                }
            }
            Record::EffectStarted { activation, key, .. } => {
                let node = node_of(entries, *activation);
                assert!(!given.contains(&(node, Arc::clone(key))), "{place}: {key} was repeated");
            }
            Record::EffectFinished { activation, key, .. } => {
                given.insert((node_of(entries, *activation), Arc::clone(key)));
            }
            _ => {}
        }
    }
    let records: Vec<_> = entries.iter().map(|entry| entry.record.clone()).collect();
    check_that_one_speaks_at_a_time(&records, place);
    let waits = matches!(
        entries.last().map(|e| &e.record),
        Some(Record::RunFinished { ending: Ending::Waiting, .. })
    );
    assert!(open.is_empty() || waits, "{place}: every start has its end, but {open:?} have none");
}

pub(crate) fn place_of(who: &weft_core::journal::ActivationRef) -> String {
    format!("{} {:?}", who.node, who.frame)
}

fn node_of(entries: &[Entry], activation: u32) -> String {
    let who = entries.iter().find_map(|entry| match &entry.record {
        Record::NodeStarted { who } if who.activation == activation => Some(place_of(who)),
        _ => None,
    });
    who.unwrap_or_default()
}

/// Interrupts one turn of one conversation after every entry of its journal.
fn survive(folder: &Path, turns: &[weft_core::TurnInput], cuts: &mut usize) {
    let (whole, paid) = runtime().block_on(async {
        let world = World::new(folder).await;
        let mut last = Vec::new();
        for input in turns {
            last = world.hold(input).await;
        }
        (last, world.paid().await)
    });
    let (last, before) = turns.split_last().unwrap();
    let finishes = |place: usize| matches!(whole[place].record, Record::NodeFinished { .. });
    for cut in 1..whole.len() as u64 {
        // A producer and its readers end in one step, which is written as one.
        if finishes(cut as usize - 1) && finishes(cut as usize) {
            continue;
        }
        let place = format!("{} turn {} cut after {cut}", folder.display(), turns.len());
        // One process, killed with everything in it …
        let (world, key) = {
            let process = runtime();
            process.block_on(async {
                let world = World::new(folder).await;
                for input in before {
                    world.hold(input).await;
                }
                world.cut_at(Some(cut));
                let handle = world.engine().start(turn(&world.plan, last.clone())).await.unwrap();
                world.store.stalled.notified().await;
                (world, handle.key)
            })
        };
        // … and another one.
        runtime().block_on(async {
            world.cut_at(None);
            assert_eq!(world.journal(&key).await.len() as u64, cut, "{place}");
            world.go_on_with(&key).await;
            let entries = world.journal(&key).await;
            check(&entries, &place);
            // A call that may have been carried out, and must not be repeated, is an error with an explanation.
            let interrupted = entries.iter().any(|entry| match &entry.record {
                Record::NodeFinished { error: Some(error), .. } => {
                    error.contains("may have been carried out")
                }
                _ => false,
            });
            if !interrupted {
                assert_eq!(outcome(&entries), outcome(&whole), "{place}");
                same(spent(&entries), spent(&whole), &format!("{place}: what is used is counted once"));
                same(world.paid().await, paid, &format!("{place}: and paid once"));
            }
            assert_eq!(world.store.get(&key).await.unwrap().ending, Some(outcome(&entries).0), "{place}");
            let session = world.store.store.load(&world.key).await.unwrap();
            assert_eq!(session.revision, turns.len() as i64, "{place}: the turn is stored once");
        });
        *cuts += 1;
    }
}

#[test]
fn a_run_recovers_after_a_crash_at_every_journal_entry() {
    let mut folders: Vec<_> =
        std::fs::read_dir(samples()).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    let only = std::env::var("ONLY").ok();
    let mut cuts = 0;
    for folder in folders.iter().filter(|folder| only.as_ref().is_none_or(|only| folder.ends_with(only))) {
        let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
        for conversation in input.conversations {
            for count in 1..=conversation.turns.len() {
                survive(folder, &conversation.turns[..count], &mut cuts);
            }
        }
    }
    println!("{cuts} cuts survived");
}

/// A run that counts in a loop, whose process dies each time this many more entries are stored: how it ended,
/// how many times it was recovered, and its world.
fn cut_again_and_again(goal: u64, every: u64) -> (Ending, usize, World, RunKey) {
    let folder = samples().join("loop_until");
    let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
    let mut question = input.conversations[0].turns[0].clone();
    question.inputs["goal"]["value"] = goal.into();
    let mut canvas: Json = serde_json::from_str(&read(&folder.join("canvas.json")).unwrap()).unwrap();
    canvas["components"]["Loop:Count"]["obj"]["params"]["maximum_loop_count"] = goal.into();
    let (world, key) = runtime().block_on(async {
        let world = World::of(&folder, &canvas.to_string(), Script::new()).await;
        world.cut_at(Some(3));
        let handle = world.engine().start(turn(&world.plan, question)).await.unwrap();
        world.store.stalled.notified().await;
        (world, handle.key)
    });
    for lives in 0..100 {
        let ended = runtime().block_on(async {
            let run = world.store.get(&key).await.unwrap();
            world.cut_at(Some(world.journal(&key).await.len() as u64 + every));
            match world.engine().pick_up(&run, Arc::clone(&world.plan)).await.unwrap() {
                PickedUp::Ended(ending) => Some(ending),
                PickedUp::Running(mut handle) => {
                    tokio::select! {
                        () = world.store.stalled.notified() => None,
                        () = async { while handle.entries.next().await.unwrap().is_some() {} } => {
                            world.store.get(&key).await.unwrap().ending
                        }
                    }
                }
            }
        });
        if let Some(ending) = ended {
            return (ending, lives, world, key);
        }
    }
    panic!("it never ends")
}

/// A run that kills its process every time without progress is given up. The question is kept.
#[test]
fn a_run_that_crashes_repeatedly_is_given_up() {
    let most = EngineLimits::default().pick_ups;
    let (ending, lives, world, key) = cut_again_and_again(3, 2);
    assert_eq!((ending, lives), (Ending::Failed, most));
    let entries = runtime().block_on(world.journal(&key));
    let Some(Record::RunFinished { error: Some(error), .. }) = entries.last().map(|entry| &entry.record)
    else {
        panic!("it has an end")
    };
    assert!(error.contains("6 times") && error.contains("limits.pick_ups"), "{error}");
    check(&entries, "given up");
    let Some(Record::RunStarted { input, .. }) = entries.first().map(|entry| &entry.record) else {
        panic!("it has a beginning")
    };
    let session = &world.key;
    let messages = runtime().block_on(world.store.store.messages(session, i64::MAX, 9)).unwrap();
    let said: Vec<_> = messages.iter().map(|m| (m.role.as_str(), m.content.as_str())).collect();
    assert_eq!(said, [("user", input.query.as_str())]);
    assert_eq!(runtime().block_on(world.store.store.load(session)).unwrap().revision, 1);
}

/// One that progresses each time is recovered as many times as needed.
#[test]
fn a_run_that_progresses_after_each_crash_is_not_given_up() {
    // Enough for the whole answer, which restarts when it is interrupted.
    let (ending, lives, ..) = cut_again_and_again(30, 12);
    assert_eq!(ending, Ending::Succeeded);
    assert!(lives > EngineLimits::default().pick_ups, "{lives}");
}
