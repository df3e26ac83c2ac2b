//! What a turn is started with.

use std::sync::Arc;

use weft_core::{CanvasId, SessionKey, TaskId, TurnInput};
use weft_dsl::Plan;

/// A turn to run.
#[derive(Clone, Debug)]
pub struct StartRun {
    /// The version of the canvas that the session is on.
    pub plan: Arc<Plan>,
    /// The canvas.
    pub canvas: CanvasId,
    /// The session; it must exist in the store.
    pub session: SessionKey,
    /// The caller's input.
    pub input: TurnInput,
    /// The seed of random choices; if absent, it is chosen at random.
    pub seed: Option<u64>,
    /// The task that this turn answers: the turn begins only while that task is still open.
    pub task: Option<TaskId>,
}
