//! Removal of a tenant with all of its data.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use weft_core::error::found;
use weft_core::seam::canvas_store::CanvasFilter;
use weft_core::seam::chat_store::ChatFilter;
use weft_core::seam::dataset_store::DatasetFilter;
use weft_core::seam::run_store::RunFilter;
use weft_core::{Error, ErrorKind, Result, TenantId, UserId};

use super::Accounts;
use crate::app::{App, DEFAULT_TENANT};

/// Removes the data of a tenant outside of the database: uploaded files, and the files of its agents.
pub type Erasure = dyn Fn(TenantId) -> BoxFuture<'static, Result<()>> + Send + Sync;

/// Number of datasets or runs read in one batch.
const AT_ONCE: u64 = 200;
/// How often to check whether the runs have stopped.
const LOOKED_MAX: u32 = 100;
/// Pause between these checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Accounts {
    /// Sets the function that removes data outside of the database.
    #[must_use]
    pub fn with_erasure(mut self, erasure: Arc<Erasure>) -> Self {
        self.erasure = erasure;
        self
    }
}

impl App {
    /// Removes a tenant with all of its data: agents, conversations, datasets, files, memories, secrets, members,
    /// invitations, API keys, usage, and the audit log. First, access is closed to everyone but its owners, and its
    /// runs are stopped. Users remain, with their other tenants. The empty row of a tenant that was created by a
    /// registration remains as long as its user does, because it tells that they have registered. If interrupted,
    /// repeating the call continues.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for the default tenant; `Conflict` when a run does not stop, or one was started
    /// meanwhile.
    pub async fn remove_tenant(&self, id: &TenantId) -> Result<()> {
        if id.as_str() == DEFAULT_TENANT {
            let error = Error::invalid(format!("the tenant `{DEFAULT_TENANT}` cannot be removed"));
            return Err(error.help("remove its contents or its members instead"));
        }
        // Before anything is removed; otherwise ongoing work would keep adding data.
        self.accounts.stores.tenants.close_tenant(id).await?;
        // This also ends webhook calls of other programs.
        self.remove_agents_in(id).await?;
        self.stop_runs_in(id).await?;
        loop {
            // Always from the start, because removed entries leave the list; the same below.
            let filter = DatasetFilter { limit: AT_ONCE, ..DatasetFilter::default() };
            let (datasets, _) = self.datasets.datasets(id, &filter).await?;
            if datasets.is_empty() {
                break;
            }
            for dataset in datasets {
                // A concurrent request may have just removed it; the same below.
                found(self.library.remove_dataset(&dataset.key).await)?;
            }
        }
        (self.accounts.erasure)(id.clone()).await?;
        // The rows go last, because they tell what remains to be removed.
        self.accounts.stores.tenants.remove_tenant(id).await?;
        match found(self.accounts.stores.users.user(&UserId::from(id.as_str())).await)? {
            Some(_) => self.ensure_tenant(id).await,
            None => Ok(()),
        }
    }

    /// One by one, so that no single statement has to remove all of them.
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

    /// Requests all runs to stop, and waits until they have.
    async fn stop_runs_in(&self, id: &TenantId) -> Result<()> {
        for _ in 0..LOOKED_MAX {
            // Includes runs that have started since the last check.
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
        let error = Error::new(ErrorKind::Conflict, "the runs of the tenant have not stopped in time");
        Err(error.help("try again when they have ended"))
    }
}
