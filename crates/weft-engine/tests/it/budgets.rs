//! Budgets that cover several runs: of a session, a canvas and a tenant.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::future::join_all;
use weft_core::budget::{BudgetLimits, PeriodLimits, Spent};
use weft_core::journal::{Ending, Record};
use weft_core::seam::session_store::Session;
use weft_core::seam::{Clock, Seams, SessionStore, SpendingStore as _};
use weft_core::{SessionKey, TenantId};
use weft_dsl::Plan;
use weft_engine::engine::{Allowances, Stores};
use weft_engine::{Engine, EngineLimits, SessionState, StartRun};
use weft_testkit::memory_store::MemoryStore;

use crate::kit::{Does, asking, node, plan, seams};

const DAY_MS: i64 = 86_400_000;

/// A clock that is set manually.
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn running(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

struct Bench {
    store: Arc<MemoryStore>,
    clock: Arc<Hand>,
    allowances: Allowances,
}

/// The ending of a run, its reason, and its usage.
type End = (Ending, String, Spent);

impl Bench {
    fn new(allowances: Allowances) -> Self {
        // The last day but one of a month.
        let clock = Arc::new(Hand(AtomicI64::new(29 * DAY_MS)));
        Self { store: Arc::new(MemoryStore::with_clock(clock.clone())), clock, allowances }
    }

    fn engine(&self) -> Engine {
        let stores = Stores {
            runs: self.store.clone(),
            sessions: self.store.clone(),
            spending: self.store.clone(),
            processes: self.store.clone(),
            messages: self.store.clone(),
        };
        let seams = Seams { clock: self.clock.clone(), ..Arc::into_inner(seams()).unwrap() };
        let limits = EngineLimits { nodes_at_once: 50, ..EngineLimits::default() };
        Engine::with_allowances(Arc::new(seams), Some(stores), limits, self.allowances.clone())
    }

    async fn session(&self, plan: &Arc<Plan>, canvas: &str, id: &str) -> StartRun {
        let key = SessionKey::new(&tenant(), id);
        let session = Session::new(
            key.clone(),
            canvas,
            Arc::clone(&plan.version),
            SessionState::new(plan).to_json().unwrap(),
            0,
        );
        SessionStore::create(&*self.store, &session, &[]).await.unwrap();
        let (plan, canvas) = (Arc::clone(plan), canvas.into());
        StartRun { plan, canvas, session: key, input: asking("q"), seed: Some(1), task: None }
    }

    async fn spent(&self, since_day: i64) -> u64 {
        self.store.spent(&tenant(), None, since_day).await.unwrap().tool_calls
    }

    fn next_day(&self) {
        self.clock.0.fetch_add(DAY_MS, Ordering::Relaxed);
    }
}

fn tenant() -> TenantId {
    "t".into()
}

async fn hold(engine: &Engine, request: &StartRun) -> End {
    let mut handle = engine.start(request.clone()).await.unwrap();
    let mut last = None;
    while let Some(entry) = handle.entries.next().await.unwrap() {
        last = Some(entry.record.clone());
    }
    let Some(Record::RunFinished { ending, error, spent, .. }) = last else { panic!("no end") };
    (ending, error.map(|error| error.to_string()).unwrap_or_default(), spent)
}

fn calls(max: u64) -> BudgetLimits {
    BudgetLimits { tool_calls: Some(max), ..BudgetLimits::default() }
}

fn spends(count: u64) -> Arc<Plan> {
    plan(&[node("begin", Does::Echo, &["spend"]), node("spend", Does::Spend(count), &[])])
}

#[tokio::test(start_paused = true)]
async fn a_session_has_one_budget_for_all_its_turns() {
    let b = Bench::new(Allowances { session: calls(3), ..Allowances::default() });
    let (engine, plan) = (b.engine(), spends(2));
    let request = b.session(&plan, "c", "s").await;
    let (ending, _, spent) = hold(&engine, &request).await;
    assert_eq!((ending, spent.tool_calls), (Ending::Succeeded, 2));
    let (ending, error, spent) = hold(&engine, &request).await;
    assert_eq!((ending, spent.tool_calls), (Ending::Failed, 1), "the rest of three, not one more");
    assert!(error.contains("the session's budget of tool_calls is used up"), "{error}");
    assert!(error.contains("limits.session_budget.tool_calls"), "{error}");
    let state = b.store.load(&request.session).await.unwrap().state;
    assert_eq!(SessionState::from_json(&state).unwrap().spent.tool_calls, 3);
    // Another session has its own budget.
    let other = b.session(&plan, "c", "other").await;
    assert_eq!(hold(&engine, &other).await.0, Ending::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn canvases_and_tenants_have_budgets_of_days_and_months() {
    let b = Bench::new(Allowances {
        canvas: PeriodLimits { day: calls(3), ..PeriodLimits::default() },
        canvases: [("free".into(), PeriodLimits::default())].into(),
        tenant: PeriodLimits { month: calls(6), ..PeriodLimits::default() },
        ..Allowances::default()
    });
    let engine = b.engine();
    let plan = spends(2);
    let first = b.session(&plan, "c", "1").await;
    let second = b.session(&plan, "c", "2").await;
    assert_eq!(hold(&engine, &first).await.0, Ending::Succeeded);
    let (ending, error, _) = hold(&engine, &second).await;
    assert_eq!(ending, Ending::Failed);
    assert!(error.contains("the canvas's budget of tool_calls for this day is used up"), "{error}");
    assert!(error.contains("limits.canvas_budget.day.tool_calls"), "{error}");
    // A canvas with its own limits is not subject to the general limits.
    let free = b.session(&plan, "free", "3").await;
    assert_eq!((hold(&engine, &free).await.0, b.spent(0).await), (Ending::Succeeded, 5));

    // The next day resets the budget of the canvas, but not that of the tenant.
    b.next_day();
    let (ending, error, _) = hold(&engine, &first).await;
    assert_eq!(ending, Ending::Failed);
    assert!(error.contains("the tenant's budget of tool_calls for this month is used up"), "{error}");
    assert_eq!(b.spent(0).await, 6);
    // The next month resets both, even for an engine that has just started.
    b.next_day();
    assert_eq!(hold(&b.engine(), &first).await.0, Ending::Succeeded);
    assert_eq!((b.spent(0).await, b.spent(31).await), (8, 2));
}

#[tokio::test(start_paused = true)]
async fn concurrent_runs_share_one_counter() {
    let b = Bench::new(Allowances {
        tenant: PeriodLimits { ever: calls(4), ..PeriodLimits::default() },
        ..Allowances::default()
    });
    let plan = plan(&[
        node("begin", Does::Echo, &["slow"]),
        node("slow", Does::Slow(50), &["spend"]),
        node("spend", Does::Spend(1), &[]),
    ]);
    let engine = b.engine();
    let mut requests = Vec::new();
    for at in 0..10 {
        requests.push(b.session(&plan, "c", &format!("s{at}")).await);
    }
    let ends = join_all(requests.iter().map(|request| hold(&engine, request))).await;
    assert_eq!(ends.iter().filter(|(ending, ..)| *ending == Ending::Succeeded).count(), 4);
    assert_eq!(b.spent(0).await, 4);
}

/// What it uses after midnight counts in the new day, for itself as for others.
#[tokio::test(start_paused = true)]
async fn a_run_across_midnight_has_the_budget_of_the_new_day() {
    let b = Bench::new(Allowances {
        canvas: PeriodLimits { day: calls(3), ..PeriodLimits::default() },
        ..Allowances::default()
    });
    let long = plan(&[
        node("begin", Does::Echo, &["one"]),
        node("one", Does::Spend(2), &["slow"]),
        node("slow", Does::Slow(20_000), &["two"]),
        node("two", Does::Spend(2), &[]),
    ]);
    let engine = b.engine();
    let (long, next) = (b.session(&long, "c", "long").await, b.session(&spends(2), "c", "next").await);
    let midnight = async {
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        b.next_day();
    };
    let ((ending, error, spent), ()) = tokio::join!(hold(&engine, &long), midnight);
    assert_eq!((ending, spent.tool_calls), (Ending::Succeeded, 4), "{error}");
    assert_eq!((b.spent(0).await, b.spent(30).await), (4, 2));
    let (ending, _, spent) = hold(&engine, &next).await;
    assert_eq!((ending, spent.tool_calls), (Ending::Failed, 1));
}

/// Usage of other processes is noticed while a run is active.
#[tokio::test(start_paused = true)]
async fn usage_of_other_processes_counts() {
    let b = Bench::new(Allowances {
        canvas: PeriodLimits { ever: calls(3), ..PeriodLimits::default() },
        ..Allowances::default()
    });
    let long = plan(&[
        node("begin", Does::Echo, &["slow"]),
        node("slow", Does::Slow(20_000), &["spend"]),
        node("spend", Does::Spend(3), &[]),
    ]);
    let (one, other) = (b.engine(), b.engine());
    let (long, short) = (b.session(&long, "c", "long").await, b.session(&spends(2), "c", "short").await);
    let (of_long, of_short) = tokio::join!(hold(&one, &long), hold(&other, &short));
    assert_eq!(of_short.0, Ending::Succeeded);
    assert_eq!((of_long.0, of_long.2.tool_calls), (Ending::Failed, 1), "{}", of_long.1);
    assert_eq!(b.spent(0).await, 3);
}
