//! Contract of a store for the model usage of runs.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use weft_core::Ending;
use weft_core::ErrorKind::Conflict;
use weft_core::id::{RunKey, SessionKey, TenantId, generate};
use weft_core::seam::chat_model::Usage;
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredRun};
use weft_core::seam::session_store::Session;
use weft_core::seam::usage_store::{UsageBy, UsageFilter, UsageLine};
use weft_core::seam::{DatasetStore, MemoryStore, RunStore, SessionStore, UsageStore};
use weft_core::usage::{ModelUse, UsageOwner};

use super::{refused, tenant};
use crate::contracts::datasets::dataset;
use crate::contracts::memories::memory;

const DAY_MS: i64 = 86_400_000;

/// Context of a run: the session, its user and the canvas.
type Place<'a> = (&'a str, &'a str, &'a str);

async fn run_in(
    (runs, sessions): (&dyn RunStore, &dyn SessionStore),
    tenant: &TenantId,
    (session, user, canvas): Place<'_>,
) -> RunLease {
    let key = SessionKey::new(tenant, session);
    if sessions.load(&key).await.is_err() {
        let session =
            Session { user_id: user.to_owned(), ..Session::new(key, canvas, "v", serde_json::json!({}), 1) };
        sessions.create(&session, &[]).await.unwrap();
    }
    let run = StoredRun::begun(RunKey::new(tenant, generate()), session, canvas, 1);
    runs.create(&run).await.unwrap();
    RunLease::of(&run)
}

fn used(node: &str, model: &str, calls: u64) -> ModelUse {
    let usage = Usage {
        prompt_tokens: 10 * calls,
        completion_tokens: calls,
        calls,
        cache_read_tokens: 2,
        cache_write_tokens: 3,
        reasoning_tokens: 4,
    };
    ModelUse { node: node.into(), model: model.into(), usage, micros: 100 * calls }
}

fn finished(day: i64, uses: &[ModelUse]) -> FinishedRun {
    FinishedRun { uses: uses.to_vec(), ..FinishedRun::new(Ending::Succeeded, day * DAY_MS + 5) }
}

/// Checks the contract of [`UsageStore`].
pub async fn usage_store_keeps_its_contract(
    store: &dyn UsageStore,
    runs: &dyn RunStore,
    sessions: &dyn SessionStore,
    datasets: &dyn DatasetStore,
    memories: &dyn MemoryStore,
) {
    let (ours, theirs) = (tenant(), tenant());
    let base = 9_000;
    let all =
        |by: &[UsageBy]| UsageFilter { since_day: base, by: by.to_vec(), limit: 9, ..UsageFilter::default() };
    assert_eq!(store.usage(&ours, &all(&[])).await.unwrap(), [], "no usage is not a line of zeros");
    let stores = (runs, sessions);
    let first = run_in(stores, &ours, ("s1", "ann", "a")).await;
    let uses = [used("Agent:A", "big", 3), used("Agent:A", "small", 1), used("Agent:ü", "big", 2)];
    let stale = RunLease { fence: first.fence + 1, ..first.clone() };
    refused(runs.finish(&stale, finished(base, &uses)).await, Conflict);
    assert_eq!(store.usage(&ours, &all(&[])).await.unwrap(), []);
    // A caller that did not receive the acknowledgement reports the end again.
    for _ in 0..2 {
        runs.finish(&first, finished(base, &uses)).await.unwrap();
    }
    let second = run_in(stores, &ours, ("s2", "", "b")).await;
    runs.finish(&second, finished(base + 1, &[used("Agent:A", "big", 40)])).await.unwrap();
    let idle = run_in(stores, &ours, ("s2", "", "b")).await;
    runs.finish(&idle, finished(base + 1, &[])).await.unwrap();
    let other = run_in(stores, &theirs, ("s1", "ann", "a")).await;
    runs.finish(&other, finished(base, &[used("Agent:A", "big", 1_000)])).await.unwrap();

    let lines = async |filter: UsageFilter| {
        let lines = store.usage(&ours, &filter).await.unwrap();
        let line = |line: UsageLine| format!("{} {} {}", line.of.join("/"), line.usage.calls, line.micros);
        lines.into_iter().map(line).collect::<Vec<_>>()
    };
    let whole = store.usage(&ours, &all(&[])).await.unwrap();
    let sum = Usage {
        prompt_tokens: 460,
        completion_tokens: 46,
        calls: 46,
        cache_read_tokens: 8,
        cache_write_tokens: 12,
        reasoning_tokens: 16,
    };
    assert_eq!(whole, [UsageLine { of: Vec::new(), usage: sum, micros: 4_600 }]);
    assert_eq!(lines(all(&[UsageBy::Model])).await, ["big 45 4500", "small 1 100"]);
    assert_eq!(lines(all(&[UsageBy::User])).await, [" 40 4000", "ann 6 600"]);
    assert_eq!(lines(all(&[UsageBy::Session])).await, ["s2 40 4000", "s1 6 600"]);
    assert_eq!(
        lines(all(&[UsageBy::Agent, UsageBy::Node])).await,
        ["b/Agent:A 40 4000", "a/Agent:A 4 400", "a/Agent:ü 2 200"]
    );
    let days = [format!("{} 40 4000", base + 1), format!("{base} 6 600")];
    assert_eq!(lines(all(&[UsageBy::Day])).await, days);
    assert_eq!(lines(UsageFilter { limit: 1, ..all(&[UsageBy::Model]) }).await, ["big 45 4500"]);
    assert_eq!(lines(UsageFilter { since_day: base + 1, ..all(&[]) }).await, [" 40 4000"]);
    let only = vec![(UsageBy::Model, "big".to_owned()), (UsageBy::Agent, "a".to_owned())];
    assert_eq!(lines(UsageFilter { only, ..all(&[]) }).await, [" 5 500"]);
    let only = vec![(UsageBy::Day, base.to_string())];
    assert_eq!(lines(UsageFilter { only, ..all(&[]) }).await, [" 6 600"]);
    let only = vec![(UsageBy::Day, "yesterday".to_owned())];
    assert_eq!(lines(UsageFilter { only, ..all(&[]) }).await, [""; 0]);

    // Usage remains recorded after the run was removed.
    runs.remove(&[second.run]).await.unwrap();
    assert_eq!(lines(all(&[UsageBy::Day])).await, days);
    assert_eq!(store.prune_usage(&ours, base + 1).await.unwrap(), 3);
    assert_eq!(lines(all(&[])).await, [" 40 4000"]);
    assert_eq!(store.prune_usage(&ours, base + 2).await.unwrap(), 1);
    assert_eq!(lines(all(&[])).await, [""; 0]);
    assert_eq!(store.prune_usage(&theirs, base + 1).await.unwrap(), 1);
    usage_outside_of_runs_is_summed(store, datasets).await;
    memories_use_models_too(store, memories).await;
    files_of_conversations_use_models_too(store, stores).await;
}

async fn usage_outside_of_runs_is_summed(store: &dyn UsageStore, datasets: &dyn DatasetStore) {
    let (tenant, day) = (tenant(), 9_000);
    let set = dataset(&tenant, "Used");
    datasets.create(&set).await.unwrap();
    let set = UsageOwner::Dataset(set.key);
    let uses = [used("dataset:d", "vectors", 2), used("dataset:d", "big", 1)];
    for _ in 0..2 {
        store.note_usage(&set, day * DAY_MS + 7, &uses).await.unwrap();
    }
    store.note_usage(&set, (day + 1) * DAY_MS, &uses[..1]).await.unwrap();
    store.note_usage(&set, day * DAY_MS, &[]).await.unwrap();
    let by = UsageBy::ALL.to_vec();
    let filter = UsageFilter { since_day: day, by, limit: 9, ..UsageFilter::default() };
    let lines = store.usage(&tenant, &filter).await.unwrap();
    let line =
        |line: &UsageLine| (line.of.join("|"), line.usage.calls, line.usage.prompt_tokens, line.micros);
    let mut lines: Vec<_> = lines.iter().map(line).collect();
    lines.sort();
    // Without agent, session and user.
    let expected = [
        (format!("{day}||dataset:d|big||"), 2, 20, 200),
        (format!("{day}||dataset:d|vectors||"), 4, 40, 400),
        (format!("{}||dataset:d|vectors||", day + 1), 2, 20, 200),
    ];
    assert_eq!(lines, expected);
    assert_eq!(store.prune_usage(&tenant, day + 1).await.unwrap(), 4);
}

async fn memories_use_models_too(store: &dyn UsageStore, memories: &dyn MemoryStore) {
    let (tenant, day) = (tenant(), 9_100);
    let made = memory(&tenant, "Used");
    memories.create(&made).await.unwrap();
    let owner = UsageOwner::Memory(made.key);
    let node = owner.node().to_string();
    store.note_usage(&owner, day * DAY_MS, &[used(&node, "big", 3)]).await.unwrap();
    let filter = UsageFilter { since_day: day, by: vec![UsageBy::Node], limit: 9, ..UsageFilter::default() };
    let lines = store.usage(&tenant, &filter).await.unwrap();
    let lines: Vec<_> = lines.iter().map(|line| (line.of[0].as_str(), line.usage.calls)).collect();
    assert_eq!(lines, [(node.as_str(), 3)]);
}

async fn files_of_conversations_use_models_too(
    store: &dyn UsageStore,
    stores: (&dyn RunStore, &dyn SessionStore),
) {
    let (tenant, day) = (tenant(), 9_200);
    run_in(stores, &tenant, ("s1", "ann", "a")).await;
    for session in ["s1", "gone"] {
        let owner = UsageOwner::Conversation(SessionKey::new(&tenant, session));
        let node = owner.node().to_string();
        store.note_usage(&owner, day * DAY_MS, &[used(&node, "eyes", 3)]).await.unwrap();
    }
    let filter =
        UsageFilter { since_day: day, by: UsageBy::ALL.to_vec(), limit: 9, ..UsageFilter::default() };
    let lines = store.usage(&tenant, &filter).await.unwrap();
    let lines: Vec<String> = lines.iter().map(|line| line.of.join("|")).collect();
    // Nothing is recorded for a removed conversation.
    assert_eq!(lines, [format!("{day}|a|files|eyes|ann|s1")]);
}
