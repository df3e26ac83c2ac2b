//! Contract that spans several stores.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use serde_json::json;
use weft_core::Ending;
use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::id::{CanvasKey, RunKey, TenantId};
use weft_core::seam::canvas_store::{CanvasHead, CanvasStore};
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredEntry};
use weft_core::seam::session_store::{Session, SessionCommit};
use weft_core::seam::work_queue::Work;
use weft_core::seam::{RunStore, ScheduleStore, SessionStore, WorkQueue};

use super::run::{entries, run};
use super::schedule::{MANY, schedule};
use super::session::{change, said, session};
use super::work::work;
use super::{LARGE, refused, tenant};

/// Checks that removing a canvas removes its sessions, runs, work and schedules, and that removing a session removes
/// its runs, and nothing else. All are one store.
pub async fn stores_remove_related_data_together(
    canvases: &dyn CanvasStore,
    sessions: &dyn SessionStore,
    runs: &dyn RunStore,
    queue: &dyn WorkQueue,
    schedules: &dyn ScheduleStore,
) {
    let all = JointStores { canvases, sessions, runs };
    let (ours, theirs) = (tenant(), tenant());
    for tenant in [&ours, &theirs] {
        for canvas in ["x", "y"] {
            all.fill(tenant, canvas).await;
            schedules.create(&schedule(tenant, canvas, canvas), MANY).await.unwrap();
            let one = Work { canvas: canvas.into(), ..work(tenant, canvas, 0) };
            assert_eq!(queue.push_within(&[one], 0, MANY).await.unwrap(), 0);
        }
    }
    sessions.delete(&session(&ours, "x1", "x").key).await.unwrap();
    all.is_gone(&ours, "x1").await;
    for (tenant, id) in [(&ours, "x2"), (&ours, "y1"), (&theirs, "x1")] {
        all.is_there(tenant, id).await;
    }
    canvases.delete(&CanvasKey::new(&ours, "x")).await.unwrap();
    all.is_gone(&ours, "x2").await;
    refused(queue.get(&work(&ours, "x", 0).run).await, NotFound);
    refused(schedules.get(&schedule(&ours, "x", "").key).await, NotFound);
    for (tenant, run) in [(&ours, "y"), (&theirs, "x")] {
        queue.get(&work(tenant, run, 0).run).await.unwrap();
        schedules.delete(&schedule(tenant, run, "").key).await.unwrap();
        queue.withdraw(tenant, &work(tenant, run, 0).source).await.unwrap();
    }
    for (tenant, id) in [(&ours, "y1"), (&ours, "y2"), (&theirs, "x1"), (&theirs, "x2")] {
        all.is_there(tenant, id).await;
    }
    // A new object with the id of a removed one starts from scratch.
    all.fill(&ours, "x").await;
    all.is_there(&ours, "x1").await;
}

/// Checks that a run is announced at the revision of its session that it was made for, or not at all, also when several
/// callers try concurrently. The two are one store.
pub(super) async fn runs_are_announced_at_a_revision(sessions: &dyn SessionStore, runs: &dyn RunStore) {
    let (ours, theirs) = (tenant(), tenant());
    let at = |id: &str, tenant: &TenantId| run(tenant, id, "s", "c");
    assert!(!runs.announce(&at("early", &ours), 0).await.unwrap(), "there is no session");
    for tenant in [&ours, &theirs] {
        sessions.create(&session(tenant, "s", "c"), &[]).await.unwrap();
    }
    for revision in [-1, 1, i64::MAX, i64::MIN] {
        assert!(!runs.announce(&at("early", &ours), revision).await.unwrap(), "{revision}");
    }
    refused(runs.get(&at("early", &ours).key).await, NotFound);
    assert!(runs.announce(&at("first", &ours), 0).await.unwrap());
    assert_eq!(runs.get(&at("first", &ours).key).await.unwrap(), at("first", &ours));
    // Its session has an active run, and its id is taken.
    for id in ["second", "first"] {
        refused(runs.announce(&at(id, &ours), 0).await, Conflict);
    }
    assert!(runs.announce(&at("first", &theirs), 0).await.unwrap(), "another tenant's");
    let lease = RunLease::first(&at("first", &ours).key);
    let (conversation, state) = (session(&ours, "s", "c").key, json!({}));
    let of_run = SessionCommit { lease: Some(&lease), ..change(0, &state, &[]) };
    sessions.commit(&conversation, of_run).await.unwrap();
    runs.finish(&lease, FinishedRun::new(Ending::Succeeded, 1)).await.unwrap();
    // The session has a newer revision.
    assert!(!runs.announce(&at("third", &ours), 0).await.unwrap());
    let many: Vec<_> = (0..8).map(|number| at(&format!("many{number}"), &ours)).collect();
    let announced = join_all(many.iter().map(|run| runs.announce(run, 1))).await;
    assert_eq!(announced.iter().filter(|one| matches!(one, Ok(true))).count(), 1, "{announced:?}");
}

/// Checks that a session whose run is under way is changed by nobody else, also when the two come at the same time.
/// The two are one store.
async fn a_session_with_a_run_is_changed_by_that_run_alone(sessions: &dyn SessionStore, runs: &dyn RunStore) {
    let (ours, theirs) = (tenant(), tenant());
    let state = json!({});
    for tenant in [&ours, &theirs] {
        sessions.create(&session(tenant, "s", "c"), &[]).await.unwrap();
    }
    let one = session(&ours, "s", "c").key;
    let first = run(&ours, "first", "s", "c");
    assert!(runs.announce(&first, 0).await.unwrap());
    refused(sessions.commit(&one, change(0, &state, &[])).await, Conflict);
    assert_eq!(sessions.load(&one).await.unwrap().revision, 0);
    let same = session(&theirs, "s", "c").key;
    sessions.commit(&same, change(0, &state, &[])).await.unwrap();
    let finished = FinishedRun::new(Ending::Succeeded, 1);
    runs.finish(&RunLease::first(&first.key), finished).await.unwrap();
    sessions.commit(&one, change(0, &state, &[])).await.unwrap();
    for number in 0..20 {
        let id = format!("s{number}");
        let one = session(&ours, &id, "c");
        sessions.create(&one, &[]).await.unwrap();
        let its = run(&ours, &format!("run{number}"), &id, "c");
        let (announced, changed) =
            futures::join!(runs.announce(&its, 0), sessions.commit(&one.key, change(0, &state, &[])));
        if announced.unwrap() {
            refused(changed, Conflict);
        } else {
            changed.unwrap();
        }
    }
}

/// Checks that values of any size come back unchanged, before and after their runs have ended, while others with the
/// same values are removed. The two are one store.
pub async fn stores_keep_large_values(sessions: &dyn SessionStore, runs: &dyn RunStore) {
    runs_are_announced_at_a_revision(sessions, runs).await;
    a_session_with_a_run_is_changed_by_that_run_alone(sessions, runs).await;
    let tenant = tenant();
    let state = |turn: u64| json!({"note": words(turn / 2), "turns": turn});
    let one = Session { state: state(0), ..session(&tenant, "s", "c") };
    sessions.create(&one, &[]).await.unwrap();
    let mut kept: Vec<(RunKey, Vec<StoredEntry>)> = Vec::new();
    for turn in 0..6_u64 {
        let run = run(&tenant, &format!("run{turn}"), "s", "c");
        runs.create(&run).await.unwrap();
        let mut written: Vec<StoredEntry> = Vec::new();
        for step in 0..9_u64 {
            // A small one, many small ones, and in some runs a large one.
            let text = match step {
                0 if turn != 3 => state(turn).to_string(),
                5 if turn == 4 => words(77),
                _ => format!("step {step} of turn {turn} says what every turn says in its step"),
            };
            let mut some = entries(step * 3 + 1..=step * 3 + 3);
            some[1].record = text.into();
            written.extend(some.clone());
            runs.append(&RunLease::first(&run.key), some).await.unwrap();
        }
        let (lease, after) = (RunLease::first(&run.key), state(turn + 1));
        let of_run = SessionCommit { lease: Some(&lease), ..change(turn.cast_signed(), &after, &[]) };
        sessions.commit(&one.key, of_run).await.unwrap();
        assert!(runs.entries(&run.key, 0, 99).await.unwrap() == written, "turn {turn} active");
        runs.finish(&RunLease::first(&run.key), FinishedRun::new(Ending::Succeeded, 1)).await.unwrap();
        kept.push((run.key, written));
    }
    let check = async |kept: &[(RunKey, Vec<StoredEntry>)]| {
        for (key, written) in kept {
            for after in [0, 1, 13, 26] {
                let found = runs.entries(key, after, 7).await.unwrap();
                let wanted: Vec<_> =
                    written.iter().filter(|entry| entry.seq > after).take(7).cloned().collect();
                assert!(found == wanted, "{} after {after}", key.id);
            }
        }
        assert!(sessions.load(&one.key).await.unwrap().state == state(6));
    };
    check(&kept).await;
    for gone in [0, 2, 3] {
        let (key, _) = kept.remove(gone);
        assert_eq!(runs.remove(std::slice::from_ref(&key)).await.unwrap(), 1);
        refused(runs.entries(&key, 0, 9).await, NotFound);
        check(&kept).await;
    }
    // A small state replaces a large one, and vice versa.
    for (revision, state) in [(6, json!({})), (7, state(9)), (8, json!("small"))] {
        sessions.commit(&one.key, change(revision, &state, &[])).await.unwrap();
        assert!(sessions.load(&one.key).await.unwrap().state == state);
        runs.remove(&[]).await.unwrap();
    }
    sessions.delete(&one.key).await.unwrap();
    refused(runs.entries(&kept[0].0, 0, 9).await, NotFound);
}

/// A long text without repetitions.
fn words(seed: u64) -> String {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    (0..LARGE / 16).map(|_| format!("wörd{:<4}", next() % 4_096)).collect()
}

struct JointStores<'a> {
    canvases: &'a dyn CanvasStore,
    sessions: &'a dyn SessionStore,
    runs: &'a dyn RunStore,
}

impl JointStores<'_> {
    /// A canvas with two sessions, each with a run of the same name.
    async fn fill(&self, tenant: &TenantId, canvas: &str) {
        let head = CanvasHead { title: canvas.into(), ..CanvasHead::default() };
        self.canvases.put(&CanvasKey::new(tenant, canvas), &head, "{}").await.unwrap();
        for n in 1..=2 {
            let id = format!("{canvas}{n}");
            self.sessions.create(&session(tenant, &id, canvas), &[said("user", "q", None)]).await.unwrap();
            let run = run(tenant, &id, &id, canvas);
            self.runs.create(&run).await.unwrap();
            self.runs.append(&RunLease::first(&run.key), entries(1..=3)).await.unwrap();
        }
    }

    async fn is_there(&self, tenant: &TenantId, id: &str) {
        let (session, run) = (session(tenant, id, "").key, run(tenant, id, "", "").key);
        self.sessions.load(&session).await.unwrap();
        assert_eq!(self.sessions.messages(&session, i64::MAX, 9).await.unwrap().len(), 1);
        assert_eq!(self.runs.entries(&run, 0, 9).await.unwrap(), entries(1..=3));
    }

    async fn is_gone(&self, tenant: &TenantId, id: &str) {
        let (session, run) = (session(tenant, id, "").key, run(tenant, id, "", "").key);
        refused(self.sessions.load(&session).await, NotFound);
        assert_eq!(self.sessions.messages(&session, i64::MAX, 9).await.unwrap(), []);
        refused(self.runs.get(&run).await, NotFound);
        refused(self.runs.entries(&run, 0, 9).await, NotFound);
        refused(self.runs.append(&RunLease::first(&run), entries(4..=4)).await, NotFound);
    }
}
