//! Reports a run's usage to the store every few seconds while it runs.

use std::sync::Arc;
use std::time::Duration;

use weft_core::CanvasId;
use weft_core::budget::{Budget, Spent};
use weft_core::seam::run_store::RunLease;

use super::{Engine, Prepared, Stores};

/// How often a run's usage is reported.
// This bounds how much of this process's usage the other processes do not know of yet.
const NOTED_EVERY: Duration = Duration::from_secs(5);

/// The usage of a run in progress.
pub(super) struct RunUsage {
    canvas: CanvasId,
    budget: Arc<Budget>,
    /// What the run whose beginning it shares used for that beginning.
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

/// Periodically reports a run's usage and picks up that of other processes.
pub(super) async fn note_again_and_again(
    stores: &Stores,
    lease: &RunLease,
    engine: &Engine,
    used: &RunUsage,
) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(NOTED_EVERY).await;
        // Boxed: most of the time it is not running.
        Box::pin(note_once(stores, lease, engine, used)).await;
    }
}

async fn note_once(stores: &Stores, lease: &RunLease, engine: &Engine, used: &RunUsage) {
    // Reported before the others are looked up: what the store returns then includes it.
    let noted = engine.note_spent(stores, lease, used.so_far()).await;
    if let Err(error) = noted.and(engine.account(stores, &lease.run.tenant, &used.canvas).await.map(drop)) {
        tracing::warn!(run.id = %lease.run.id, error = error.detail(), "cannot compare what the run has used");
    }
}
