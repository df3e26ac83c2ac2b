//! Starts runs that were announced under a known id but whose process ended before they began.

use weft_core::seam::run_store::StoredRun;
use weft_core::{Error, ErrorKind, Result, RunKey};

use super::held::SessionLock;
use super::launch::HeldRun;
use super::owner::TakenRun;
use super::{Engine, NewRun, RunHandle, StartRun};
use crate::answers::AnswerStatus;

impl Engine {
    /// Begins a run that is stored without a single entry. `request` is the request that it was announced for.
    ///
    /// # Errors
    /// `Conflict` when it has begun or ended, or when it or its session is under way, here or in another
    /// process; otherwise as [`Engine::start`].
    pub async fn begin(&self, run: &StoredRun, request: StartRun) -> Result<RunHandle> {
        let stores = self.stores()?;
        let place = self.place()?;
        let lock = SessionLock::take(self, &request.session)?;
        let lease = self.take_over(&stores, run).await?;
        // From here on the run is ours in the store: whatever fails below, it has to be released again.
        let taken = TakenRun::new(self, lease.clone());
        // Checked after the claim: before it, the first owner could still write an entry after the check.
        if self.has_begun(&run.key).await? {
            return Err(Error::new(ErrorKind::Conflict, format!("run {} has begun", run.key.id)));
        }
        let session = stores.sessions.load(&request.session).await?;
        let new = NewRun { id: run.key.id.clone(), answers: AnswerStatus::New };
        let prepared = self.prepare(&stores, new, request, session).await?;
        let held = HeldRun::new(place, lock, lease);
        if run.cancel_ms.is_some() {
            held.cancel.cancel();
        }
        let handle = self.launch(stores, prepared, held);
        taken.kept();
        Ok(handle)
    }

    /// Whether the journal of a run has any entries.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn has_begun(&self, key: &RunKey) -> Result<bool> {
        let stores = &self.stores()?;
        Ok(!stores.runs.entries(key, 0, 1).await?.is_empty())
    }
}
