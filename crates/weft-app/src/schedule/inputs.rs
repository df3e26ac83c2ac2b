//! What a canvas makes of the inputs of a schedule.

use weft_core::seam::schedule_store::{Schedule, SessionPolicy};
use weft_core::{CanvasKey, Result};

use super::Terms;
use crate::app::App;

impl App {
    /// Checks the inputs of a schedule as each of its runs would when it begins, when nobody sees the error. A canvas
    /// that cannot run at present may be repaired before the first time.
    pub(super) async fn check_inputs(&self, canvas: &CanvasKey, terms: &Terms) -> Result<()> {
        let inputs = &terms.input.inputs;
        // A session stays on its version of the canvas, whose form may be another one.
        if inputs.is_empty() || matches!(terms.session, SessionPolicy::One(_)) {
            return Ok(());
        }
        let Ok(version) = self.canvases.newest(canvas).await else { return Ok(()) };
        let Ok(plan) = self.plan(canvas, &version).await else { return Ok(()) };
        weft_engine::check_inputs(&plan, inputs)
    }

    /// Returns the inputs of a schedule that nothing in its canvas reads, which may be misspelled names. Empty for a
    /// canvas that cannot run at present: it may be repaired before the first time.
    pub async fn unread_inputs(&self, schedule: &Schedule) -> Vec<String> {
        let inputs = &schedule.input.inputs;
        if inputs.is_empty() {
            return Vec::new();
        }
        let canvas = CanvasKey::new(&schedule.key.tenant, schedule.canvas.clone());
        let Ok(version) = self.canvases.newest(&canvas).await else { return Vec::new() };
        let Ok(plan) = self.plan(&canvas, &version).await else { return Vec::new() };
        inputs.keys().filter(|key| !plan.reads_input(key)).cloned().collect()
    }
}
