//! A tenant is removed with everything that it has.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use weft_core::error::found;
use weft_core::seam::canvas_store::CanvasFilter;
use weft_core::seam::chat_store::ChatFilter;
use weft_core::seam::dataset_store::DatasetFilter;
use weft_core::seam::run_store::RunFilter;
use weft_core::{Error, ErrorKind, Result, TenantId};

use super::Accounts;
use crate::app::{App, DEFAULT_TENANT};

/// Removes what a tenant has in no database: uploaded files, and the files of its agents.
pub type Erasure = dyn Fn(TenantId) -> BoxFuture<'static, Result<()>> + Send + Sync;

/// Datasets or runs that are read at once.
const AT_ONCE: u64 = 200;
/// How often it is looked whether the runs have stopped.
const LOOKED_MAX: u32 = 100;
/// How long it is waited in between.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Accounts {
    /// The same, where removing a tenant removes this, too.
    #[must_use]
    pub fn with_erasure(mut self, erasure: Arc<Erasure>) -> Self {
        self.erasure = erasure;
        self
    }
}

impl App {
    /// Removes a tenant with everything that it has: agents, conversations, datasets, files, memories, secrets, members,
    /// invitations, API keys, what was used, and the audit log. First nobody but its owners is let in any more, and its runs are
    /// stopped. Users stay, with their other tenants. Where it stops on its way, asking again goes on.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for the tenant that is always there; `Conflict` when a run does not stop, or one has begun
    /// meanwhile.
    pub async fn remove_tenant(&self, id: &TenantId) -> Result<()> {
        if id.as_str() == DEFAULT_TENANT {
            let error = Error::invalid(format!("the tenant `{DEFAULT_TENANT}` is always there"));
            return Err(error.help("remove what is in it, or its members"));
        }
        // Before anything is removed, or what goes on would come after it for ever.
        self.accounts.stores.tenants.close_tenant(id).await?;
        // With them the calls of other programs end.
        self.remove_agents_in(id).await?;
        self.stop_runs_in(id).await?;
        loop {
            let filter = DatasetFilter { limit: AT_ONCE, ..DatasetFilter::default() };
            let (datasets, _) = self.datasets.datasets(id, &filter).await?;
            if datasets.is_empty() {
                break;
            }
            for dataset in datasets {
                // Somebody else may remove it in this very moment, here and below.
                found(self.library.remove_dataset(&dataset.key).await)?;
            }
        }
        (self.accounts.erasure)(id.clone()).await?;
        // The rows go last, because they tell what is left to be removed.
        self.accounts.stores.tenants.remove_tenant(id).await
    }

    /// One after the other, so that no statement has to remove all of them.
    async fn remove_agents_in(&self, id: &TenantId) -> Result<()> {
        loop {
            let filter = ChatFilter { limit: AT_ONCE, ..ChatFilter::default() };
            let (chats, _) = self.chats.list(id, &filter).await?;
            if chats.is_empty() {
                break;
            }
            for chat in chats {
                found(self.remove_chat(&chat.key).await)?;
            }
        }
        loop {
            let filter = CanvasFilter { limit: AT_ONCE, ..CanvasFilter::default() };
            let (canvases, _) = self.canvases.list(id, &filter).await?;
            if canvases.is_empty() {
                return Ok(());
            }
            for canvas in canvases {
                found(self.remove_canvas(&canvas.key).await)?;
            }
        }
    }

    /// Asks all runs to stop, and waits until they have.
    async fn stop_runs_in(&self, id: &TenantId) -> Result<()> {
        for _ in 0..LOOKED_MAX {
            // Also those that have begun since the last look.
            let filter = RunFilter { unfinished: true, limit: AT_ONCE, ..RunFilter::default() };
            let runs = self.runs.list(id, &filter).await?;
            if runs.is_empty() {
                return Ok(());
            }
            for run in runs {
                self.engine.cancel(&run.key).await?;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let error = Error::new(ErrorKind::Conflict, "the runs of the tenant do not stop");
        Err(error.help("try again when they have ended"))
    }
}
