//! What a run has used is noted every few seconds, while it goes on.

use std::sync::Arc;
use std::time::Duration;

use weft_core::CanvasId;
use weft_core::budget::{Budget, Spent};
use weft_core::seam::run_store::RunLease;

use super::{Engine, Prepared, Stores};

/// How often it is noted what a run has used.
// So much of what this process uses may be unknown to the others at a time.
const NOTED_EVERY: Duration = Duration::from_secs(5);

/// What a run uses, while it goes on.
pub(super) struct RunUsage {
    canvas: CanvasId,
    budget: Arc<Budget>,
    /// What the run whose beginning it shares has used for that.
    shared: Spent,
}

impl RunUsage {
    pub(super) fn by(prepared: &Prepared) -> Self {
        let shared = prepared.recovered.as_ref().map(|recovered| recovered.shared).unwrap_or_default();
        let budget = Arc::clone(&prepared.context.budget);
        Self { canvas: prepared.request.canvas.clone(), budget, shared }
    }

    fn so_far(&self) -> Spent {
        self.budget.own().beyond(self.shared)
    }
}

/// Notes again and again what a run has used, and takes note of what others have.
pub(super) async fn note_again_and_again(
    stores: &Stores,
    lease: &RunLease,
    engine: &Engine,
    used: &RunUsage,
) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(NOTED_EVERY).await;
        // In a place of its own: for most of a run's time it is not under way.
        Box::pin(note_once(stores, lease, engine, used)).await;
    }
}

async fn note_once(stores: &Stores, lease: &RunLease, engine: &Engine, used: &RunUsage) {
    let noted = engine.note_spent(stores, lease, used.so_far()).await;
    if let Err(error) = noted.and(engine.account(stores, &lease.run.tenant, &used.canvas).await.map(drop)) {
        tracing::warn!(run.id = %lease.run.id, error = error.detail(), "cannot compare what the run has used");
    }
}
