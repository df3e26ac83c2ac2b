//! Runs in lists.

use std::sync::Arc;

use serde::Serialize;
use weft_core::seam::run_store::StoredRun;
use weft_core::{CanvasId, RunId, SessionId};

/// A run without its journal.
#[derive(Debug, Serialize)]
pub struct RunItem {
    id: RunId,
    session_id: SessionId,
    agent_id: CanvasId,
    query: String,
    /// Without an ending: `running` while this process executes it, else `unfinished`, such as after a crash.
    status: &'static str,
    create_time: i64,
    finish_time: Option<i64>,
    /// The version of the canvas, for a run that is shown by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Arc<str>>,
}

impl RunItem {
    /// Builds the representation of a stored run; `open` is its status while it has no ending.
    pub fn new(run: StoredRun, open: &'static str) -> Self {
        let StoredRun {
            key,
            session,
            canvas,
            query,
            ending,
            started_ms,
            finished_ms,
            fence: _,
            owner: _,
            cancel_ms: _,
            give_way: _,
        } = run;
        Self {
            id: key.id,
            session_id: session,
            agent_id: canvas,
            query,
            status: ending.map_or(open, weft_core::Ending::as_str),
            create_time: started_ms,
            finish_time: finished_ms,
            version: None,
        }
    }

    /// Adds the version of the canvas.
    #[must_use]
    pub fn on(self, version: Arc<str>) -> Self {
        Self { version: Some(version), ..self }
    }
}
