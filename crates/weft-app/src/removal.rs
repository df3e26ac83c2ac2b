//! What goes with a canvas or a chat assistant.

use weft_core::seam::canvas_store::CHAT_TYPE;
use weft_core::seam::run_store::RunFilter;
use weft_core::{CanvasKey, Error, ErrorKind, Result};

use crate::app::App;

impl App {
    /// Removes a canvas with its sessions and runs; those under way are asked to stop.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn remove_canvas(&self, key: &CanvasKey) -> Result<()> {
        if self.canvases.get(key).await?.head.canvas_type == CHAT_TYPE {
            // It goes with its assistant.
            return Err(Error::not_found(format!("there is no canvas `{}`", key.id)));
        }
        self.stop_runs_of(key).await?;
        self.canvases.delete(key).await?;
        self.plans.forget(key);
        Ok(())
    }

    /// Removes an assistant with its conversations; runs under way are asked to stop.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn remove_chat(&self, key: &CanvasKey) -> Result<()> {
        // First the assistant, so that no turn begins that would make its canvas again.
        self.chats.delete(key).await?;
        self.stop_runs_of(key).await?;
        match self.canvases.delete(key).await {
            // Nobody has asked it anything yet. Its conversations are gone all the same.
            Err(error) if error.kind == ErrorKind::NotFound => {}
            outcome => outcome?,
        }
        self.plans.forget(key);
        Ok(())
    }

    async fn stop_runs_of(&self, key: &CanvasKey) -> Result<()> {
        let filter =
            RunFilter { unfinished: true, limit: self.limits.runs_at_once as u64, ..RunFilter::default() };
        for run in self.runs.list(&key.tenant, &filter).await? {
            if run.canvas == key.id {
                self.engine.cancel(&run.key).await?;
            }
        }
        Ok(())
    }
}
