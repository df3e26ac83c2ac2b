//! Models, and what is counted of them and of the store.

use std::sync::Arc;

use weft_core::seam::ModelDirectory;
use weft_core::watched_models::{ModelWatcher, WatchedModels};
use weft_models::Directory;
use weft_store::Store;

use crate::metrics::{CountBacklog, Meters};

/// The models of the settings.
pub(super) struct Models {
    /// As they are.
    pub(super) plain: Arc<Directory>,
    /// The same, whose calls are counted: everything that asks models asks these.
    pub(super) counted: Arc<dyn ModelDirectory>,
    /// Hears of their calls.
    pub(super) watcher: Arc<dyn ModelWatcher>,
}

impl Models {
    pub(super) fn new(plain: Directory, meters: &Meters) -> Self {
        let plain = Arc::new(plain);
        let watcher = Arc::clone(&meters.models) as Arc<dyn ModelWatcher>;
        let all = Arc::clone(&plain) as Arc<dyn ModelDirectory>;
        let counted = Arc::new(WatchedModels::new(all, Arc::clone(&watcher)));
        Self { plain, counted, watcher }
    }
}

/// What is counted of an app with this store.
pub(super) fn meters(store: &Store) -> Meters {
    let store = store.clone();
    let backlog: Arc<CountBacklog> = Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { store.backlog().await })
    });
    Meters { models: Arc::default(), store_failures: weft_store::failures(), backlog }
}
