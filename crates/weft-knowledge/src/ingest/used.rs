//! What work on a dataset uses of models. No run tells of it, so it is noted here for whoever pays.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weft_core::id::DatasetKey;
use weft_core::seam::{ModelDirectory, UsageStore};
use weft_core::usage::{self, ModelUse};
use weft_core::watched_models::{CallOutcome, ModelCall, ModelWatcher, WatchedModels};
use weft_core::{ComponentId, Error, ErrorKind};

use super::library::Library;

/// How long a note may take.
const NOTE_LIMIT: Duration = Duration::from_secs(5);

/// In place of a node: what was used for which dataset.
fn node_of(dataset: &DatasetKey) -> ComponentId {
    ComponentId::new(format!("dataset:{}", dataset.id))
}

/// Adds up the calls of some work, by model.
struct Gathered {
    node: ComponentId,
    uses: Mutex<Vec<ModelUse>>,
}

impl Gathered {
    fn take(&self) -> Vec<ModelUse> {
        std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ModelWatcher for Gathered {
    fn ended(&self, call: &ModelCall<'_>) {
        // As with runs: what failed is not paid for, as far as anybody knows.
        if call.outcome == CallOutcome::Succeeded {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            usage::add(&mut uses, &self.node, &call.used());
        }
    }
}

/// The models of a library for one piece of work on a dataset.
pub(super) struct WorkModels {
    models: WatchedModels,
    gathered: Arc<Gathered>,
    uses: Option<Arc<dyn UsageStore>>,
    dataset: DatasetKey,
}

impl Library {
    /// Its models, for work on a dataset that notes what it uses of them.
    pub(super) fn models_for(&self, dataset: &DatasetKey) -> WorkModels {
        let gathered = Arc::new(Gathered { node: node_of(dataset), uses: Mutex::default() });
        let watcher = Arc::clone(&gathered) as Arc<dyn ModelWatcher>;
        let models = WatchedModels::new(Arc::clone(&self.parts.models), watcher);
        WorkModels { models, gathered, uses: self.uses.clone(), dataset: dataset.clone() }
    }
}

impl WorkModels {
    /// Where they are found.
    pub(super) fn directory(&self) -> &dyn ModelDirectory {
        &self.models
    }

    /// Notes what was used since the last time. No work is lost because that could not be noted.
    pub(super) async fn note(&self, now_ms: i64) {
        let used = self.gathered.take();
        let Some(uses) = self.uses.as_ref().filter(|_| !used.is_empty()) else { return };
        // A store that hangs must not use up the lease of the work.
        let noted = tokio::time::timeout(NOTE_LIMIT, uses.note_usage(&self.dataset, now_ms, &used)).await;
        let noted =
            noted.unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, "the store does not answer")));
        if let Err(error) = noted {
            let id = &self.dataset.id;
            tracing::warn!(dataset.id = %id, error = error.detail(), "what a dataset has used of models could not be noted");
        }
    }
}
