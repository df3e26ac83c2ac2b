//! Assembly of models, and metrics of models and of the store.

use std::sync::Arc;

use weft_core::Result;
use weft_core::seam::ModelDirectory;
use weft_core::watched_models::{ModelWatcher, WatchedModels};
use weft_models::Directory;
use weft_store::Store;

use super::documents::transcription_program;
use crate::config::Config;
use crate::metrics::{CountBacklog, Meters, ModelCounts};

/// The models of the settings.
pub(super) struct Models {
    /// The models themselves.
    pub(super) plain: Arc<Directory>,
    /// The same with counted calls: everything that calls models uses these.
    pub(super) counted: Arc<dyn ModelDirectory>,
    counts: Arc<ModelCounts>,
}

impl Models {
    /// Opens the configured models, and those in the data folder.
    ///
    /// # Errors
    /// As [`Directory::open`], and `Invalid` when the program that transcribes speech does not exist.
    pub(super) fn open(config: &Config) -> Result<Self> {
        let models = config.models.clone().with_installed(&config.models_folder());
        let directory = Directory::open(&models, &weft_net::operator_client()?)?;
        Ok(Self::new(match transcription_program(config)? {
            Some(program) => directory.with_transcription(program),
            None => directory,
        }))
    }

    pub(super) fn new(plain: Directory) -> Self {
        let (plain, counts) = (Arc::new(plain), Arc::<ModelCounts>::default());
        let all = Arc::clone(&plain) as Arc<dyn ModelDirectory>;
        let counted = Arc::new(WatchedModels::new(all, Arc::clone(&counts) as Arc<dyn ModelWatcher>));
        Self { plain, counted, counts }
    }

    /// Returns the observer of their calls.
    pub(super) fn watcher(&self) -> Arc<dyn ModelWatcher> {
        Arc::clone(&self.counts) as Arc<dyn ModelWatcher>
    }
}

/// Returns the metrics of an app with this store and these models.
pub(super) fn meters(store: &Store, models: &Models) -> Meters {
    let store = store.clone();
    let backlog: Arc<CountBacklog> = Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { store.backlog().await })
    });
    Meters { models: Arc::clone(&models.counts), store_failures: weft_store::failures(), backlog }
}
