//! Runs that were announced under an id known beforehand, and whose process ended before they began.

use std::sync::Arc;

use weft_core::seam::run_store::StoredRun;
use weft_core::{Error, ErrorKind, Result, RunKey};

use super::held::SessionLock;
use super::{Engine, RunHandle, StartRun};

impl Engine {
    /// Begins a run that is stored without a single entry. `request` is what it was to be given.
    ///
    /// # Errors
    /// `Conflict` when it has begun or ended, or it or its session is under way, here or in another
    /// process; otherwise as [`Engine::start`].
    pub async fn begin(&self, run: &StoredRun, request: StartRun) -> Result<RunHandle> {
        let stores = self.0.stores.clone().ok_or_else(|| Error::internal("this engine has no store"))?;
        let place = Arc::clone(&self.0.places).try_acquire_owned().map_err(|_| {
            Error::new(ErrorKind::RateLimited, "too many runs are under way").help("try again in a moment")
        })?;
        let lock = SessionLock::take(self, &request.session)?;
        if !stores.runs.claim(&run.key, run.alive_ms, self.now_ms()).await? {
            let message = format!("run {} has ended, or another process goes on with it", run.key.id);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if self.has_begun(&run.key).await? {
            return Err(Error::new(ErrorKind::Conflict, format!("run {} has begun", run.key.id)));
        }
        let prepared = self.prepare(&stores, run.key.id.clone(), request).await?;
        Ok(self.launch(stores, prepared, (place, lock)))
    }

    /// Whether anything of a run was written down.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn has_begun(&self, key: &RunKey) -> Result<bool> {
        let stores = self.0.stores.as_ref().ok_or_else(|| Error::internal("this engine has no store"))?;
        Ok(!stores.runs.entries(key, 0, 1).await?.is_empty())
    }
}
