//! Config → backends → app: the only place that names a backend.

use std::sync::Arc;

use weft_core::seam::{Clock, ModelDirectory, Seams, SearchIndex};
use weft_core::{Error, Result, TenantId};
use weft_engine::Engine;
use weft_engine::clock::SystemClock;
use weft_engine::engine::Stores;
use weft_models::Directory;
use weft_net::{AllowList, Outbound};
use weft_search::MemoryIndex;
use weft_store::Store;

pub use weft_models::{Discovered, FoundKeys, ModelsConfig, OneServer, Secret};
pub use weft_search::{Document, load_folder};

use crate::app::{App, Parts};
use crate::config::Config;

/// Sets everything up as the configuration says.
///
/// # Errors
/// `Invalid` naming the settings that make no sense, otherwise what keeps a backend from being used.
pub async fn assemble(config: &Config) -> Result<App> {
    config.check()?;
    if config.store.url.is_empty() {
        make_folder(config).await?;
    }
    put_together(config, &config.store_url()).await
}

/// The same with a store that ends with the process and no data folder.
///
/// # Errors
/// As [`assemble`].
pub async fn assemble_in_memory(config: &Config) -> Result<App> {
    config.check()?;
    put_together(config, "sqlite::memory:").await
}

/// Which models to use when none are configured: what `keys` open, then what runs on this machine,
/// then the built-in answerer.
///
/// # Errors
/// `Internal` when TLS cannot be set up.
pub async fn discover_models(keys: &FoundKeys) -> Result<Discovered> {
    let local = weft_models::probe_local(&weft_net::operator_client()?).await;
    Ok(weft_models::discover(keys, local.as_ref()))
}

async fn make_folder(config: &Config) -> Result<()> {
    tokio::fs::create_dir_all(&config.data).await.map_err(|cause| {
        Error::invalid(format!("cannot make the data folder {}", config.data.display()))
            .because(cause)
            .help("name another one with --data or `data`")
    })
}

async fn put_together(config: &Config, store_url: &str) -> Result<App> {
    let models = Arc::new(Directory::open(&config.models, &weft_net::operator_client()?)?);
    let store = Store::open(store_url).await?;
    let search: Arc<dyn SearchIndex> = Arc::new(MemoryIndex::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let seams = Arc::new(Seams {
        models: Arc::clone(&models) as Arc<dyn ModelDirectory>,
        http: Arc::new(Outbound::open(AllowList::parse(&config.net.allow)?)),
        search: Arc::clone(&search),
        clock: Arc::clone(&clock),
    });
    let stores = Stores { runs: store.runs(), sessions: store.sessions() };
    let checked = Arc::clone(&models);
    let parts = Parts {
        engine: Engine::new(seams, Some(stores), config.limits.engine()),
        canvases: store.canvases(),
        sessions: store.sessions(),
        runs: store.runs(),
        tokens: store.tokens(),
        search,
        models,
        model_check: Arc::new(move |_: &TenantId, llm_id: &str| {
            checked.resolve_with_notice(llm_id).map(|(_, notice)| notice).map_err(|error| error.full())
        }),
        catalog: Arc::new(weft_components::catalog()),
        clock,
        close: Arc::new(move || {
            let store = store.clone();
            Box::pin(async move { store.close().await })
        }),
    };
    Ok(App::new(parts, config.limits.clone()))
}
