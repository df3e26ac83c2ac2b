//! Queued work: each item becomes one run, whatever happens to the workers.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weft_app::work::Begun;
use weft_app::{App, Auth, Worker, WorkerConfig};
use weft_core::access::MemberRole;
use weft_core::journal::Ending;
use weft_core::seam::run_store::{RunFilter, RunLease, StoredRun};
use weft_core::seam::schedule_store::{Misfire, Schedule, SessionPolicy, Timing};
use weft_core::seam::work_queue::{Lease, StoredWork, Taken, Work, WorkFilter, WorkOutcome, WorkState};
use weft_core::seam::{ScheduleStore, WorkQueue};
use weft_core::{ErrorKind, RunKey, ScheduleKey, SessionId, SessionKey, TurnInput};
use weft_engine::engine::PickedUp;
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Reply, Script, ScriptedModel};

use crate::support::{
    Bench, HandClock, chat_canvas, default_tenant, echo_canvas, endless, form_canvas, process_at,
};

const NOW: i64 = 1_800_000_000_000;
const LEASE: i64 = 30_000;

/// Longer than a lease.
const A_WHILE: i64 = 60_000;

/// A store and a clock that processes share.
struct Shared {
    store: Arc<MemoryStore>,
    clock: Arc<HandClock>,
    canvas: String,
}

impl Shared {
    async fn with(canvas: serde_json::Value) -> Self {
        let (store, clock) = (Arc::new(MemoryStore::new()), HandClock::at(NOW));
        let shared = Self { store, clock, canvas: String::new() };
        let bench = shared.bench(Script::new());
        let token = bench.app.first_token().await.unwrap().unwrap().reveal().to_owned();
        let canvas = Bench { token, ..bench }.store("Canvas", canvas).await;
        Self { canvas, ..shared }
    }

    fn bench(&self, script: Script) -> Bench {
        let settings = (Auth::On, weft_app::config::LimitsConfig::default());
        process_at(self.store.clone(), ScriptedModel::new(script), settings, self.clock.clone())
    }

    /// Another process with the same store.
    fn process(&self) -> App {
        self.bench(Script::new()).app
    }

    fn work(&self, run: &str) -> Work {
        Work {
            run: RunKey::new(&default_tenant(), run),
            canvas: self.canvas.as_str().into(),
            session: None,
            input: TurnInput { query: "hello".into(), ..TurnInput::default() },
            source: "test".into(),
            due_ms: NOW,
        }
    }

    async fn push(&self, run: &str) -> Work {
        let work = self.work(run);
        self.store.push_within(std::slice::from_ref(&work), NOW, u64::MAX).await.unwrap();
        work
    }

    async fn take(&self) -> Taken {
        use weft_core::seam::Clock as _;
        let now = self.clock.now_ms();
        self.store.take(now, now + LEASE, 1).await.unwrap().remove(0)
    }

    async fn state(&self, work: &Work) -> StoredWork {
        WorkQueue::get(&*self.store, &work.run).await.unwrap()
    }

    /// A run that a process has created, in its own session.
    fn announced(&self, work: &Work, process: &str) -> StoredRun {
        StoredRun {
            query: "hello".into(),
            owner: Some(process.into()),
            ..StoredRun::begun(work.run.clone(), work.run.id.as_str(), work.canvas.clone(), NOW)
        }
    }

    /// A schedule with the id `test`.
    async fn schedule(&self) -> ScheduleKey {
        let key = ScheduleKey::new(&default_tenant(), "test");
        let schedule = Schedule {
            key: key.clone(),
            canvas: self.canvas.as_str().into(),
            name: String::new(),
            timing: Timing::Every { every_ms: 30_000, from_ms: NOW },
            input: TurnInput::default(),
            session: SessionPolicy::New,
            misfire: Misfire::Skip,
            next_ms: Some(NOW),
            decided_ms: NOW,
            revision: 0,
            created_ms: NOW,
            updated_ms: NOW,
        };
        ScheduleStore::create(&*self.store, &schedule, 9).await.unwrap();
        key
    }

    /// The outcome of the next worker after the lease of the first has expired.
    async fn next_worker(&self, app: &App) -> WorkOutcome {
        self.clock.go_on(A_WHILE);
        app.engine.all_unattended().await.unwrap();
        let taken = self.take().await;
        let settled = app.do_work(&taken.stored).await;
        app.queue.settle(&taken.lease, &settled, 0).await.unwrap();
        settled
    }
}

async fn followed(app: &App, work: &Work) {
    let Begun::Running(mut handle) = app.begin_work(work).await.unwrap() else {
        panic!("the run did not start")
    };
    while handle.entries.next().await.unwrap().is_some() {}
}

/// The work has become one successful run, and its session has one turn.
async fn ran_once(app: &App, work: &Work) {
    let filter = RunFilter { limit: 99, ..RunFilter::default() };
    let runs = app.runs.list(&default_tenant(), &filter).await.unwrap();
    let seen: Vec<_> = runs.iter().map(|run| (run.key.id.as_str(), run.ending)).collect();
    assert_eq!(seen, [(work.run.id.as_str(), Some(Ending::Succeeded))]);
    let session = SessionKey::new(&default_tenant(), runs[0].session.clone());
    let messages = app.sessions.messages(&session, i64::MAX, 99).await.unwrap();
    let said: Vec<_> = messages.iter().filter(|m| m.run.is_some()).map(|m| m.role.as_str()).collect();
    assert_eq!(said, ["user", "assistant"]);
    assert!(matches!(app.queue.get(&work.run).await.unwrap().state, WorkState::Done { .. }));
}

#[tokio::test]
async fn work_of_a_worker_that_dies_before_the_start_goes_to_the_next() {
    let shared = Shared::with(echo_canvas()).await;
    let work = shared.push("r1").await;
    shared.take().await;
    let app = shared.process();
    assert!(
        shared.store.take(NOW + LEASE - 1, NOW + LEASE, 1).await.unwrap().is_empty(),
        "the work is leased"
    );
    assert_eq!(shared.next_worker(&app).await, WorkOutcome::Done);
    ran_once(&app, &work).await;
}

/// Work that crashes its process each time would also end all other runs there.
#[tokio::test]
async fn work_that_crashed_two_processes_is_not_started_again_and_its_schedule_stops() {
    let shared = Shared::with(echo_canvas()).await;
    let work = shared.push("r1").await;
    let key = shared.schedule().await;
    let app = shared.process();
    // Two processes started it and were never heard of again.
    shared.take().await;
    shared.clock.go_on(A_WHILE);
    shared.take().await;
    let WorkOutcome::Abandoned { reason } = shared.next_worker(&app).await else {
        panic!("the work was not abandoned")
    };
    assert!(reason.contains("ended 2 times"), "{reason}");
    assert_eq!(app.schedules.get(&key).await.unwrap().next_ms, None);
    assert!(matches!(shared.state(&work).await.state, WorkState::Abandoned { .. }));
}

/// Why it had to wait before, or in between, says nothing about how its other attempts ended.
#[tokio::test]
async fn work_that_has_waited_and_ended_its_process_twice_is_not_begun_again_either() {
    let busy = || WorkOutcome::Released { from_ms: NOW, reason: "its session is busy".to_owned() };
    let failed = || WorkOutcome::RetryAt { from_ms: NOW, reason: "the store is down".to_owned() };
    let all =
        [vec![Some(busy()), None, None], vec![Some(failed()), None, None], vec![None, Some(failed()), None]];
    for attempts in all {
        let shared = Shared::with(echo_canvas()).await;
        let work = shared.push("r1").await;
        let key = shared.schedule().await;
        let app = shared.process();
        for attempt in &attempts {
            let taken = shared.take().await;
            match attempt {
                Some(outcome) => app.queue.settle(&taken.lease, outcome, NOW).await.unwrap(),
                None => shared.clock.go_on(A_WHILE),
            }
        }
        assert_eq!(shared.state(&work).await.reason, "", "{attempts:?}");
        let WorkOutcome::Abandoned { reason } = shared.next_worker(&app).await else {
            panic!("it is given up: {attempts:?}")
        };
        assert!(reason.contains("ended 2 times"), "{reason}");
        assert_eq!(app.schedules.get(&key).await.unwrap().next_ms, None);
    }
}

/// One that is tried again has not ended any process by that.
#[tokio::test]
async fn work_that_ended_its_process_once_and_failed_once_begins_again() {
    let shared = Shared::with(echo_canvas()).await;
    let work = shared.push("r1").await;
    let app = shared.process();
    shared.take().await;
    shared.clock.go_on(A_WHILE);
    let taken = shared.take().await;
    let failed = WorkOutcome::RetryAt { from_ms: NOW, reason: "the store is down".to_owned() };
    app.queue.settle(&taken.lease, &failed, NOW).await.unwrap();
    assert_eq!(shared.next_worker(&app).await, WorkOutcome::Done);
    ran_once(&app, &work).await;
}

/// A schedule of seconds asks for new runs long before the workers' time is over: what counts is how many processes
/// ended with its runs, not how many runs ended with a process.
#[tokio::test]
async fn a_schedule_stops_after_any_of_its_runs_crashed_two_processes() {
    let shared = Shared::with(echo_canvas()).await;
    let key = shared.schedule().await;
    let app = shared.process();
    let cut_off = async |id: &str, process: &str| {
        let work = shared.push(id).await;
        shared.take().await;
        let canvas = weft_core::CanvasKey::new(&default_tenant(), shared.canvas.as_str());
        app.open_session(&canvas, "", Some(SessionId::new(id))).await.unwrap();
        app.runs.create(&shared.announced(&work, process)).await.unwrap();
        work
    };
    // Two runs were active when one process ended: the third one runs.
    let (first, second) = (cut_off("r1", "one").await, cut_off("r2", "one").await);
    app.engine.all_unattended().await.unwrap();
    let third = shared.push("r3").await;
    let taken = shared.take().await;
    assert_eq!(app.do_work(&taken.stored).await, WorkOutcome::Done);
    app.queue.settle(&taken.lease, &WorkOutcome::Done, 0).await.unwrap();
    assert!(app.schedules.get(&key).await.unwrap().next_ms.is_some());
    // A second process has ended since.
    let fourth = cut_off("r4", "another").await;
    app.engine.all_unattended().await.unwrap();
    shared.push("r5").await;
    let taken = shared.take().await;
    let WorkOutcome::Abandoned { reason } = app.do_work(&taken.stored).await else {
        panic!("the work was not abandoned")
    };
    assert!(reason.contains("ended 2 times"), "{reason}");
    assert_eq!(app.schedules.get(&key).await.unwrap().next_ms, None);
    for work in [&first, &second, &fourth] {
        assert_eq!(
            app.runs.get(&work.run).await.unwrap().ending,
            Some(Ending::Failed),
            "no run is started again"
        );
    }
    assert_eq!(app.runs.get(&third.run).await.unwrap().ending, Some(Ending::Succeeded));
}

#[tokio::test]
async fn work_of_a_worker_that_dies_after_opening_the_session_goes_to_the_next() {
    let shared = Shared::with(echo_canvas()).await;
    let work = shared.push("r1").await;
    shared.take().await;
    let app = shared.process();
    let canvas = weft_core::CanvasKey::new(&default_tenant(), shared.canvas.as_str());
    app.open_session(&canvas, "", Some(SessionId::new("r1"))).await.unwrap();
    assert_eq!(shared.next_worker(&app).await, WorkOutcome::Done);
    ran_once(&app, &work).await;
}

#[tokio::test]
async fn a_run_that_was_created_but_never_started_is_started() {
    let shared = Shared::with(echo_canvas()).await;
    let work = shared.push("r1").await;
    shared.take().await;
    let app = shared.process();
    let canvas = weft_core::CanvasKey::new(&default_tenant(), shared.canvas.as_str());
    app.open_session(&canvas, "", Some(SessionId::new("r1"))).await.unwrap();
    let announced = shared.announced(&work, "first");
    app.runs.create(&announced).await.unwrap();
    // Its process has just sent a heartbeat.
    weft_core::seam::ProcessStore::beat(&*shared.store, &"first".into(), None).await.unwrap();
    assert!(matches!(app.begin_work(&work).await.unwrap(), Begun::Elsewhere));
    // The recovery of interrupted runs does not know its inputs, and leaves it alone.
    app.runs.release(&[RunLease::of(&announced)]).await.unwrap();
    let cut_off = app.cut_off().await.unwrap().remove(0);
    assert_eq!(app.pick_up(&cut_off).await.err().unwrap().kind, ErrorKind::Conflict);
    assert_eq!(shared.next_worker(&app).await, WorkOutcome::Done);
    ran_once(&app, &work).await;
}

#[test]
fn an_interrupted_run_of_queued_work_is_resumed() {
    let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (shared, work) = process.block_on(async {
        let shared = Shared::with(chat_canvas()).await;
        let work = shared.push("r1").await;
        let taken = shared.take().await;
        let app = shared.bench(Script::new().reply(endless(&["It ", "is "]))).app;
        let Begun::Running(mut handle) = app.begin_work(&taken.stored.work).await.unwrap() else {
            panic!("the run did not start")
        };
        handle.entries.next().await.unwrap().unwrap();
        (shared, work)
    });
    // Everything it has started is gone with it.
    drop(process);
    let after =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    after.block_on(async {
        let app = shared.bench(Script::new().reply(Reply::text("It is finished."))).app;
        assert_eq!(shared.next_worker(&app).await, WorkOutcome::Done);
        ran_once(&app, &work).await;
    });
}

#[tokio::test]
async fn a_worker_that_dies_after_the_run_ended_leaves_nothing_to_do() {
    let shared = Shared::with(echo_canvas()).await;
    let work = shared.push("r1").await;
    let (app, late) = (shared.process(), shared.take().await);
    followed(&app, &work).await;
    assert_eq!(shared.next_worker(&app).await, WorkOutcome::Done);
    ran_once(&app, &work).await;
    // A worker that was only very slow is too late to report anything, and starts nothing.
    assert!(matches!(app.begin_work(&late.stored.work).await.unwrap(), Begun::Ended(Ending::Succeeded)));
    let settled = app.queue.settle(&late.lease, &WorkOutcome::Done, 0).await;
    assert_eq!(settled.unwrap_err().kind, ErrorKind::Conflict);
    ran_once(&app, &work).await;
}

#[tokio::test]
async fn of_many_simultaneous_starts_one_succeeds() {
    let shared = Shared::with(echo_canvas()).await;
    let work = shared.push("r1").await;
    let apps: Vec<App> = (0..6).map(|_| shared.process()).collect();
    let begun = futures::future::join_all(apps.iter().map(|app| app.begin_work(&work))).await;
    let mut running = 0;
    for begun in begun {
        if let Ok(Begun::Running(mut handle)) = begun {
            running += 1;
            while handle.entries.next().await.unwrap().is_some() {}
        }
    }
    assert_eq!(running, 1);
    assert_eq!(shared.next_worker(&apps[0]).await, WorkOutcome::Done);
    ran_once(&apps[0], &work).await;
}

#[tokio::test]
async fn work_for_a_busy_session_waits() {
    let shared = Shared::with(chat_canvas()).await;
    let script = Script::new().reply(endless(&["one "])).reply(Reply::text("two"));
    let Bench { app, model, .. } = shared.bench(script);
    let canvas = weft_core::CanvasKey::new(&default_tenant(), shared.canvas.as_str());
    let session = app.open_session(&canvas, "", Some(SessionId::new("s"))).await.unwrap();
    let mut turn = app.start_turn(&session.key, shared.work("r0").input).await.unwrap();
    while model.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    let work = Work { session: Some("s".into()), ..shared.work("r1") };
    shared.store.push_within(std::slice::from_ref(&work), NOW, u64::MAX).await.unwrap();
    for _ in 0..20 {
        let settled = shared.next_worker(&app).await;
        assert!(
            matches!(&settled, WorkOutcome::Released { reason, .. } if reason.contains("turn")),
            "{settled:?}"
        );
    }
    // Waiting, however often, does not count as an attempt.
    assert_eq!(shared.state(&work).await.attempts, 0);
    assert!(app.cancel(&default_tenant(), "s").await.unwrap());
    while turn.entries.next().await.unwrap().is_some() {}
    assert_eq!(shared.next_worker(&app).await, WorkOutcome::Done);
    assert_eq!(app.runs.get(&work.run).await.unwrap().ending, Some(Ending::Succeeded));
}

#[tokio::test]
async fn queued_work_is_stopped_before_it_starts() {
    let shared = Shared::with(chat_canvas()).await;
    let app = shared.bench(Script::new().reply(endless(&["It "]).always())).app;
    let (tenant, work) = (default_tenant(), shared.push("r1").await);
    assert!(app.cancel(&tenant, "r1").await.unwrap());
    assert_eq!(app.queue.get(&work.run).await.unwrap_err().kind, ErrorKind::NotFound);
    assert!(!app.cancel(&tenant, "r1").await.unwrap());
    // A worker that has taken it starts its run a moment later.
    shared.push("r2").await;
    let taken = shared.take().await;
    let begin = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        app.begin_work(&taken.stored.work).await
    };
    let (stopped, begun) = tokio::join!(app.cancel(&tenant, "r2"), begin);
    assert!(stopped.unwrap());
    let Ok(Begun::Running(mut handle)) = begun else { panic!("the run did not start") };
    while handle.entries.next().await.unwrap().is_some() {}
    assert_eq!(app.runs.get(&handle.key).await.unwrap().ending, Some(Ending::Cancelled));
}

/// The lease of the worker that is gone has not expired.
#[tokio::test]
async fn an_interrupted_run_of_the_queue_is_stopped_without_a_worker() {
    let shared = Shared::with(echo_canvas()).await;
    let (app, work) = (shared.process(), shared.push("r1").await);
    shared.take().await;
    let canvas = weft_core::CanvasKey::new(&default_tenant(), shared.canvas.as_str());
    app.open_session(&canvas, "", Some(SessionId::new("r1"))).await.unwrap();
    app.runs.create(&shared.announced(&work, "gone")).await.unwrap();
    let found = app.cut_off().await.unwrap();
    let refused = app.pick_up(&found[0]).await.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Conflict, "only a worker knows its input");
    assert!(app.cancel(&default_tenant(), "r1").await.unwrap());
    let found = app.cut_off().await.unwrap();
    let stopped = app.pick_up(&found[0]).await.unwrap();
    assert!(matches!(stopped, PickedUp::Ended(Ending::Cancelled)));
    assert_eq!(shared.next_worker(&app).await, WorkOutcome::Done);
    assert_eq!(app.runs.get(&work.run).await.unwrap().ending, Some(Ending::Cancelled));
}

#[tokio::test]
async fn queued_work_does_not_answer_a_form() {
    let shared = Shared::with(form_canvas()).await;
    let app = shared.process();
    let first = Work { session: Some("s".into()), ..shared.work("r1") };
    followed(&app, &first).await;
    assert_eq!(app.runs.get(&first.run).await.unwrap().ending, Some(Ending::Waiting));
    let second = Work { session: Some("s".into()), ..shared.work("r2") };
    shared.store.push_within(std::slice::from_ref(&second), NOW, u64::MAX).await.unwrap();
    let settled = shared.next_worker(&app).await;
    assert!(
        matches!(&settled, WorkOutcome::Released { reason, .. } if reason.contains("waits for a person"))
    );
    assert_eq!(app.runs.get(&second.run).await.unwrap_err().kind, ErrorKind::NotFound);
}

/// Otherwise the values would pass the form by in a new run with an empty question.
#[tokio::test]
async fn queued_values_for_a_form_that_was_answered_start_nothing() {
    let shared = Shared::with(form_canvas()).await;
    let app = shared.process();
    let first = Work { session: Some("s".into()), ..shared.work("r1") };
    followed(&app, &first).await;
    let inputs = serde_json::Map::from_iter([("colour".to_owned(), serde_json::json!("red"))]);
    let values = TurnInput { inputs, ..TurnInput::default() };
    let session = SessionKey::new(&default_tenant(), "s");
    let mut answered = app.start_turn(&session, values.clone()).await.unwrap();
    while answered.entries.next().await.unwrap().is_some() {}
    let late = Work { session: Some("s".into()), input: values, ..shared.work("r2") };
    shared.store.push_within(std::slice::from_ref(&late), NOW, u64::MAX).await.unwrap();
    let settled = shared.next_worker(&app).await;
    assert!(
        matches!(&settled, WorkOutcome::Abandoned { reason } if reason.contains("was answered already")),
        "{settled:?}"
    );
    assert_eq!(app.runs.get(&late.run).await.unwrap_err().kind, ErrorKind::NotFound);
}

/// Work may wait for hours, for instance for its session.
#[tokio::test]
async fn queued_work_starts_only_while_its_user_may_act_in_the_tenant() {
    let shared = Shared::with(echo_canvas()).await;
    let bench = shared.bench(Script::new());
    let app = &bench.app;
    let (_, user) = bench.as_member("default", MemberRole::Editor).await;
    let outcome = async |run: &str| {
        let work = shared.work(run);
        let input = TurnInput { user_id: user.as_str().to_owned(), ..work.input.clone() };
        let work = Work { input, ..work };
        shared.store.push_within(std::slice::from_ref(&work), NOW, u64::MAX).await.unwrap();
        shared.next_worker(app).await
    };
    assert_eq!(outcome("r1").await, WorkOutcome::Done);
    app.disable_user(&user).await.unwrap();
    let disabled = outcome("r2").await;
    app.enable_user(&user).await.unwrap();
    assert_eq!(outcome("r3").await, WorkOutcome::Done);
    app.accounts.stores.tenants.remove_member(&default_tenant(), &user).await.unwrap();
    let left = outcome("r4").await;
    for (settled, why) in [(disabled, "is disabled"), (left, "has left the tenant")] {
        assert!(matches!(&settled, WorkOutcome::Abandoned { reason } if reason.contains(why)), "{settled:?}");
    }
    for run in ["r2", "r4"] {
        let none = app.runs.get(&RunKey::new(&default_tenant(), run)).await.unwrap_err();
        assert_eq!(none.kind, ErrorKind::NotFound, "{run}");
    }
}

#[tokio::test]
async fn work_that_can_never_start_is_abandoned_with_its_reason() {
    let shared = Shared::with(echo_canvas()).await;
    let app = shared.process();
    let gone = Work { canvas: "gone".into(), ..shared.work("r1") };
    shared.store.push_within(std::slice::from_ref(&gone), NOW, u64::MAX).await.unwrap();
    assert!(matches!(shared.next_worker(&app).await, WorkOutcome::Abandoned { .. }));
    assert!(shared.state(&gone).await.reason.contains("gone"));
    // A session of another canvas is a mistake of the caller.
    let canvas = weft_core::CanvasKey::new(&default_tenant(), shared.canvas.as_str());
    app.open_session(&canvas, "", Some(SessionId::new("s"))).await.unwrap();
    let astray = Work { session: Some("s".into()), run: RunKey::new(&default_tenant(), "r2"), ..gone };
    shared.store.push_within(std::slice::from_ref(&astray), NOW, u64::MAX).await.unwrap();
    assert!(
        matches!(shared.next_worker(&app).await, WorkOutcome::Abandoned { reason } if reason.contains("another canvas"))
    );
    // Work that crashes its process again and again.
    let work = shared.push("r3").await;
    for _ in 0..8 {
        shared.take().await;
        shared.clock.go_on(A_WHILE);
    }
    assert!(
        matches!(shared.next_worker(&app).await, WorkOutcome::Abandoned { reason } if reason.contains("2 times"))
    );
    assert_eq!(app.runs.get(&work.run).await.unwrap_err().kind, ErrorKind::NotFound);
}

fn worker(app: &App, concurrency: usize) -> Worker {
    Worker::new(app.clone(), WorkerConfig { concurrency, ..WorkerConfig::default() })
}

#[tokio::test]
async fn a_worker_runs_the_queued_work_and_stops() {
    let shared = Shared::with(echo_canvas()).await;
    let app = shared.process();
    let mut all = Vec::new();
    for n in 0..12 {
        all.push(shared.push(&format!("r{n}")).await);
    }
    let stop = CancellationToken::new();
    let worker = worker(&app, 3);
    let done = async {
        let open = WorkFilter { open: true, ..WorkFilter::default() };
        while app.queue.list(&default_tenant(), &open).await.unwrap().1 > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        stop.cancel();
    };
    tokio::join!(worker.run(&stop, Duration::from_secs(60)), done);
    for work in all {
        assert_eq!(app.runs.get(&work.run).await.unwrap().ending, Some(Ending::Succeeded));
    }
}

#[tokio::test]
async fn a_worker_takes_only_what_it_can_run_and_releases_it_on_shutdown() {
    let shared = Shared::with(chat_canvas()).await;
    let script = (0..3).fold(Script::new(), |script, _| script.reply(endless(&["It ", "is "])));
    let bench = shared.bench(script);
    let all = [shared.push("r1").await, shared.push("r2").await, shared.push("r3").await];
    let stop = CancellationToken::new();
    let worker = worker(&bench.app, 2);
    let both = async {
        while bench.model.requests().len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(shared.state(&all[2]).await.state, WorkState::Waiting { from_ms: NOW });
        stop.cancel();
    };
    tokio::join!(worker.run(&stop, Duration::ZERO), both);
    for work in &all {
        let stored = shared.state(work).await;
        assert_eq!(
            (&stored.state, stored.attempts),
            (&WorkState::Waiting { from_ms: NOW }, 0),
            "{}",
            stored.reason
        );
    }
    bench.app.engine.shut_down(Duration::from_secs(60)).await;
    assert_eq!(
        bench.app.runs.get(&all[0].run).await.unwrap().ending,
        None,
        "the run was left for another worker, not stopped"
    );
    // Another worker finishes what this one has started.
    let script = (0..3).fold(Script::new(), |script, _| script.reply(Reply::text("It is finished.")));
    let app = shared.bench(script).app;
    for _ in 0..3 {
        assert_eq!(shared.next_worker(&app).await, WorkOutcome::Done);
    }
    for work in &all {
        assert_eq!(app.runs.get(&work.run).await.unwrap().ending, Some(Ending::Succeeded));
    }
    let lost = Lease { run: all[0].run.clone(), fence: 1 };
    assert_eq!(app.queue.renew(&lost, NOW).await.unwrap_err().kind, ErrorKind::Conflict);
}
