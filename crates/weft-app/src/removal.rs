//! What goes with a canvas or a chat assistant.

use weft_core::seam::canvas_store::CHAT_TYPE;
use weft_core::seam::run_store::RunFilter;
use weft_core::seam::share_store::ShareTarget;
use weft_core::{CanvasKey, Error, ErrorKind, Result};

use crate::app::App;

/// Runs that are looked at together.
const PAGE: u64 = 500;

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
        let target = ShareTarget::Agent(key.id.clone());
        self.accounts.stores.shares.remove_shares(&key.tenant, &target).await.map(drop)
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
        let target = ShareTarget::Chat(key.id.clone());
        self.accounts.stores.shares.remove_shares(&key.tenant, &target).await.map(drop)
    }

    async fn stop_runs_of(&self, key: &CanvasKey) -> Result<()> {
        let mut filter = RunFilter { unfinished: true, limit: PAGE, ..RunFilter::default() };
        let mut of_canvas = Vec::new();
        // All of them before the first is stopped: those that end meanwhile would move the pages.
        loop {
            let page = self.runs.list(&key.tenant, &filter).await?;
            filter.offset += PAGE;
            let is_last = (page.len() as u64) < PAGE;
            of_canvas.extend(page.into_iter().filter(|run| run.canvas == key.id).map(|run| run.key));
            if is_last {
                break;
            }
        }
        for run in of_canvas {
            self.engine.cancel(&run).await?;
        }
        Ok(())
    }
}
