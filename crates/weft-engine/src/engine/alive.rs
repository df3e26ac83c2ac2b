//! What a process does every few seconds for a run that it is at work on.

use std::sync::Arc;
use std::time::Duration;

use weft_core::budget::{Budget, Spent};
use weft_core::{CanvasId, RunKey};

use super::{Engine, Prepared, Stores};

/// How often a process says that it is at work on a run.
const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// What a run uses, while it goes on.
pub(super) struct Used {
    canvas: CanvasId,
    budget: Arc<Budget>,
    /// What the run whose beginning it shares has used for that.
    shared: Spent,
}

impl Used {
    pub(super) fn by(prepared: &Prepared) -> Self {
        let shared = prepared.recovered.as_ref().map(|recovered| recovered.shared).unwrap_or_default();
        let budget = Arc::clone(&prepared.context.budget);
        Self { canvas: prepared.request.canvas.clone(), budget, shared }
    }

    fn so_far(&self) -> Spent {
        self.budget.own().beyond(self.shared)
    }
}

/// Says again and again that a run is being worked on, so that nobody else takes it over.
pub(super) async fn say_alive(
    stores: &Stores,
    run: &RunKey,
    (engine, used): (&Engine, &Used),
) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(ALIVE_EVERY).await;
        if let Err(error) = stores.runs.alive(std::slice::from_ref(run), engine.now_ms()).await {
            tracing::warn!(run.id = %run.id, error = error.full(), "cannot say that the run is being worked on");
        }
        let noted = engine.note_spent(stores, run, used.so_far()).await;
        if let Err(error) = noted.and(engine.account(stores, &run.tenant, &used.canvas).await.map(drop)) {
            tracing::warn!(run.id = %run.id, error = error.full(), "cannot compare what the run has used");
        }
    }
}
