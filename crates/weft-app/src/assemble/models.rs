//! Models, and what is counted of them and of the store.

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
    /// As they are.
    pub(super) plain: Arc<Directory>,
    /// The same, whose calls are counted: everything that asks models asks these.
    pub(super) counted: Arc<dyn ModelDirectory>,
    counts: Arc<ModelCounts>,
}

impl Models {
    /// Those that are configured, and those that lie in the data folder.
    ///
    /// # Errors
    /// As [`Directory::open`], and `Invalid` when speech is to be written down by a program that is not there.
    pub(super) fn open(config: &Config) -> Result<Self> {
        let models = config.models.clone().with_installed(&config.data.join("models"));
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

    /// Hears of their calls.
    pub(super) fn watcher(&self) -> Arc<dyn ModelWatcher> {
        Arc::clone(&self.counts) as Arc<dyn ModelWatcher>
    }
}

/// What is counted of an app with this store and these models.
pub(super) fn meters(store: &Store, models: &Models) -> Meters {
    let store = store.clone();
    let backlog: Arc<CountBacklog> = Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { store.backlog().await })
    });
    Meters { models: Arc::clone(&models.counts), store_failures: weft_store::failures(), backlog }
}
