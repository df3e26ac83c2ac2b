//! What the stores promise together.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use weft_core::ErrorKind::NotFound;
use weft_core::id::{CanvasKey, TenantId};
use weft_core::seam::canvas_store::{CanvasHead, CanvasStore};
use weft_core::seam::work_queue::Work;
use weft_core::seam::{RunStore, ScheduleStore, SessionStore, WorkQueue};

use super::run::{entries, run};
use super::schedule::schedule;
use super::session::{said, session};
use super::work::work;
use super::{refused, tenant};

/// Checks that removing a canvas removes its sessions, runs, work and schedules, and removing a session
/// its runs, and nothing else. All are one store.
pub async fn stores_remove_what_belongs_together(
    canvases: &dyn CanvasStore,
    sessions: &dyn SessionStore,
    (runs, queue, schedules): (&dyn RunStore, &dyn WorkQueue, &dyn ScheduleStore),
) {
    let all = Stores { canvases, sessions, runs };
    let (ours, theirs) = (tenant(), tenant());
    for tenant in [&ours, &theirs] {
        for canvas in ["x", "y"] {
            all.fill(tenant, canvas).await;
            schedules.create(&schedule(tenant, canvas, canvas)).await.unwrap();
            queue.push(&[Work { canvas: canvas.into(), ..work(tenant, canvas, 0) }], 0).await.unwrap();
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
    // What takes the place of something removed begins anew.
    all.fill(&ours, "x").await;
    all.is_there(&ours, "x1").await;
}

struct Stores<'a> {
    canvases: &'a dyn CanvasStore,
    sessions: &'a dyn SessionStore,
    runs: &'a dyn RunStore,
}

impl Stores<'_> {
    /// A canvas with two sessions, each with a run of the same name.
    async fn fill(&self, tenant: &TenantId, canvas: &str) {
        let head = CanvasHead { title: canvas.into(), ..CanvasHead::default() };
        self.canvases.put(&CanvasKey::new(tenant, canvas), &head, "{}").await.unwrap();
        for n in 1..=2 {
            let id = format!("{canvas}{n}");
            self.sessions.create(&session(tenant, &id, canvas), &[said("user", "q", None)]).await.unwrap();
            let run = run(tenant, &id, &id, canvas);
            self.runs.create(&run).await.unwrap();
            self.runs.append(&run.key, entries(1..=3)).await.unwrap();
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
        refused(self.runs.append(&run, entries(4..=4)).await, NotFound);
    }
}
