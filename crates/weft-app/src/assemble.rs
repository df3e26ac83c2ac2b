//! Config → backends → app: the only place that names a backend.

mod accounts;
mod documents;
mod files;
mod loaded;
mod models;
mod names;
mod secrets;
mod tools;

use std::path::Path;
use std::sync::Arc;

use weft_browser::Chromium;
use weft_core::seam::browser::NoBrowser;
use weft_core::seam::sandbox::{Limits, NoSandbox};
use weft_core::seam::workspace::NoWorkspace;
use weft_core::seam::{
    BlobStore, Browser, Clock, Conversations, DocumentReader, FileStore, Http, Index, Knowledge, Memories,
    ModelDirectory, Sandbox, Seams, Secrets, ToolSource, Workspace,
};
use weft_core::{Error, Result, TenantId};
use weft_engine::Engine;
use weft_engine::clock::SystemClock;
use weft_engine::engine::{ProcessIdentity, Stores};
use weft_knowledge::additions::{Contents, Graph, MindMap};
use weft_knowledge::combined::CombinedKnowledge;
use weft_knowledge::datasets::Datasets;
use weft_knowledge::ingest::{Library, LibraryLimits, LibraryParts};
use weft_knowledge::local_documents::{LocalDocuments, LocalDocumentsParts};
use weft_knowledge::memories::ConversationMemories;
use weft_mcp::Servers;
use weft_models::Directory;
use weft_net::{AllowList, OperatorHttp, Outbound, SmtpMailer};
use weft_plugins::Plugins;
use weft_sandbox::{ProcessSandbox, RemoteSandbox, Worker};
#[cfg(target_os = "linux")]
use weft_sandbox::{SystemInterpreter, SystemPython, WithPython};
use weft_search::{MemoryChunkIndex, TantivyIndex};
use weft_sql::{DatabaseClients, OwnDatabase};
use weft_store::{FolderBlobs, FolderWorkspace, MemoryBlobs, Store};

pub use weft_mcp::{Surveyed, Verdict};
pub use weft_models::installed;
pub use weft_models::{Discovered, FoundKeys, ModelEntry, ModelsConfig, OneServer, Secret};
pub use weft_parse::work as document_work;
pub use weft_sandbox::work as sandbox_work;

pub use self::loaded::assemble_store;
pub use self::names::{StoredNames, stored_names};
pub use self::tools::ToolServers;

use self::documents::{FileWork, file_work};
use self::files::files;
use self::loaded::Loaded;
use self::models::{Models, meters};
use self::tools::tool_sources;
use crate::app::App;
use crate::config::{Config, STORE_FILE, SandboxConfig};
use crate::conversations::StoredConversations;
use crate::notifications::Notifications;
use crate::parts::{Close, ModelCheck, Parts, Probe};
use crate::tool_servers::TenantServers;

/// A store that only lives as long as the process.
const MEMORY: &str = "sqlite::memory:";

/// Builds the app from the configuration.
///
/// # Errors
/// `Invalid` naming the settings that are not valid, otherwise the failure of a backend.
pub async fn assemble(config: &Config) -> Result<App> {
    config.check()?;
    if config.store.url.is_empty() {
        make_folder(config).await?;
    }
    tell_of_namespaces(config).await;
    put_together(config, &config.store_url(), StoragePlace::Folders, Loaded::of(config).await?).await
}

/// The same with an in-memory store and no data folder.
///
/// # Errors
/// As [`assemble`].
pub async fn assemble_in_memory(config: &Config) -> Result<App> {
    config.check()?;
    put_together(config, MEMORY, StoragePlace::Memory, Loaded::of(config).await?).await
}

/// Discovers models to use when none are configured: those for `keys`, then those on this machine, then the built-in
/// one.
///
/// # Errors
/// `Internal` when TLS cannot be set up.
pub async fn discover_models(keys: &FoundKeys) -> Result<Discovered> {
    let local = weft_models::probe_local(&weft_net::operator_client()?).await;
    Ok(weft_models::discover(keys, local.as_ref()))
}

/// Copies the database in a file as of one moment, while other processes write to it.
pub(crate) async fn copy_database(source: &Path, into: &Path) -> Result<()> {
    let store = Store::open(&format!("sqlite:{}", source.display())).await?;
    // Closed even if the copy has failed.
    let copied = store.copy_into(into).await;
    store.close().await?;
    copied
}

async fn make_folder(config: &Config) -> Result<()> {
    let data = config.data.clone();
    // The store is addressed by a URL, which is text: a folder other than the created one would be opened.
    if data.to_str().is_none() {
        let message = format!("the data folder {} has a name that is not UTF-8", data.display());
        return Err(Error::invalid(message).help("name another one with --data or `data`"));
    }
    let made = tokio::task::spawn_blocking(move || weft_store::private::own_folder(&data, STORE_FILE)).await;
    made.unwrap_or_else(|cause| Err(std::io::Error::other(cause))).map_err(|cause| {
        let shown = config.data.display();
        let error = if cause.kind() == std::io::ErrorKind::AlreadyExists {
            Error::invalid(format!("the data folder {shown} is not a folder"))
        } else {
            Error::invalid(format!("cannot make the data folder {shown}")).because(cause)
        };
        error.help("name another one with --data or `data`")
    })
}

fn workspace(config: &Config) -> Arc<dyn Workspace> {
    match config.files_root() {
        Some(root) => {
            let (file, tenant) = (config.files.bytes_max, config.files.tenant_bytes_max);
            Arc::new(FolderWorkspace::within(root, file, tenant))
        }
        None => Arc::new(NoWorkspace),
    }
}

/// Loads the tools from the plugins folder. Components are queried for their description, in the sandbox.
///
/// # Errors
/// As [`Plugins::open`].
pub async fn plugins(config: &Config) -> Result<Plugins> {
    Plugins::open(config.plugins_folder(), &*sandbox(config)?).await
}

fn sandbox(config: &Config) -> Result<Arc<dyn Sandbox>> {
    let SandboxConfig { at_once, worker, confinement, remote, .. } = &config.sandbox;
    Ok(match (worker.split_first(), config.sandbox.limits()) {
        // A remote service replaces this machine, even if a worker is configured.
        (_, Some(limits)) if *at_once > 0 && !remote.trim().is_empty() => {
            Arc::new(RemoteSandbox::new(Arc::new(OperatorHttp::new()?), remote.trim(), limits, *at_once)?)
        }
        (Some((program, arguments)), Some(limits)) if *at_once > 0 => {
            let arguments = arguments.iter().map(Into::into).collect();
            let worker = Worker { program: program.into(), arguments };
            let sandbox =
                ProcessSandbox::new(worker.clone(), limits, *at_once).with_confinement(*confinement);
            let sandbox = sandbox.with_python(config.python_folder());
            let sandbox = Arc::new(sandbox.with_components(config.components_folder()));
            if config.sandbox.python.as_os_str().is_empty() {
                sandbox
            } else {
                with_system_python(sandbox, worker, limits, *at_once, config)?
            }
        }
        _ => Arc::new(NoSandbox),
    })
}

/// The same with the operator's own Python interpreter.
#[cfg(target_os = "linux")]
fn with_system_python(
    rest: Arc<dyn Sandbox>,
    worker: Worker,
    limits: Limits,
    at_once: usize,
    config: &Config,
) -> Result<Arc<dyn Sandbox>> {
    let python = system_python(worker, limits, at_once, config);
    Ok(Arc::new(WithPython { python: Arc::new(python), rest }))
}

#[cfg(target_os = "linux")]
fn system_python(worker: Worker, limits: Limits, at_once: usize, config: &Config) -> SystemPython {
    let SandboxConfig { python, python_modules, confinement, .. } = &config.sandbox;
    let interpreter = SystemInterpreter { program: python.clone(), modules: python_modules.clone() };
    SystemPython::new(worker, interpreter, limits, at_once).with_confinement(*confinement)
}

/// Logs once at the start which parts of the confinement of the system's Python are not available.
async fn tell_of_namespaces(config: &Config) {
    let SandboxConfig { python, at_once, remote, .. } = &config.sandbox;
    if python.as_os_str().is_empty() || *at_once == 0 || !remote.trim().is_empty() {
        return;
    }
    #[cfg(target_os = "linux")]
    if let (Some((program, _)), Some(limits)) = (config.sandbox.worker.split_first(), config.sandbox.limits())
    {
        let worker = Worker { program: program.into(), arguments: Vec::new() };
        if let Some(reason) = system_python(worker, limits, *at_once, config).lacks_namespaces().await {
            tracing::warn!(
                reason,
                "programs in the system's Python have no namespaces of their own; Landlock and seccomp keep them apart"
            );
        }
    }
}

// Landlock and seccomp, which confine the interpreter, exist only on Linux.
#[cfg(not(target_os = "linux"))]
fn with_system_python(
    _: Arc<dyn Sandbox>,
    _: Worker,
    _: Limits,
    _: usize,
    _: &Config,
) -> Result<Arc<dyn Sandbox>> {
    Err(Error::new(weft_core::ErrorKind::Unsupported, "`sandbox.python` works only on Linux")
        .help("leave it empty"))
}

/// Where an app stores what is not in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoragePlace {
    /// In folders.
    Folders,
    /// In memory; lost with the app.
    Memory,
}

/// The common inputs for all parts of an app.
struct Ground<'a> {
    config: &'a Config,
    place: StoragePlace,
    store: &'a Store,
    clock: &'a Arc<dyn Clock>,
}

/// Creates the parts for changing and searching datasets.
fn datasets(
    ground: &Ground<'_>,
    blobs: Arc<dyn BlobStore>,
    models: &Models,
) -> Result<(Arc<Library>, Datasets)> {
    let &Ground { config, place, store, clock } = ground;
    let index: Arc<dyn Index> = match place {
        StoragePlace::Folders => Arc::new(TantivyIndex::in_folder(config.index_folder()?)),
        StoragePlace::Memory => Arc::new(TantivyIndex::in_memory()),
    };
    // With separate processes, so that answers do not wait for the ingestion of files.
    let reader = file_work(config, models)?.reader;
    let models = Arc::clone(&models.counted);
    let asked = Datasets::new(store.datasets(), Arc::clone(&index), Arc::clone(&models));
    let parts = LibraryParts {
        store: store.datasets(),
        queue: store.ingest(),
        blobs,
        index,
        reader,
        models,
        clock: Arc::clone(clock),
        additions: vec![Arc::new(Contents), Arc::new(Graph), Arc::new(MindMap)],
    };
    let limits = LibraryLimits {
        file_bytes_max: config.documents.file_bytes_max as u64,
        tenant_bytes_max: config.limits.tenant_document_bytes,
    };
    Ok((Arc::new(Library::new(parts, limits).noting_usage(store.model_uses())), asked))
}

/// Creates the blob store.
fn blobs(config: &Config, place: StoragePlace) -> Result<Arc<dyn BlobStore>> {
    Ok(match place {
        StoragePlace::Folders => Arc::new(FolderBlobs::new(config.blobs_folder()?)),
        StoragePlace::Memory => Arc::new(MemoryBlobs::default()),
    })
}

/// Creates the client for external databases, which excludes the database of this program itself.
fn databases(config: &Config, store_url: &str, outbound: &Arc<Outbound>) -> DatabaseClients {
    let root = config.files_root();
    let folder = move |tenant: &TenantId| root.as_deref().map(|root| weft_store::tenant_folder(root, tenant));
    DatabaseClients::new(Arc::clone(outbound), Arc::new(folder), OwnDatabase::of_url(store_url))
}

/// Creates the index for documents next to canvases, for this process only.
fn beside(
    store: &Store,
    models: &Models,
    clock: &Arc<dyn Clock>,
    reader: Arc<dyn DocumentReader>,
) -> LocalDocuments {
    LocalDocuments::new(LocalDocumentsParts {
        store: store.datasets(),
        index: Arc::new(MemoryChunkIndex::new()),
        reader,
        models: Arc::clone(&models.counted),
        clock: Arc::clone(clock),
    })
}

/// Parts for components that are shared with others.
struct Given {
    models: Arc<dyn ModelDirectory>,
    knowledge: Arc<dyn Knowledge>,
    memories: Arc<dyn Memories>,
    conversations: Arc<dyn Conversations>,
    tools: Arc<dyn ToolSource>,
    files: Arc<dyn FileStore>,
    secrets: Arc<dyn Secrets>,
    file_work: FileWork,
    clock: Arc<dyn Clock>,
}

/// Creates the web browsers.
fn browser(config: &Config, outbound: &Arc<Outbound>) -> Arc<dyn Browser> {
    match config.browser.settings(&config.data) {
        Some(settings) => Arc::new(Chromium::new(settings, Arc::clone(outbound))),
        None => Arc::new(NoBrowser),
    }
}

/// Creates the seams of components.
fn seams(config: &Config, store_url: &str, outbound: Arc<Outbound>, given: Given) -> Result<Seams> {
    let Given { models, knowledge, memories, conversations, tools, files, secrets, file_work, clock } = given;
    Ok(Seams {
        models,
        http: Arc::clone(&outbound) as Arc<dyn Http>,
        knowledge,
        memories,
        conversations,
        tools,
        workspace: workspace(config),
        sandbox: sandbox(config)?,
        files,
        reader: file_work.reader,
        documents: file_work.writer,
        databases: Arc::new(databases(config, store_url, &outbound)),
        browser: browser(config, &outbound),
        mailer: Arc::new(SmtpMailer::new(outbound)),
        secrets,
        clock,
    })
}

/// Combines searches in datasets and in documents next to a canvas.
fn knowledge(beside: &LocalDocuments, datasets: Datasets) -> Arc<dyn Knowledge> {
    Arc::new(CombinedKnowledge::new(Arc::new(beside.datasets()), Arc::new(datasets)))
}

/// Opens the store with its limits.
async fn opened(config: &Config, store_url: &str) -> Result<Store> {
    // Boxed: the drivers of database servers nest so deeply that the compiler gives up on commands around this.
    let store = Box::pin(Store::open(store_url)).await?;
    Ok(store
        .with_quotas(config.limits.tenant_quotas())
        .with_versions_kept(config.retention.versions_per_canvas))
}

async fn put_together(config: &Config, store_url: &str, place: StoragePlace, loaded: Loaded) -> Result<App> {
    let Loaded { models, plugins } = loaded;
    let store = opened(config, store_url).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let outbound = Arc::new(Outbound::open(AllowList::parse(&config.net.allow)?));
    let ground = Ground { config, place, store: &store, clock: &clock };
    let (servers, tool_servers) = tool_sources(&ground, &plugins, Arc::clone(&outbound))?;
    let blobs = blobs(config, place)?;
    let (library, datasets) = datasets(&ground, Arc::clone(&blobs), &models)?;
    let (files, file_manager) = files(config, &store, Arc::clone(&blobs), &clock);
    let passing = Store::open(MEMORY).await?;
    let file_work = file_work(config, &models)?;
    let beside = beside(&passing, &models, &clock, Arc::clone(&file_work.reader));
    let reader = Arc::clone(&file_work.reader);
    let knowledge = knowledge(&beside, datasets);
    let memories = memories(&store, &models, &clock);
    let secrets = secrets::secrets(config, &store, place)?;
    let given = Given {
        models: Arc::clone(&models.counted),
        knowledge: Arc::clone(&knowledge),
        memories: Arc::new(memories.clone()),
        conversations: Arc::new(StoredConversations(store.sessions())),
        tools: Arc::new(tool_servers.clone()),
        files: Arc::clone(&files),
        secrets: Arc::clone(&secrets),
        file_work,
        clock: Arc::clone(&clock),
    };
    let seams = Arc::new(seams(config, store_url, outbound, given)?);
    let parts = Parts {
        notifications: notifications(config, &store, &seams),
        databases: Arc::clone(&seams.databases),
        sandbox: Arc::clone(&seams.sandbox),
        engine: engine(config, seams, &store),
        canvases: store.canvases(),
        versions: store.versions(),
        chats: store.chats(),
        sessions: store.sessions(),
        runs: store.runs(),
        spending: store.spending(),
        uses: store.model_uses(),
        tasks: store.tasks(),
        tokens: store.tokens(),
        accounts: accounts::accounts(config, &store)?.with_erasure(accounts::erasure(config, blobs)),
        secrets,
        queue: store.work(),
        schedules: store.schedules(),
        library,
        readings: store.readings(),
        reembeddings: store.reembeddings(),
        knowledge,
        memories,
        beside,
        files,
        file_bytes_max: config.attachments.file_bytes_max,
        file_manager,
        reader,
        meters: meters(&store, &models),
        model_check: model_check(&models.plain),
        models: models.counted,
        catalog: Arc::new(weft_components::catalog()),
        tool_servers: tool_servers.clone(),
        plugins,
        clock,
        probe: probe(&store),
        close: close(servers, tool_servers, store, passing),
    };
    Ok(App::new(parts, config.limits.clone()))
}

/// Creates the sender of notifications, which uses the same network clients as runs.
fn notifications(config: &Config, store: &Store, seams: &Seams) -> Notifications {
    let (http, mailer) = (Arc::clone(&seams.http), Arc::clone(&seams.mailer));
    Notifications::new(store.outbox(), config.notifications.clone(), http, mailer)
}

/// Creates the engine, with the limits of the settings.
fn engine(config: &Config, seams: Arc<Seams>, store: &Store) -> Engine {
    let runs = store.runs();
    #[cfg(feature = "fault-points")]
    let runs = crate::fault_points::on_the_way_to(runs);
    let (sessions, spending) = (store.sessions(), store.spending());
    let (processes, messages) = (store.processes(), store.messages());
    let stores = Stores { runs, sessions, spending, processes, messages };
    let limits = &config.limits;
    Engine::as_process(seams, Some(stores), limits.engine(), limits.allowances(), this_process())
}

fn model_check(models: &Arc<Directory>) -> Arc<ModelCheck> {
    let models = Arc::clone(models);
    Arc::new(move |_: &TenantId, llm_id: &str| {
        models.resolve_with_notice(llm_id).map(|(_, notice)| notice).map_err(|error| error.full())
    })
}

/// Returns the identity of this process for other processes.
fn this_process() -> ProcessIdentity {
    ProcessIdentity {
        place: weft_child::place::here().cloned(),
        is_gone: weft_child::place::is_gone,
        ..ProcessIdentity::nameless()
    }
}

/// Creates the memories of agents.
fn memories(store: &Store, models: &Models, clock: &Arc<dyn Clock>) -> ConversationMemories {
    let memories =
        ConversationMemories::new(store.memories(), Arc::clone(&models.counted), Arc::clone(clock), || {
            Arc::new(MemoryChunkIndex::new())
        });
    memories.noting_usage(store.model_uses())
}

/// Returns the function that closes all resources.
fn close(servers: Servers, of_tenants: TenantServers, store: Store, passing: Store) -> Arc<Close> {
    Arc::new(move || {
        let (servers, of_tenants) = (servers.clone(), of_tenants.clone());
        let (store, passing) = (store.clone(), passing.clone());
        Box::pin(async move {
            of_tenants.close().await;
            servers.close().await;
            passing.close().await?;
            store.close().await
        })
    })
}

/// Returns the function that checks whether the store can be written.
fn probe(store: &Store) -> Arc<Probe> {
    let store = store.clone();
    Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { store.probe().await })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use weft_core::ErrorKind;
    use weft_core::counts::Backlog;
    use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest};
    use weft_core::seam::sandbox::{Language, Program};

    #[tokio::test]
    async fn model_calls_are_counted() {
        let text = "[[models.entries]]\nname = \"plain\"\nprovider = \"extractive\"";
        let app = assemble_in_memory(&toml::from_str(text).unwrap()).await.unwrap();
        let model = app.models.resolve(&TenantId::new("t"), "plain").unwrap();
        let messages = vec![ChatMessage::new(Author::User, "What?")];
        if let Ok(answer) = model.chat(ChatRequest { messages, ..ChatRequest::default() }).await {
            answer.collect::<Vec<_>>().await;
        }
        let counted: u64 = app.meters.models.calls.all().map(|(_, _, count)| count).sum();
        assert_eq!(counted, 1);
        assert_eq!((app.meters.backlog)().await.unwrap(), Backlog::default());
    }

    #[tokio::test]
    async fn programs_run_in_the_configured_worker_or_are_refused() {
        let mut config = Config::default();
        let mut check = async |worker: &str, at_once: usize, kind: ErrorKind| {
            config.sandbox.worker = worker.split_whitespace().map(str::to_owned).collect();
            config.sandbox.at_once = at_once;
            let sandbox = sandbox(&config).unwrap();
            let (arguments, limits) = (serde_json::Map::new(), sandbox.limits());
            let source = "function main() {}".to_owned();
            let program = Program { language: Language::JavaScript, source, arguments, limits };
            assert_eq!(sandbox.run(&TenantId::new("t"), program).await.unwrap_err().kind, kind, "{worker}");
        };
        check("", 4, ErrorKind::Denied).await;
        check("/no/such/worker", 0, ErrorKind::Denied).await;
        check("/no/such/worker now", 4, ErrorKind::Unavailable).await;
    }

    #[tokio::test]
    async fn a_disabled_browser_and_a_missing_one_give_different_errors() {
        let outbound = Arc::new(Outbound::open(AllowList::none()));
        let mut config = Config::default();
        config.browser.program = "/no/such/browser".into();
        for (at_once, setting) in [(0, "`browser.at_once`"), (1, "`browser.program`")] {
            config.browser.at_once = at_once;
            let opened = browser(&config, &outbound).open(&TenantId::new("t"), None).await;
            let refused = opened.err().unwrap();
            assert_eq!(refused.kind, ErrorKind::Unsupported);
            assert!(refused.full().contains(setting), "{}", refused.full());
        }
    }
}
