//! What an app loads besides its store: models and plugins.

use weft_core::Result;
use weft_models::{Directory, ModelsConfig};
use weft_plugins::Plugins;

use super::models::Models;
use super::{StoragePlace, make_folder, plugins, put_together};
use crate::app::App;
use crate::config::Config;

/// Models and plugins.
pub(super) struct Loaded {
    pub(super) models: Models,
    pub(super) plugins: Plugins,
}

impl Loaded {
    /// Loads those of the settings.
    ///
    /// # Errors
    /// As [`Models::open`] and [`plugins`].
    pub(super) async fn of(config: &Config) -> Result<Self> {
        Ok(Self { models: Models::open(config)?, plugins: plugins(config).await? })
    }
}

/// Builds an app for what only needs the store, without models, MCP servers and plugins: whatever is wrong with these,
/// the store can be administered.
///
/// # Errors
/// As [`assemble`](super::assemble), except for these.
pub async fn assemble_store(config: &Config) -> Result<App> {
    let mut config = config.clone();
    (config.models, config.mcp) = (ModelsConfig::default(), weft_mcp::McpConfig::default());
    // Their processes may need a model to read pictures.
    config.documents.worker.clear();
    config.check()?;
    if config.store.url.is_empty() {
        make_folder(&config).await?;
    }
    let none = Directory::open(&config.models, &weft_net::operator_client()?)?;
    let loaded = Loaded { models: Models::new(none), plugins: Plugins::default() };
    put_together(&config, &config.store_url(), StoragePlace::Folders, loaded).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble;

    #[tokio::test]
    async fn the_store_opens_whatever_is_wrong_with_models_and_plugins() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[[models.entries]]\nname = \"m\"\nprovider = \"local\"\npath = \"/no/such/model\"\n\
                    [documents]\nocr = \"m\"";
        let mut config: Config = toml::from_str(text).unwrap();
        config.data = folder.path().to_owned();
        std::fs::create_dir(folder.path().join("plugins")).unwrap();
        std::fs::write(folder.path().join("plugins/wrong.json"), "{").unwrap();
        assemble(&config).await.unwrap_err();
        let app = assemble_store(&config).await.unwrap();
        assert_eq!(app.all_tenants().await.unwrap().len(), 1);
        app.shut_down(std::time::Duration::ZERO).await.unwrap();
    }
}
