//! The setting of a history: a store, processes that start and stop, a user, and readers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};
use weft_core::journal::{Record, WaitingForm};
use weft_core::seam::run_store::{RunFilter, StoredRun};
use weft_core::seam::session_store::Session;
use weft_core::seam::{Clock, RunStore, SessionStore};
use weft_core::{Entry, RunKey, SessionKey, TenantId, TurnInput};
use weft_dsl::Plan;
use weft_engine::engine::{Allowances, PickedUp, ProcessIdentity, Stores};
use weft_engine::{Engine, EngineLimits, SessionState};
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Dice, FaultRates, FaultyStore, MemoryWorkspace};

use super::scene::{Calls, Scene};
use crate::kit::turn;

/// Time without further faults, so that a run can end.
const CALM_AFTER: Duration = Duration::from_secs(300);

/// A run that has not ended by then never will.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// How long a dead process stays unnoticed.
const SILENT: Duration = Duration::from_secs(7);

/// Readers that follow a run.
const READERS: usize = 3;

/// Concurrent processes.
const PROCESSES: usize = 2;

/// The faults of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    rates: FaultRates,
    /// Maximum number of processes that die in the middle of a turn.
    crashes: u64,
    /// Maximum number of processes that are paused in the middle of a turn and resumed later.
    naps: u64,
    /// Per mille of checks that wrongly take an owner for dead.
    suspicion: u16,
}

impl Trouble {
    pub(super) fn none() -> Self {
        Self { rates: FaultRates::default(), crashes: 0, naps: 0, suspicion: 0 }
    }

    pub(super) fn draw(dice: &mut Dice) -> Self {
        let mut rate = || if dice.below(2) == 0 { 0 } else { dice.below(60) as u16 };
        let rates = FaultRates {
            fail: rate(),
            done_but_failed: rate(),
            hang: rate(),
            done_but_hang: rate(),
            late: rate(),
            slow: rate(),
        };
        let suspicion = if dice.below(2) == 0 { 0 } else { 200 };
        Self { rates, crashes: dice.below(4), naps: dice.below(3), suspicion }
    }
}

/// A clock that is off by this many milliseconds.
struct Wrong {
    began: Instant,
    by_ms: AtomicI64,
}

impl Clock for Wrong {
    fn now_ms(&self) -> i64 {
        let since = i64::try_from(self.began.elapsed().as_millis()).unwrap();
        1_700_000_000_000 + since + self.by_ms.load(Ordering::SeqCst)
    }

    fn running(&self) -> std::time::Duration {
        // Monotonic, independent of the time of day.
        self.began.elapsed()
    }
}

struct Process {
    store: Arc<FaultyStore>,
    engine: Engine,
    plan: Arc<Plan>,
    clock: Arc<Wrong>,
    /// When it resumes, while it is paused.
    wakes: Option<Instant>,
}

/// One turn as it is stored at the end, and as every reader saw it.
pub(super) struct Turn {
    pub run: StoredRun,
    pub entries: Vec<Entry>,
    pub seen: Vec<Vec<Entry>>,
}

impl Turn {
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.entries.first().map(|entry| &entry.record), Some(Record::RunStarted { .. }))
    }

    /// Why its outcome may differ: a call with an unknown outcome, or too many crashes.
    pub(super) fn was_hurt(&self) -> bool {
        self.entries.iter().any(|entry| match &entry.record {
            Record::NodeFinished { error: Some(error), .. } => error.contains("may have been carried out"),
            _ => false,
        }) || self.was_given_up()
    }

    pub(super) fn was_given_up(&self) -> bool {
        let Some(Record::RunFinished { error: Some(error), .. }) = self.entries.last().map(|e| &e.record)
        else {
            return false;
        };
        error.contains("without progress")
    }

    fn forms(&self) -> &[WaitingForm] {
        let forms = self.entries.iter().rev().find_map(|entry| match &entry.record {
            Record::Waiting { forms } => Some(&**forms),
            _ => None,
        });
        forms.unwrap_or_default()
    }
}

/// The result of a history.
pub(super) struct Held {
    pub turns: Vec<Turn>,
    pub session: Session,
    pub said: Vec<String>,
    pub calls: BTreeMap<String, u64>,
    pub faults: u64,
    pub crashes: u64,
    pub naps: u64,
    pub tells_the_time: bool,
}

impl Held {
    pub(super) fn pick_ups(&self) -> u64 {
        let entries = self.turns.iter().flat_map(|turn| &turn.entries);
        entries.filter(|entry| matches!(entry.record, Record::PickedUp { .. })).count() as u64
    }

    /// All entries as text, without names that differ every time.
    pub(super) fn log(&self) -> String {
        let mut log = String::new();
        for (n, turn) in self.turns.iter().enumerate() {
            for Entry { seq, at_ms, record, .. } in &turn.entries {
                let line = match record {
                    Record::RunStarted { .. } => "run started".to_owned(),
                    Record::PickedUp { .. } => "picked up".to_owned(),
                    Record::NodeStarted { who } => format!("start {} {}", who.activation, who.node),
                    Record::NodeFinished { who, error, route, .. } => {
                        format!("end {} {} {route:?} {error:?}", who.activation, who.node)
                    }
                    Record::RunFinished { ending, error, .. } => format!("run {ending:?} {error:?}"),
                    Record::EffectStarted { activation, key, .. } => format!("call {activation} {key}"),
                    Record::EffectFinished { activation, key, .. } => format!("gave {activation} {key}"),
                    Record::Said { text, .. } => format!("say {text:?}"),
                    other => serde_json::to_value(other).unwrap()["type"].to_string(),
                };
                let seconds = (at_ms - 1_700_000_000_000) as f64 / 1e3;
                writeln!(log, "{n}.{seq:<4} {seconds:>9.3}  {line}").unwrap();
            }
        }
        log
    }
}

/// The state of the setting.
struct Town<'a> {
    scene: &'a Scene,
    /// How many processes have started so far.
    started: u32,
    memory: Arc<MemoryStore>,
    key: SessionKey,
    trouble: Trouble,
    dice: Dice,
    calls: Calls,
    /// Files outlive processes.
    files: Arc<MemoryWorkspace>,
    processes: Vec<Process>,
    /// Dead processes; effects they started late still happen.
    gone: Vec<Process>,
    crashes_left: u64,
    crashes: u64,
    naps_left: u64,
    naps: u64,
}

/// Runs a whole conversation.
pub(super) async fn hold(scene: &Scene, trouble: Trouble, dice: Dice) -> Held {
    let memory = Arc::new(MemoryStore::at(0));
    let mut town = Town {
        started: 0,
        scene,
        memory: Arc::clone(&memory),
        key: SessionKey::new(&"t".into(), "s"),
        trouble,
        dice,
        calls: Calls::default(),
        files: Arc::default(),
        processes: Vec::new(),
        gone: Vec::new(),
        crashes_left: 0,
        crashes: 0,
        naps_left: 0,
        naps: 0,
    };
    for _ in 0..PROCESSES {
        let process = town.process();
        town.processes.push(process);
    }
    let plan = Arc::clone(&town.processes[0].plan);
    SessionStore::create(&*memory, &session(&town.key, &plan), &[]).await.unwrap();
    let mut turns: Vec<Turn> = Vec::new();
    loop {
        let begun = turns.iter().filter(|turn| turn.has_begun()).count();
        let last = turns.iter().rev().find(|turn| turn.has_begun());
        if last.is_some_and(Turn::was_hurt) {
            break;
        }
        let Some(input) = scene.says(begun, last.map_or(&[], Turn::forms)) else { break };
        turns.push(town.turn(&input).await);
        assert!(turns.len() < 200, "the conversation does not end");
    }
    // Processes still alive, resumed, or with late effects may now cause any remaining trouble.
    town.wake(Instant::now() + PATIENCE);
    sleep(Duration::from_secs(600)).await;
    for turn in &turns {
        assert_eq!(town.journal(&turn.run.key).await, turn.entries, "a finished run does not change");
        assert_eq!(RunStore::get(&*memory, &turn.run.key).await.unwrap().ending, turn.run.ending);
    }
    let messages = memory.messages(&town.key, i64::MAX, u64::MAX).await.unwrap();
    let all = town.processes.iter().chain(&town.gone);
    Held {
        turns,
        session: memory.load(&town.key).await.unwrap(),
        said: messages.into_iter().map(|message| message.content).collect(),
        calls: town.calls.lock().unwrap().clone(),
        faults: all.map(|process| process.store.faults()).sum(),
        crashes: town.crashes,
        naps: town.naps,
        tells_the_time: scene.tells_the_time(),
    }
}

fn session(key: &SessionKey, plan: &Plan) -> Session {
    Session::new(key.clone(), "c", Arc::clone(&plan.version), SessionState::new(plan).to_json().unwrap(), 0)
}

impl Town<'_> {
    /// A process that has just started. It may be one that dies soon.
    fn process(&mut self) -> Process {
        let store =
            Arc::new(FaultyStore::new(Arc::clone(&self.memory), self.trouble.rates, self.dice.split()));
        let clock = Arc::new(Wrong { began: Instant::now(), by_ms: AtomicI64::new(0) });
        let (plan, seams) = self.scene.world(
            (&store, &self.calls, &self.files),
            Arc::clone(&clock) as Arc<dyn Clock>,
            self.dice.split(),
        );
        let stores = Stores {
            runs: store.clone(),
            sessions: store.clone(),
            spending: store.clone(),
            processes: store.clone(),
            messages: store.clone(),
        };
        let limits = EngineLimits { nodes_at_once: 1 + self.dice.below(5) as usize, ..Default::default() };
        // By its number, not by chance: a seed has exactly one history.
        self.started += 1;
        let id = format!("process-{:04}", self.started).into();
        let identity = ProcessIdentity { id, ..ProcessIdentity::nameless() };
        let allowances = Allowances::default();
        let engine = Engine::as_process(Arc::new(seams), Some(stores), limits, allowances, identity);
        if let Some(calls) = self.fate() {
            store.cut_after(calls);
        }
        Process { store, engine, plan, clock, wakes: None }
    }

    /// After how many store calls a process dies, if it is one that does.
    fn fate(&mut self) -> Option<u64> {
        let ends = self.crashes_left > 0 && self.dice.below(2) == 0;
        self.crashes_left -= u64::from(ends);
        ends.then(|| 1 + self.dice.below(30))
    }

    /// Dead processes are replaced.
    fn restart(&mut self) {
        for place in 0..self.processes.len() {
            if self.processes[place].store.is_cut() {
                self.crashes += 1;
                let new = self.process();
                let old = std::mem::replace(&mut self.processes[place], new);
                self.gone.push(old);
            }
        }
    }

    /// Resumes processes whose pause has ended.
    fn wake(&mut self, now: Instant) {
        for process in self.processes.iter_mut().chain(&mut self.gone) {
            if process.wakes.take_if(|wakes| *wakes <= now).is_some() {
                process.store.wake_up();
            }
        }
    }

    /// At most one process is paused at a time, for longer or shorter than others take to notice. The other one
    /// is there to continue.
    fn nap(&mut self) {
        if self.naps_left == 0 || self.dice.below(8) > 0 || self.processes.iter().any(|p| p.wakes.is_some()) {
            return;
        }
        self.naps_left -= 1;
        self.naps += 1;
        let place = self.dice.below(self.processes.len() as u64) as usize;
        let seconds = 1 + self.dice.below(60);
        let process = &mut self.processes[place];
        process.wakes = Some(Instant::now() + Duration::from_secs(seconds));
        process.store.fall_asleep();
    }

    /// One of the processes that are not paused.
    fn somebody_awake(&mut self) -> usize {
        loop {
            let place = self.dice.below(self.processes.len() as u64) as usize;
            if self.processes[place].wakes.is_none() {
                return place;
            }
        }
    }

    async fn turn(&mut self, input: &TurnInput) -> Turn {
        self.crashes_left = self.trouble.crashes;
        self.naps_left = self.trouble.naps;
        for place in 0..self.processes.len() {
            if let Some(calls) = self.fate() {
                self.processes[place].store.cut_after(calls);
            }
        }
        let began = Instant::now();
        let key = loop {
            self.restart();
            self.wake(Instant::now());
            let place = self.somebody_awake();
            let process = &self.processes[place];
            if began.elapsed() > CALM_AFTER {
                process.store.calm_down();
            }
            match process.engine.start(turn(&process.plan, input.clone())).await {
                Ok(handle) => break handle.key,
                Err(error) => assert!(began.elapsed() < PATIENCE, "it never starts: {}", error.full()),
            }
            sleep(Duration::from_secs(20)).await;
            // A run that was announced and never started keeps its session until it is closed.
            self.pick_up_what_is_left().await;
        };
        let mut readers: Vec<Reader> = (0..READERS).map(|_| Reader::new(self.dice.split())).collect();
        let mut looked = Instant::now();
        loop {
            // The readers read for a while, then the processes are checked.
            join_all(readers.iter_mut().map(|reader| reader.read(&self.processes, &key))).await;
            self.look_after(&key, began, &mut looked).await;
            let run = RunStore::get(&*self.memory, &key).await.unwrap();
            if run.ending.is_some() && readers.iter().all(|reader| reader.is_done()) {
                let entries = self.journal(&key).await;
                return Turn { run, entries, seen: readers.into_iter().map(|reader| reader.seen).collect() };
            }
            sleep(Duration::from_millis(200)).await;
            assert!(began.elapsed() < PATIENCE, "it never ends: {:?}", self.journal(&key).await.last());
        }
    }

    async fn look_after(&mut self, key: &RunKey, began: Instant, owned: &mut Instant) {
        self.restart();
        self.wake(Instant::now());
        if began.elapsed() > CALM_AFTER {
            self.crashes_left = 0;
            self.naps_left = 0;
            for process in &self.processes {
                process.store.calm_down();
                process.store.cut_after(u64::MAX);
            }
        }
        for process in &self.processes {
            // Clocks jump, backwards too.
            if self.dice.below(10) == 0 && self.trouble.suspicion > 0 {
                process.clock.by_ms.store(self.dice.below(60_000).cast_signed() - 30_000, Ordering::SeqCst);
            }
        }
        self.nap();
        let mut awake = self.processes.iter().filter(|process| process.wakes.is_none());
        let at_work = awake.any(|process| process.engine.is_under_way(key));
        let wrongly = began.elapsed() < CALM_AFTER && self.dice.happens(self.trouble.suspicion);
        if at_work && !wrongly {
            *owned = Instant::now();
        }
        if owned.elapsed() < SILENT && !wrongly {
            return;
        }
        if self.pick_up_what_is_left().await {
            *owned = Instant::now();
        }
    }

    /// One of the processes recovers runs without an ending. Returns whether there was one.
    async fn pick_up_what_is_left(&mut self) -> bool {
        let place = self.somebody_awake();
        let process = &self.processes[place];
        let filter = RunFilter { unfinished: true, limit: 99, ..RunFilter::default() };
        let Ok(found) = RunStore::list(&*self.memory, &TenantId::from("t"), &filter).await else {
            return false;
        };
        let mut goes_on = false;
        for run in found {
            let picked_up = process.engine.pick_up(&run, Arc::clone(&process.plan)).await;
            goes_on |= matches!(picked_up, Ok(PickedUp::Running(_)));
        }
        goes_on
    }

    /// The journal of a run as it is shown to people: with masks in place of secrets.
    async fn journal(&self, key: &RunKey) -> Vec<Entry> {
        let stored = self.memory.entries(key, 0, u64::MAX).await.unwrap();
        let entry = |stored: weft_core::seam::run_store::StoredEntry| Entry {
            seq: stored.seq,
            event: stored.event,
            at_ms: stored.at_ms,
            record: serde_json::from_str(&weft_core::masking::shown(&stored.record)).unwrap(),
        };
        stored.into_iter().map(entry).collect()
    }
}

/// A reader that follows a run and reconnects with its last number.
struct Reader {
    dice: Dice,
    seen: Vec<Entry>,
}

impl Reader {
    fn new(dice: Dice) -> Self {
        Self { dice, seen: Vec::new() }
    }

    fn is_done(&self) -> bool {
        self.seen.last().is_some_and(|entry| matches!(entry.record, Record::RunFinished { .. }))
    }

    /// Reads for some seconds, from any process.
    async fn read(&mut self, processes: &[Process], key: &RunKey) {
        let until = Instant::now() + Duration::from_millis(500 + self.dice.below(4_000));
        while !self.is_done() {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                return;
            };
            let place = self.dice.below(processes.len() as u64) as usize;
            // Nobody waits forever for a process that does not answer.
            let _ = timeout(left, self.follow(&processes[place], key)).await;
            sleep(Duration::from_millis(300)).await;
        }
    }

    async fn follow(&mut self, process: &Process, key: &RunKey) {
        let after = self.seen.last().and_then(|entry| entry.event).unwrap_or(0);
        let Ok(mut entries) = process.engine.events(key, after).await else { return };
        while let Ok(Some(entry)) = entries.next_event().await {
            self.seen.push((*entry).clone());
            if self.dice.happens(20) {
                return;
            }
        }
    }
}
