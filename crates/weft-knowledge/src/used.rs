//! Model usage of work outside of runs: on datasets, and for memories. No run reports it, so it is recorded
//! here for whoever pays.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weft_core::seam::{DocumentReader, ModelDirectory, UsageStore};
use weft_core::usage::{self, ModelUse, UsageOwner};
use weft_core::watched_models::{ModelCall, ModelWatcher, WatchedModels};
use weft_core::{ComponentId, Error, ErrorKind};

/// Time limit for recording usage.
// A store that hangs must not use up the lease of the work.
const NOTE_LIMIT: Duration = Duration::from_secs(5);

/// Adds up the model usage of some work, by model.
struct GatheredUse {
    node: ComponentId,
    uses: Mutex<Vec<ModelUse>>,
}

impl GatheredUse {
    fn take(&self) -> Vec<ModelUse> {
        std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ModelWatcher for GatheredUse {
    fn ended(&self, call: &ModelCall<'_>) {
        if call.counts() {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            usage::add(&mut uses, &self.node, &call.used());
        }
    }
}

/// Models for one piece of work, with tracking of what it uses.
pub(crate) struct WorkModels {
    models: WatchedModels,
    gathered: Arc<GatheredUse>,
    uses: Option<Arc<dyn UsageStore>>,
    owner: UsageOwner,
}

impl WorkModels {
    /// Wraps models for work on `owner`; without a store nothing is recorded.
    pub(crate) fn new(
        models: Arc<dyn ModelDirectory>,
        uses: Option<Arc<dyn UsageStore>>,
        owner: UsageOwner,
    ) -> Self {
        let gathered = Arc::new(GatheredUse { node: owner.node(), uses: Mutex::default() });
        let watcher = Arc::clone(&gathered) as Arc<dyn ModelWatcher>;
        Self { models: WatchedModels::new(models, watcher), gathered, uses, owner }
    }

    /// Returns the directory of the models.
    pub(crate) fn directory(&self) -> &dyn ModelDirectory {
        &self.models
    }

    /// Returns a reader of documents whose use of models for pictures and recordings is tracked, too.
    pub(crate) fn reader(&self, reader: &Arc<dyn DocumentReader>) -> Arc<dyn DocumentReader> {
        let watcher = Arc::clone(&self.gathered) as Arc<dyn ModelWatcher>;
        reader.watched(watcher).unwrap_or_else(|| Arc::clone(reader))
    }

    /// Records what was used since the last call. If that fails, the work is not affected.
    pub(crate) async fn note(&self, now_ms: i64) {
        let used = self.gathered.take();
        let Some(uses) = self.uses.as_ref().filter(|_| !used.is_empty()) else { return };
        // A store that hangs must not use up the lease of the work.
        let noted = tokio::time::timeout(NOTE_LIMIT, uses.note_usage(&self.owner, now_ms, &used)).await;
        let noted =
            noted.unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, "the store does not respond")));
        if let Err(error) = noted {
            let node = self.owner.node();
            tracing::warn!(%node, error = error.detail(), "the model usage outside of a run could not be recorded");
        }
    }
}
