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
    /// Without an ending: `running` while it is under way here, else `unfinished`, as after a crash.
    status: &'static str,
    create_time: i64,
    finish_time: Option<i64>,
    /// The version of the canvas that it runs, where a run is shown by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Arc<str>>,
}

impl RunItem {
    /// A stored run; `open` is its status as long as it has no ending.
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

    /// The same with the version of the canvas that it runs.
    #[must_use]
    pub fn on(self, version: Arc<str>) -> Self {
        Self { version: Some(version), ..self }
    }
}
