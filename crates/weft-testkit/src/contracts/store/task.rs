//! Contract of a store for human tasks, which are written with their sessions.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use serde_json::json;
use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::component::Form;
use weft_core::id::{SessionKey, TaskKey, TenantId};
use weft_core::seam::session_store::SessionCommit;
use weft_core::seam::task_store::{Task, TaskChange, TaskFilter, TaskKind, TaskStatus};
use weft_core::seam::{SessionStore, TaskStore};

use super::session::{change, session};
use super::{LARGE, refused, tenant};

/// Checks the contract of [`TaskStore`], and that of [`SessionStore`] about tasks. The two are one store.
pub async fn task_store_keeps_its_contract(sessions: &dyn SessionStore, tasks: &dyn TaskStore) {
    let stores = TaskStores { sessions, tasks };
    tasks_round_trip(&stores).await;
    a_turn_replaces_the_open_tasks_of_its_session(&stores).await;
    tasks_are_written_with_their_session_or_not_at_all(&stores).await;
    tasks_are_listed_by_filter(&stores).await;
    due_tasks_of_all_tenants_are_listed(&stores).await;
    tasks_are_removed_with_their_session(&stores).await;
}

struct TaskStores<'a> {
    sessions: &'a dyn SessionStore,
    tasks: &'a dyn TaskStore,
}

impl TaskStores<'_> {
    async fn begin(&self, tenant: &TenantId, id: &str, canvas: &str) -> SessionKey {
        let session = session(tenant, id, canvas);
        self.sessions.create(&session, &[]).await.unwrap();
        session.key
    }

    async fn commit(&self, key: &SessionKey, revision: i64, tasks: &TaskChange) -> weft_core::Result<()> {
        let state = json!({ "revision": revision });
        let commit =
            SessionCommit { revision, state: &state, messages: &[], tasks: Some(tasks), lease: None };
        self.sessions.commit(key, commit).await
    }

    async fn status(&self, key: &SessionKey, id: &str) -> (TaskStatus, Option<String>, Option<i64>) {
        let task = self.tasks.get(&TaskKey::new(&key.tenant, id)).await.unwrap();
        (task.status, task.ended_by.map(|run| run.to_string()), task.ended_ms)
    }
}

pub(super) fn task(session: &SessionKey, id: &str) -> Task {
    Task {
        key: TaskKey::new(&session.tenant, id),
        session: session.id.clone(),
        canvas: "c".into(),
        run: "r1".into(),
        node: "Agent:A".into(),
        address: "Agent:A[2]".into(),
        kind: TaskKind::ToolApproval,
        title: "Allow pay? 🦜".into(),
        form: Form {
            fields: json!({"z": {"type": "approval", "n": 9_007_199_254_740_993_i64}, "a": null})
                .as_object()
                .cloned()
                .unwrap_or_default(),
            tips: Some("Look\n\"here\"".into()),
            ..Form::default()
        },
        created_ms: 1_000,
        due_ms: Some(61_000),
        status: TaskStatus::Open,
        ended_by: None,
        ended_ms: None,
    }
}

pub(super) fn by(run: &str, open: &[Task], ended: &[(&str, TaskStatus)]) -> TaskChange {
    let ended = ended.iter().map(|(id, status)| ((*id).into(), *status)).collect();
    TaskChange { run: run.into(), at_ms: 5_000, open: open.to_vec(), ended }
}

async fn tasks_round_trip(stores: &TaskStores<'_>) {
    let key = stores.begin(&tenant(), "one", "c").await;
    let first = task(&key, "t-1");
    let long = Form { tips: Some("Ω🦜".repeat(LARGE / 6)), ..Form::default() };
    let second = Task { due_ms: None, form: long, kind: TaskKind::Form, ..task(&key, "t-2") };
    refused(stores.tasks.get(&first.key).await, NotFound);
    stores.commit(&key, 0, &by("r1", &[first.clone(), second.clone()], &[])).await.unwrap();
    assert_eq!(stores.tasks.get(&first.key).await.unwrap(), first);
    assert!(stores.tasks.get(&second.key).await.unwrap() == second);
    refused(stores.tasks.get(&TaskKey::new(&key.tenant, "T-1")).await, NotFound);
    refused(stores.tasks.get(&TaskKey::new(&tenant(), "t-1")).await, NotFound);
}

async fn a_turn_replaces_the_open_tasks_of_its_session(stores: &TaskStores<'_>) {
    let tenant = tenant();
    let (key, other) = (stores.begin(&tenant, "one", "c").await, stores.begin(&tenant, "two", "c").await);
    let names = ["kept", "answered", "late", "dropped"];
    stores.commit(&key, 0, &by("r1", &names.map(|id| task(&key, id)), &[])).await.unwrap();
    stores.commit(&other, 0, &by("r2", &[task(&other, "theirs")], &[])).await.unwrap();
    let kept = Task { run: "r3".into(), title: "again".into(), ..task(&key, "kept") };
    let ended = [("answered", TaskStatus::Answered), ("late", TaskStatus::TimedOut)];
    stores.commit(&key, 1, &by("r3", &[kept.clone(), task(&key, "new")], &ended)).await.unwrap();
    let by_third = |status| (status, Some("r3".to_owned()), Some(5_000));
    assert_eq!(stores.status(&key, "answered").await, by_third(TaskStatus::Answered));
    assert_eq!(stores.status(&key, "late").await, by_third(TaskStatus::TimedOut));
    assert_eq!(stores.status(&key, "dropped").await, by_third(TaskStatus::Dropped));
    assert_eq!(stores.tasks.get(&kept.key).await.unwrap(), kept);
    assert_eq!(stores.status(&key, "new").await, (TaskStatus::Open, None, None));
    assert_eq!(stores.status(&other, "theirs").await, (TaskStatus::Open, None, None));
    // A turn that does not mention tasks leaves them as they are; an ended task is not ended again.
    stores.sessions.commit(&key, change(2, &json!({}), &[])).await.unwrap();
    assert_eq!(stores.status(&key, "new").await, (TaskStatus::Open, None, None));
    stores.commit(&key, 3, &by("r4", &[], &[("kept", TaskStatus::Answered)])).await.unwrap();
    assert_eq!(stores.status(&key, "dropped").await, by_third(TaskStatus::Dropped));
    let by_fourth = |status| (status, Some("r4".to_owned()), Some(5_000));
    assert_eq!(stores.status(&key, "kept").await, by_fourth(TaskStatus::Answered));
    assert_eq!(stores.status(&key, "new").await, by_fourth(TaskStatus::Dropped));
}

async fn tasks_are_written_with_their_session_or_not_at_all(stores: &TaskStores<'_>) {
    let key = stores.begin(&tenant(), "one", "c").await;
    stores.commit(&key, 0, &by("r1", &[task(&key, "t-1")], &[])).await.unwrap();
    let late = by("r2", &[task(&key, "t-2")], &[("t-1", TaskStatus::Answered)]);
    refused(stores.commit(&key, 0, &late).await, Conflict);
    assert_eq!(stores.status(&key, "t-1").await, (TaskStatus::Open, None, None));
    refused(stores.tasks.get(&TaskKey::new(&key.tenant, "t-2")).await, NotFound);
    let many: Vec<_> = (0..1_200).map(|n| task(&key, &format!("m-{n}"))).collect();
    let all_answered: Vec<_> = many.iter().map(|task| (task.key.id.clone(), TaskStatus::Answered)).collect();
    stores.commit(&key, 1, &by("r2", &many, &[])).await.unwrap();
    let end = TaskChange { ended: all_answered, ..by("r3", &[], &[]) };
    stores.commit(&key, 2, &end).await.unwrap();
    let answered = TaskFilter { status: Some(TaskStatus::Answered), limit: 1, ..TaskFilter::default() };
    assert_eq!(stores.tasks.list(&key.tenant, &answered).await.unwrap().1, 1_200);
}

async fn tasks_are_listed_by_filter(stores: &TaskStores<'_>) {
    let tenant = tenant();
    let (one, two) = (stores.begin(&tenant, "one", "x").await, stores.begin(&tenant, "two", "y").await);
    let of_one = [
        Task { created_ms: 3, due_ms: None, kind: TaskKind::Form, ..task(&one, "a") },
        Task { created_ms: 1, due_ms: Some(10), ..task(&one, "b") },
    ];
    let of_two = [
        Task { canvas: "y".into(), created_ms: 2, due_ms: Some(20), ..task(&two, "c") },
        Task { canvas: "y".into(), created_ms: 2, kind: TaskKind::Credential, ..task(&two, "d") },
    ];
    stores.commit(&one, 0, &by("r1", &of_one, &[])).await.unwrap();
    stores.commit(&two, 0, &by("r2", &of_two, &[])).await.unwrap();
    stores.commit(&two, 1, &by("r3", &of_two[..1], &[])).await.unwrap();
    let all = TaskFilter { limit: u64::MAX, ..TaskFilter::default() };
    let open = TaskFilter { status: Some(TaskStatus::Open), ..all.clone() };
    let check = async |filter: TaskFilter, ids: &[&str], total: u64| {
        let (found, of) = stores.tasks.list(&tenant, &filter).await.unwrap();
        let found: Vec<_> = found.iter().map(|task| task.key.id.as_str()).collect();
        assert_eq!((&*found, of), (ids, total), "{filter:?}");
    };
    check(all.clone(), &["b", "c", "d", "a"], 4).await;
    check(open.clone(), &["b", "c", "a"], 3).await;
    check(TaskFilter { status: Some(TaskStatus::Dropped), ..all.clone() }, &["d"], 1).await;
    check(TaskFilter { canvas: Some("y".into()), ..open.clone() }, &["c"], 1).await;
    check(TaskFilter { session: Some("one".into()), ..open.clone() }, &["b", "a"], 2).await;
    check(TaskFilter { kind: Some(TaskKind::Form), ..open.clone() }, &["a"], 1).await;
    check(TaskFilter { due_by_ms: Some(9), ..open.clone() }, &[], 0).await;
    check(TaskFilter { due_by_ms: Some(10), ..open.clone() }, &["b"], 1).await;
    check(TaskFilter { due_by_ms: Some(i64::MAX), ..open.clone() }, &["b", "c"], 2).await;
    check(TaskFilter { offset: 1, limit: 1, ..open }, &["c"], 3).await;
    let (whole, _) = stores.tasks.list(&tenant, &all).await.unwrap();
    for (place, task) in whole.iter().enumerate() {
        let after = Some((task.created_ms, task.key.id.clone()));
        let behind = TaskFilter { after, ..all.clone() };
        let (rest, of) = stores.tasks.list(&tenant, &behind).await.unwrap();
        assert_eq!((&*rest, of), (&whole[place + 1..], 4), "{behind:?}");
    }
}

/// Earlier than anything that another check leaves behind.
const LONG_AGO_MS: i64 = -9_000_000;

async fn due_tasks_of_all_tenants_are_listed(stores: &TaskStores<'_>) {
    let due = async |by_ms: i64, count_max: u64| {
        let found = stores.tasks.due(by_ms, None, count_max).await.unwrap();
        found.into_iter().map(|task| (task.key.tenant, task.key.id.to_string())).collect::<Vec<_>>()
    };
    let mut expected = Vec::new();
    for after in [2, 1] {
        let tenant = tenant();
        let key = stores.begin(&tenant, "one", "x").await;
        let tasks = [
            Task { due_ms: Some(LONG_AGO_MS + after), ..task(&key, "late") },
            Task { due_ms: None, ..task(&key, "never") },
        ];
        stores.commit(&key, 0, &by("r1", &tasks, &[])).await.unwrap();
        expected.insert(0, (tenant, "late".to_owned()));
    }
    assert_eq!(due(LONG_AGO_MS, 9).await, []);
    assert_eq!(due(LONG_AGO_MS + 1, 9).await, expected[..1]);
    assert_eq!(due(LONG_AGO_MS + 2, 9).await, expected);
    assert_eq!(due(LONG_AGO_MS + 2, 1).await, expected[..1]);
    due_tasks_are_read_in_parts(stores).await;
    for (tenant, _) in &expected {
        stores.sessions.delete(&SessionKey::new(tenant, "one")).await.unwrap();
    }
    assert_eq!(due(LONG_AGO_MS + 2, 9).await, []);
}

/// Those that are due at the same time come in the order of their tenants and ids.
async fn due_tasks_are_read_in_parts(stores: &TaskStores<'_>) {
    let by_ms = LONG_AGO_MS - 1;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let key = stores.begin(&tenant(), "parts", "x").await;
        let tasks = ["a", "b"].map(|id| Task { due_ms: Some(by_ms), ..task(&key, id) });
        stores.commit(&key, 0, &by("r1", &tasks, &[])).await.unwrap();
        sessions.push(key);
    }
    let all = stores.tasks.due(by_ms, None, 9).await.unwrap();
    assert_eq!(all.len(), 4);
    let (mut after, mut parts) = (None, Vec::new());
    while let Some(task) = stores.tasks.due(by_ms, after.as_ref(), 1).await.unwrap().pop() {
        after = Some((by_ms, task.key.clone()));
        parts.push(task);
        assert!(parts.len() <= all.len(), "none comes twice");
    }
    assert_eq!(parts, all);
    for key in sessions {
        stores.sessions.delete(&key).await.unwrap();
    }
}

async fn tasks_are_removed_with_their_session(stores: &TaskStores<'_>) {
    let (ours, theirs) = (tenant(), tenant());
    let mut keys = Vec::new();
    for tenant in [&ours, &theirs] {
        let key = stores.begin(tenant, "same", "c").await;
        stores.commit(&key, 0, &by("r", &[task(&key, "t")], &[])).await.unwrap();
        keys.push(key);
    }
    stores.sessions.delete(&keys[0]).await.unwrap();
    refused(stores.tasks.get(&TaskKey::new(&ours, "t")).await, NotFound);
    assert_eq!(stores.status(&keys[1], "t").await.0, TaskStatus::Open);
}
