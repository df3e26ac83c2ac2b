//! Stores that fail, hang, or report failure for writes they carried out; and runs owned by two processes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use weft_core::effect::Delivery;
use weft_core::journal::{Ending, Record};
use weft_core::seam::RunStore;
use weft_core::seam::SessionStore as _;
use weft_core::seam::run_store::{
    FinishedRun, GiveWayWord, Retention, RunFilter, RunLease, RunRequest, StoredEntry, StoredRun,
};
use weft_core::seam::session_store::Session;
use weft_core::{Entry, Error, ErrorKind, ProcessId, Result, RunKey, SessionKey, TenantId, async_trait};
use weft_dsl::Plan;
use weft_engine::engine::{PickedUp, ProcessIdentity, Stores};
use weft_engine::{Engine, EngineLimits, RunHandle, StartRun};
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Dice, FaultRates, FaultyStore};

pub(crate) use crate::branches::stored;
use crate::kit::{Does, asking, node, plan, seams, turn};
use crate::survival::check;

/// A plan with one external call, which must happen once, between two texts; and the counter of the call.
fn calling() -> (Arc<Plan>, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    let outside: crate::kit::Outside = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(serde_json::Value::Null) }.boxed()
    });
    let plan = plan(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::Stream(vec!["a", "b", "c"], 700), &["m", "tool"]),
        node("tool", Does::Outside(Delivery::AtMostOnce, outside), &["m"]).text("{llm@out}!"),
        node("m", Does::Say(true), &[]).text("{llm@out} {tool@out}"),
    ]);
    (plan, calls)
}

/// A plan with a slow external call beside a fast node; and the counter of the call.
pub(crate) fn calling_beside() -> (Arc<Plan>, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    let outside: crate::kit::Outside = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            Ok(serde_json::Value::Null)
        }
        .boxed()
    });
    let plan = plan(&[
        node("begin", Does::Echo, &["tool", "quick"]),
        node("tool", Does::Outside(Delivery::AtMostOnce, outside), &["m"]).text("called"),
        node("quick", Does::Slow(10), &["m"]).text("as it was"),
        node("m", Does::Say(false), &[]).text("{quick@out} {tool@out}"),
    ]);
    (plan, calls)
}

/// An engine on a store without faults.
pub(crate) fn engine_on(memory: &Arc<MemoryStore>) -> Engine {
    engine_within(memory, EngineLimits::default())
}

/// The same with its own limits.
pub(crate) fn engine_within(memory: &Arc<MemoryStore>, limits: EngineLimits) -> Engine {
    let stores = Stores {
        runs: memory.clone(),
        sessions: memory.clone(),
        spending: memory.clone(),
        processes: memory.clone(),
        messages: memory.clone(),
    };
    Engine::new(seams(), Some(stores), limits)
}

fn engine(store: &Arc<FaultyStore>) -> Engine {
    let stores = Stores {
        runs: store.clone(),
        sessions: store.clone(),
        spending: store.clone(),
        processes: store.clone(),
        messages: store.clone(),
    };
    Engine::new(seams(), Some(stores), EngineLimits::default())
}

pub(crate) async fn journal(store: &MemoryStore, key: &RunKey) -> Vec<Entry> {
    let stored = store.entries(key, 0, u64::MAX).await.unwrap();
    let entry = |e: StoredEntry| {
        let record = serde_json::from_str(&e.record).unwrap();
        Entry { seq: e.seq, event: e.event, at_ms: e.at_ms, record }
    };
    stored.into_iter().map(entry).collect()
}

/// The events a reader sees, and how the stream ends.
async fn shown(handle: &mut RunHandle) -> (Vec<Entry>, Option<Error>) {
    let mut seen = Vec::new();
    loop {
        match handle.entries.next().await {
            Ok(Some(entry)) => seen.push((*entry).clone()),
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error)),
        }
    }
}

async fn said(store: &MemoryStore) -> Vec<String> {
    let key = SessionKey::new(&"t".into(), "s");
    store.messages(&key, i64::MAX, 99).await.unwrap().into_iter().map(|message| message.content).collect()
}

/// Whether a call may have been made whose outcome is unknown.
fn interrupted(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| match &entry.record {
        Record::NodeFinished { error: Some(error), .. } => error.contains("may have been carried out"),
        _ => false,
    })
}

/// An identical stored record is one's own write, even if the store reported failure.
#[tokio::test(start_paused = true)]
async fn a_store_that_writes_but_always_reports_failure_is_handled() {
    let (plan, calls) = calling();
    let memory = Arc::new(MemoryStore::default());
    stored(&memory, &plan).await;
    let rates = FaultRates { done_but_failed: 1_000, ..FaultRates::default() };
    let store = Arc::new(FaultyStore::new(Arc::clone(&memory), rates, Dice::new(0)));
    let mut handle = engine(&store).start(turn(&plan, asking("q"))).await.unwrap();
    let (seen, error) = shown(&mut handle).await;
    assert!(error.is_none(), "{error:?}");
    let entries = journal(&memory, &handle.key).await;
    assert_eq!(seen, entries);
    check(&entries, "done but failed");
    assert_eq!(memory.get(&handle.key).await.unwrap().ending, Some(Ending::Succeeded));
    assert_eq!(said(&memory).await, ["q", "abc abc!"]);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(store.faults() > 8, "{}", store.faults());
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_correctly_on_a_store_with_random_faults() {
    let mut faults = 0;
    for seed in 0..300 {
        let (plan, calls) = calling();
        let memory = Arc::new(MemoryStore::default());
        stored(&memory, &plan).await;
        let store = Arc::new(FaultyStore::new(Arc::clone(&memory), FaultRates::all(60), Dice::new(seed)));
        // Loading the session may fail too many times: then nothing has started.
        let started = engine(&store).start(turn(&plan, asking("q"))).await;
        let Ok(mut handle) = started else { continue };
        let (seen, error) = shown(&mut handle).await;
        assert!(error.is_none(), "seed {seed}: {error:?}");
        let entries = journal(&memory, &handle.key).await;
        assert_eq!(seen, entries, "seed {seed}");
        check(&entries, &format!("seed {seed}"));
        assert_eq!(said(&memory).await, ["q", "abc abc!"], "seed {seed}");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "seed {seed}");
        faults += store.faults();
    }
    assert!(faults > 500, "{faults}");
}

/// Records that cannot be stored are not shown, and the run is not given up: it continues when the store is
/// back.
#[tokio::test(start_paused = true)]
async fn a_run_whose_store_goes_away_is_left_for_recovery() {
    let mut broke_off = 0;
    for calls_before in 4..30 {
        let (plan, calls) = calling();
        let memory = Arc::new(MemoryStore::default());
        stored(&memory, &plan).await;
        let store = Arc::new(FaultyStore::new(Arc::clone(&memory), FaultRates::default(), Dice::new(0)));
        let first = engine(&store);
        let mut handle = first.start(turn(&plan, asking("q"))).await.unwrap();
        store.cut_after(calls_before - 3);
        let (mut seen, error) = shown(&mut handle).await;
        let entries = journal(&memory, &handle.key).await;
        assert_eq!(seen[..], entries[..seen.len()], "shown events are stored");
        let run = memory.get(&handle.key).await.unwrap();
        let Some(error) = error else {
            assert!(matches!(entries.last().unwrap().record, Record::RunFinished { .. }));
            continue;
        };
        broke_off += 1;
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.full().contains("continues when the store works again"), "{}", error.full());
        // The run is not over, unless the store did all the writes without ever confirming them.
        let over = matches!(entries.last().unwrap().record, Record::RunFinished { .. });
        assert!(run.ending.is_none() || over, "cut after {calls_before}");
        assert!(!first.is_under_way(&handle.key));
        let stores = Stores {
            runs: memory.clone(),
            sessions: memory.clone(),
            spending: memory.clone(),
            processes: memory.clone(),
            messages: memory.clone(),
        };
        let second = Engine::new(seams(), Some(stores), EngineLimits::default());
        if run.ending.is_none()
            && let PickedUp::Running(mut handle) = second.pick_up(&run, Arc::clone(&plan)).await.unwrap()
        {
            shown(&mut handle).await;
        }
        // The reader continues with its last number.
        let mut rest =
            second.events(&handle.key, seen.iter().filter_map(|e| e.event).max().unwrap_or(0)).await.unwrap();
        while let Some(entry) = rest.next_event().await.unwrap() {
            seen.push((*entry).clone());
        }
        let entries = journal(&memory, &handle.key).await;
        check(&entries, &format!("cut after {calls_before}"));
        let events = |all: &[Entry]| all.iter().filter(|e| e.event.is_some()).cloned().collect::<Vec<_>>();
        assert_eq!(events(&seen), events(&entries));
        if interrupted(&entries) {
            continue;
        }
        assert_eq!(said(&memory).await, ["q", "abc abc!"], "cut after {calls_before}");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "cut after {calls_before}");
    }
    assert!(broke_off > 5, "{broke_off}");
}

/// Which part of an append a gate delays.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// Nothing is written before it opens.
    Asked,
    /// The write is done, and its response arrives when it opens: the process slept in between.
    Answered,
    /// The end of the run is written and its response lost; from then on nothing can be written.
    Lost,
}

/// A store proxy on which appends wait, from an entry on, until the gate opens.
pub(crate) struct Gate {
    store: Arc<MemoryStore>,
    held: Held,
    shut_from: Mutex<Option<u64>>,
    pub arrived: tokio::sync::Notify,
    pub opened: tokio::sync::Notify,
}

#[async_trait]
impl RunStore for Gate {
    async fn create(&self, run: &StoredRun) -> Result<()> {
        RunStore::create(&*self.store, run).await
    }

    async fn announce(&self, run: &StoredRun, revision: i64) -> Result<bool> {
        self.store.announce(run, revision).await
    }

    async fn append(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        let waits = |from: &u64| entries.last().is_some_and(|last| last.seq >= *from);
        let shut = self.shut_from.lock().unwrap().filter(waits).is_some();
        if !shut {
            return self.store.append(lease, entries).await;
        }
        match self.held {
            Held::Asked => {
                self.arrived.notify_one();
                self.opened.notified().await;
                self.store.append(lease, entries).await
            }
            Held::Answered => {
                let answer = self.store.append(lease, entries).await;
                self.arrived.notify_one();
                self.opened.notified().await;
                answer
            }
            Held::Lost => Err(Error::new(ErrorKind::Unavailable, "nothing can be written")),
        }
    }

    async fn end(
        &self,
        lease: &RunLease,
        entries: Vec<StoredEntry>,
        finished: FinishedRun,
    ) -> Result<Result<()>> {
        if matches!(self.held, Held::Lost) {
            self.store.end(lease, entries, finished).await??;
            *self.shut_from.lock().unwrap() = Some(0);
            return Err(Error::new(ErrorKind::Unavailable, "the answer is lost"));
        }
        self.append(lease, entries).await?;
        Ok(self.finish(lease, finished).await)
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

    async fn list(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<StoredRun>> {
        RunStore::list(&*self.store, tenant, filter).await
    }

    async fn expired(&self, tenant: &TenantId, keep: &Retention, count_max: u64) -> Result<Vec<StoredRun>> {
        self.store.expired(tenant, keep, count_max).await
    }

    async fn remove(&self, runs: &[RunKey]) -> Result<u64> {
        self.store.remove(runs).await
    }
}

/// A finished run is shown to its end, even if its process only learns so by looking.
#[tokio::test(start_paused = true)]
async fn a_run_whose_end_was_stored_without_confirmation_is_finished() {
    let (plan, _) = calling();
    let memory = Arc::new(MemoryStore::default());
    stored(&memory, &plan).await;
    let gate = Arc::new(Gate {
        store: Arc::clone(&memory),
        held: Held::Lost,
        shut_from: Mutex::new(None),
        arrived: tokio::sync::Notify::new(),
        opened: tokio::sync::Notify::new(),
    });
    let stores = Stores {
        runs: gate.clone(),
        sessions: memory.clone(),
        spending: memory.clone(),
        processes: memory.clone(),
        messages: memory.clone(),
    };
    let engine = Engine::new(seams(), Some(stores), EngineLimits::default());
    let mut handle = engine.start(turn(&plan, asking("q"))).await.unwrap();
    let (seen, error) = shown(&mut handle).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(seen, journal(&memory, &handle.key).await);
    assert!(matches!(seen.last().unwrap().record, Record::RunFinished { .. }));
    assert!(!engine.is_under_way(&handle.key));
}

/// A way to `memory` that is held up at an entry, and an engine that uses it.
pub(crate) fn held_at(memory: &Arc<MemoryStore>, held: Held, entry: u64) -> (Arc<Gate>, Engine) {
    let gate = Arc::new(Gate {
        store: Arc::clone(memory),
        held,
        shut_from: Mutex::new(Some(entry)),
        arrived: tokio::sync::Notify::new(),
        opened: tokio::sync::Notify::new(),
    });
    let stores = Stores {
        runs: gate.clone(),
        sessions: memory.clone(),
        spending: memory.clone(),
        processes: memory.clone(),
        messages: memory.clone(),
    };
    (gate, Engine::new(seams(), Some(stores), EngineLimits::default()))
}

/// Its process ends after the turn is stored and before the run's last record is, or when only the ends of what was
/// stopped are stored. Nothing in the store says that it was to stop.
#[tokio::test(start_paused = true)]
async fn a_cancelled_run_whose_process_ends_before_its_last_record_is_cancelled() {
    let plan = plan(&[node("begin", Does::Echo, &["slow"]), node("slow", Does::Slow(100_000), &[])]);
    let cancelled = async |engine: &Engine| {
        let handle = engine.start(turn(&plan, asking("q"))).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        handle.cancel.cancel();
        handle
    };
    let whole = {
        let memory = Arc::new(MemoryStore::default());
        stored(&memory, &plan).await;
        let mut handle = cancelled(&engine_on(&memory)).await;
        shown(&mut handle).await;
        journal(&memory, &handle.key).await
    };
    let last = whole.len() as u64;
    for (held, entry, turns) in [(Held::Asked, last, 1), (Held::Answered, last - 1, 0)] {
        let memory = Arc::new(MemoryStore::default());
        stored(&memory, &plan).await;
        let (gate, old) = held_at(&memory, held, entry);
        let handle = cancelled(&old).await;
        gate.arrived.notified().await;
        assert_eq!(memory.load(&SessionKey::new(&"t".into(), "s")).await.unwrap().revision, turns);
        let run = memory.get(&handle.key).await.unwrap();
        assert_eq!((run.ending, run.cancel_ms), (None, None));
        let new = engine_on(&memory);
        if let PickedUp::Running(mut handle) = new.pick_up(&run, Arc::clone(&plan)).await.unwrap() {
            shown(&mut handle).await;
        }
        assert_eq!(memory.get(&handle.key).await.unwrap().ending, Some(Ending::Cancelled), "{held:?}");
        let entries = journal(&memory, &handle.key).await;
        check(&entries, &format!("{held:?}"));
        let Some(Record::RunFinished { error: Some(error), .. }) = entries.last().map(|entry| &entry.record)
        else {
            panic!("it has an end")
        };
        assert_eq!(&**error, "the run was cancelled");
        assert_eq!(said(&memory).await, ["q"]);
    }
}

/// However often its process ended: the conversation has the turn, so the run is not given up.
#[tokio::test(start_paused = true)]
async fn a_run_whose_turn_is_stored_is_over_and_not_given_up() {
    let (plan, _) = calling();
    let whole = {
        let memory = Arc::new(MemoryStore::default());
        stored(&memory, &plan).await;
        let mut handle = engine_on(&memory).start(turn(&plan, asking("q"))).await.unwrap();
        shown(&mut handle).await;
        journal(&memory, &handle.key).await
    };
    let memory = Arc::new(MemoryStore::default());
    let stores = stored(&memory, &plan).await;
    let (gate, old) = held_at(&memory, Held::Asked, whole.len() as u64);
    let handle = old.start(turn(&plan, asking("q"))).await.unwrap();
    gate.arrived.notified().await;
    let limits = EngineLimits { pick_ups: 0, ..EngineLimits::default() };
    let run = memory.get(&handle.key).await.unwrap();
    let picked_up = Engine::new(seams(), Some(stores), limits).pick_up(&run, plan).await.unwrap();
    assert!(matches!(picked_up, PickedUp::Ended(Ending::Succeeded)));
    assert_eq!(memory.get(&handle.key).await.unwrap().ending, Some(Ending::Succeeded));
    assert_eq!(said(&memory).await, ["q", "abc abc!"]);
}

/// A clock that follows the virtual time.
struct Virtual(tokio::time::Instant);

impl weft_core::seam::Clock for Virtual {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + i64::try_from(self.running().as_millis()).unwrap()
    }

    fn running(&self) -> std::time::Duration {
        self.0.elapsed()
    }
}

/// The old owner hangs in an append, at every entry, while the new one runs to the end; then the append is
/// carried out, or its response arrives. The old owner stops, shows nothing of it, and makes no at-most-once
/// call. Its readers continue with what the new owner has written.
#[tokio::test(start_paused = true)]
async fn when_two_processes_own_a_run_the_old_one_stops() {
    let (mut overtaken, mut uncalled) = (0, 0);
    for (held, cut) in
        [Held::Asked, Held::Answered].into_iter().flat_map(|held| (1..30).map(move |cut| (held, cut)))
    {
        let place = format!("{held:?} {cut}");
        let (plan, calls) = calling();
        let memory = Arc::new(MemoryStore::default());
        stored(&memory, &plan).await;
        let gate = Arc::new(Gate {
            store: Arc::clone(&memory),
            held,
            shut_from: Mutex::new(Some(cut)),
            arrived: tokio::sync::Notify::new(),
            opened: tokio::sync::Notify::new(),
        });
        let limits = EngineLimits::default();
        let stores = Stores {
            runs: gate.clone(),
            sessions: memory.clone(),
            spending: memory.clone(),
            processes: memory.clone(),
            messages: memory.clone(),
        };
        let clock = Arc::new(Virtual(tokio::time::Instant::now()));
        let sleepy = weft_core::seam::Seams { clock, ..Arc::into_inner(seams()).unwrap() };
        let old = Engine::new(Arc::new(sleepy), Some(stores), limits);
        let mut handle = old.start(turn(&plan, asking("q"))).await.unwrap();
        let arrives = tokio::time::timeout(std::time::Duration::from_secs(60), gate.arrived.notified());
        if arrives.await.is_err() {
            continue;
        }
        let new = engine_on(&memory);
        let run = memory.get(&handle.key).await.unwrap();
        // A run whose question is unknown can only be closed.
        let begun = !journal(&memory, &handle.key).await.is_empty();
        if let PickedUp::Running(mut handle) = new.pick_up(&run, Arc::clone(&plan)).await.unwrap() {
            assert!(shown(&mut handle).await.1.is_none(), "{place}");
        }
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let ended = (memory.get(&handle.key).await.unwrap(), journal(&memory, &handle.key).await);
        let called = calls.load(Ordering::SeqCst);
        *gate.shut_from.lock().unwrap() = None;
        gate.opened.notify_waiters();
        let (seen, error) = shown(&mut handle).await;
        assert!(error.is_none(), "{place}: {error:?}");
        assert_eq!(seen, ended.1, "{place}");
        assert_eq!(calls.load(Ordering::SeqCst), called, "{place}: the old owner calls nothing more");
        assert!(called <= 1, "{place}");
        uncalled += u64::from(called == 0 && interrupted(&ended.1));
        old.shut_down(std::time::Duration::ZERO).await;
        let after = (memory.get(&handle.key).await.unwrap(), journal(&memory, &handle.key).await);
        assert_eq!(after, ended, "{place}: the old owner changes nothing more");
        if begun && !interrupted(&after.1) {
            assert_eq!(
                (said(&memory).await, called),
                (vec!["q".to_owned(), "abc abc!".to_owned()], 1),
                "{place}"
            );
        }
        check(&after.1, &place);
        overtaken += 1;
    }
    // Among them the owner that slept between its record and its call.
    assert!(overtaken > 20 && uncalled > 0, "{overtaken} {uncalled}");
}

/// A run is handed over when its process stops: nothing is cancelled, its readers are told how to continue, and
/// the next process has it at once.
#[tokio::test(start_paused = true)]
async fn a_stopping_process_hands_over_its_runs() {
    let (plan, calls) = calling();
    let memory = Arc::new(MemoryStore::default());
    stored(&memory, &plan).await;
    let (first, second) = (engine_on(&memory), engine_on(&memory));
    let mut handle = first.start(turn(&plan, asking("q"))).await.unwrap();
    assert_eq!(second.unattended().await.unwrap(), []);
    let began = tokio::time::Instant::now();
    first.shut_down(std::time::Duration::from_millis(800)).await;
    assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
    let (seen, error) = shown(&mut handle).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.full().contains("continues in the next one"), "{}", error.full());
    assert!(error.help.is_some());
    let found = second.unattended().await.unwrap();
    let [run] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((&run.key, &run.owner, run.ending), (&handle.key, &None, None));
    assert_eq!(seen, journal(&memory, &handle.key).await);
    assert_eq!(weft_core::seam::ProcessStore::list(&*memory).await.unwrap(), [], "it is no longer watched");
    let PickedUp::Running(mut handle) = second.pick_up(run, plan).await.unwrap() else {
        panic!("it continues")
    };
    assert!(shown(&mut handle).await.1.is_none());
    assert_eq!(
        (said(&memory).await, calls.load(Ordering::SeqCst)),
        (vec!["q".to_owned(), "abc abc!".to_owned()], 1)
    );
}

/// A cancel request made through another process is obeyed by the owner, and by whoever takes the run over.
#[tokio::test(start_paused = true)]
async fn the_owner_of_a_run_obeys_a_cancel_sent_to_another_process() {
    for gone in [false, true] {
        let (plan, calls) = calling();
        let memory = Arc::new(MemoryStore::default());
        stored(&memory, &plan).await;
        let store = Arc::new(FaultyStore::new(Arc::clone(&memory), FaultRates::default(), Dice::new(0)));
        let (first, second) = (engine(&store), engine_on(&memory));
        let mut handle = first.start(turn(&plan, asking("q"))).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        if gone {
            store.cut_after(0);
        }
        assert!(second.cancel(&handle.key).await.unwrap());
        assert!(second.cancel_session(&SessionKey::new(&"t".into(), "s")).await.unwrap());
        if gone {
            let found = second.all_unattended().await.unwrap();
            let [run] = found.as_slice() else { panic!("{found:?}") };
            let PickedUp::Running(mut taken) = second.pick_up(run, plan).await.unwrap() else {
                panic!("it ends")
            };
            shown(&mut taken).await;
        } else {
            let began = tokio::time::Instant::now();
            shown(&mut handle).await;
            assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
        }
        assert_eq!(memory.get(&handle.key).await.unwrap().ending, Some(Ending::Cancelled), "gone: {gone}");
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        check(&journal(&memory, &handle.key).await, "cancelled");
        assert!(!second.cancel(&handle.key).await.unwrap(), "it is over");
    }
}

/// Turns that start at the same moment share the tenant's quota correctly.
#[tokio::test(start_paused = true)]
async fn runs_started_concurrently_respect_the_tenant_quota() {
    let plan = plan(&[node("begin", Does::Echo, &["slow"]), node("slow", Does::Slow(100_000), &[])]);
    let mut begun = 0;
    for seed in 0..20 {
        let memory = Arc::new(MemoryStore::default());
        stored(&memory, &plan).await;
        let first = memory.load(&SessionKey::new(&"t".into(), "s")).await.unwrap();
        for tenant in ["t", "u"] {
            let session = Session { key: SessionKey::new(&tenant.into(), "other"), ..first.clone() };
            weft_core::seam::SessionStore::create(&*memory, &session, &[]).await.unwrap();
        }
        // A slow store, so that each start waits midway. Some wait too long for it.
        let rates = FaultRates { slow: 300, ..FaultRates::default() };
        let store = Arc::new(FaultyStore::new(memory, rates, Dice::new(seed)));
        let stores = Stores {
            runs: store.clone(),
            sessions: store.clone(),
            spending: store.clone(),
            processes: store.clone(),
            messages: store.clone(),
        };
        let limits = EngineLimits { tenant_runs_at_once: 1, ..EngineLimits::default() };
        let engine = Engine::new(seams(), Some(stores), limits);
        let start = |tenant: &str, session: &str| {
            let session = SessionKey::new(&tenant.into(), session);
            engine.start(StartRun { session, ..turn(&plan, asking("q")) })
        };
        let (one, two, others) = tokio::join!(start("t", "s"), start("t", "other"), start("u", "other"));
        let refused = |started: &Result<RunHandle>| started.as_ref().err().map(|error| error.kind);
        assert_ne!(refused(&others), Some(ErrorKind::RateLimited), "another tenant has its own quota");
        let own = [refused(&one), refused(&two)];
        assert!(own.contains(&Some(ErrorKind::RateLimited)), "{seed}: {own:?}");
        begun += own.iter().filter(|refused| refused.is_none()).count();
    }
    assert!(begun > 10, "{begun}");
}

/// A live process keeps its run whatever the clocks say; a dead one loses it within ten seconds.
#[tokio::test(start_paused = true)]
async fn a_run_is_taken_over_only_from_a_silent_process() {
    let second = std::time::Duration::from_secs(1);
    let plan = plan(&[node("begin", Does::Echo, &["slow"]), node("slow", Does::Slow(100_000), &[])]);
    let memory = Arc::new(MemoryStore::default());
    stored(&memory, &plan).await;
    let store = Arc::new(FaultyStore::new(Arc::clone(&memory), FaultRates::default(), Dice::new(0)));
    let first = engine(&store);
    // The watching process has a clock an hour ahead.
    let clock = Arc::new(weft_core::seam::clock::FixedClock(i64::MAX / 2));
    let ahead = weft_core::seam::Seams { clock, ..Arc::into_inner(seams()).unwrap() };
    let stores = Stores {
        runs: memory.clone(),
        sessions: memory.clone(),
        spending: memory.clone(),
        processes: memory.clone(),
        messages: memory.clone(),
    };
    let watching = Engine::new(Arc::new(ahead), Some(stores), EngineLimits::default());
    let handle = first.start(turn(&plan, asking("q"))).await.unwrap();
    for _ in 0..40 {
        assert_eq!(watching.unattended().await.unwrap(), []);
        tokio::time::sleep(second).await;
    }
    assert!(first.is_under_way(&handle.key));
    store.cut_after(0);
    let cut = tokio::time::Instant::now();
    while watching.unattended().await.unwrap().is_empty() {
        tokio::time::sleep(second).await;
    }
    assert!(cut.elapsed() > 4 * second && cut.elapsed() <= 10 * second, "{:?}", cut.elapsed());
    // A process that knows the owner is dead need not wait.
    let place = weft_core::seam::process_store::ProcessPlace {
        host: "here".into(),
        boot: "now".into(),
        pid: 7,
        started: 1,
    };
    let memory = Arc::new(MemoryStore::default());
    stored(&memory, &plan).await;
    let as_process = |place: Option<weft_core::seam::process_store::ProcessPlace>| {
        let stores = Stores {
            runs: memory.clone(),
            sessions: memory.clone(),
            spending: memory.clone(),
            processes: memory.clone(),
            messages: memory.clone(),
        };
        let process =
            ProcessIdentity { place, is_gone: |place| place.pid == 7, ..ProcessIdentity::nameless() };
        Engine::as_process(seams(), Some(stores), Default::default(), Default::default(), process)
    };
    let dead = as_process(Some(place));
    let handle = dead.start(turn(&plan, asking("q"))).await.unwrap();
    let found = as_process(None).unattended().await.unwrap();
    assert_eq!(found.into_iter().map(|run| run.key).collect::<Vec<_>>(), [handle.key]);
}
