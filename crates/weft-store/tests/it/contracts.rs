//! The contract suites of the stores, against every database of this build.

use weft_core::counts::Backlog;
use weft_core::id::{CanvasId, RunKey, TenantId, generate};
use weft_core::seam::chat_model::Usage;
use weft_core::seam::usage_store::UsageFilter;
use weft_core::seam::work_queue::Work;
use weft_core::usage::{ModelUse, UsageOwner};
use weft_store::Store;
use weft_testkit::contracts::{
    accounts, audit, chats, credentials, datasets, files, folders, identities, memories, secrets, store,
    tool_servers,
};

async fn keeps_all_contracts(opened: &Store) {
    store::canvas_store_keeps_its_contract(opened).await;
    store::version_store_keeps_its_contract(opened, opened).await;
    store::session_store_keeps_its_contract(opened).await;
    store::task_store_keeps_its_contract(opened, opened).await;
    store::run_store_keeps_its_contract(opened).await;
    let (runs, sessions, tasks, spending) = (opened, opened, opened, opened);
    store::stores_are_fenced(store::FencedStores { runs, sessions, tasks, spending }).await;
    store::process_store_keeps_its_contract(opened, opened).await;
    store::run_messages_keep_their_contract(opened, opened).await;
    store::spending_store_keeps_its_contract(opened, opened).await;
    store::usage_store_keeps_its_contract(opened, opened, opened, opened, opened).await;
    store::token_store_keeps_its_contract(opened).await;
    let (users, tenants, tokens) = (opened, opened, opened);
    accounts::account_stores_keep_their_contract(accounts::ContractStores { users, tenants, tokens }).await;
    identities::identity_store_keeps_its_contract(opened, opened).await;
    accounts::share_store_keeps_its_contract(opened).await;
    audit::audit_store_keeps_its_contract(opened).await;
    store::pin_store_keeps_its_contract(opened).await;
    store::work_queue_keeps_its_contract(opened).await;
    store::notice_store_keeps_its_contract(opened, opened).await;
    store::schedule_store_keeps_its_contract(opened).await;
    datasets::dataset_store_keeps_its_contract(opened).await;
    datasets::ingest_queue_keeps_its_contract(opened, opened).await;
    datasets::reading_log_keeps_its_contract(opened, opened, opened).await;
    datasets::reembedding_store_keeps_its_contract(opened, opened, opened).await;
    files_keep_their_contract(opened).await;
    let tree = weft_store::Folders::new(opened, folders::LIMITS);
    folders::folder_store_keeps_its_contract(&tree).await;
    let vault = weft_store::Vault::new(opened.clone(), weft_store::KeyPlace::Process);
    secrets::secrets_keep_their_contract(&vault).await;
    let servers = weft_store::SealedToolServers(vault);
    tool_servers::tool_servers_keep_their_contract(&servers).await;
    let vault = weft_store::Vault::new(opened.clone(), weft_store::KeyPlace::Process);
    credentials::credentials_keep_their_contract(&weft_store::SealedCredentials(vault)).await;
    chats::chat_store_keeps_its_contract(opened).await;
    memories::memory_store_keeps_its_contract(opened).await;
    store::stores_remove_related_data_together(opened, opened, opened, opened, opened).await;
    store::stores_keep_large_values(opened, opened).await;
    crate::quotas::tenants_stay_within_their_limits(opened).await;
    crate::versions::old_versions_are_removed(opened).await;
}

async fn files_keep_their_contract(opened: &Store) {
    let limits = weft_store::FileLimits {
        file_bytes_max: files::FILE_BYTES_MAX,
        tenant_bytes_max: files::TENANT_BYTES_MAX,
    };
    let blobs = std::sync::Arc::new(weft_store::MemoryBlobs::default());
    files::file_store_keeps_its_contract(&weft_store::Files::new(opened, blobs, limits)).await;
}

#[tokio::test]
async fn files_in_memory() {
    let kept = weft_testkit::MemoryFiles::within(files::FILE_BYTES_MAX, files::TENANT_BYTES_MAX);
    files::file_store_keeps_its_contract(&kept).await;
}

#[tokio::test]
async fn blobs_in_memory() {
    datasets::blob_store_keeps_its_contract(&weft_store::MemoryBlobs::default()).await;
}

/// Removal starts over until nothing was added in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_removed_while_another_task_still_writes_to_it() {
    use weft_core::seam::BlobStore as _;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("blobs");
    let blobs = weft_store::FolderBlobs::new(&root);
    let ours = weft_core::TenantId::from("ours");
    for number in 0..200 {
        blobs.put(&ours, &format!("documents/{number}"), "text".into()).await.unwrap();
    }
    let writing = tokio::task::spawn_blocking(move || {
        let until = std::time::Instant::now() + std::time::Duration::from_millis(200);
        for number in 0_u64.. {
            if std::time::Instant::now() > until {
                break;
            }
            // The folder may not exist at this moment.
            let _ = std::fs::create_dir_all(root.join("ours/documents"));
            let _ = std::fs::write(root.join(format!("ours/documents/new{number}")), "text");
        }
    });
    blobs.remove_all(&ours).await.unwrap();
    writing.await.unwrap();
    blobs.remove_all(&ours).await.unwrap();
    assert!(!folder.path().join("blobs/ours").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_of_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = weft_store::FolderBlobs::new(folder.path().join("blobs"));
    datasets::blob_store_keeps_its_contract(&blobs).await;
    // After a write has returned, the folder holds that file for the next process, and nothing else.
    let ours = weft_core::TenantId::from("ours");
    weft_core::seam::BlobStore::put(&blobs, &ours, "documents/x", "text".into()).await.unwrap();
    let files = std::fs::read_dir(folder.path().join("blobs/ours/documents")).unwrap();
    assert_eq!(files.map(|file| file.unwrap().file_name()).collect::<Vec<_>>(), ["x"]);
}

#[tokio::test]
async fn sqlite_in_memory() {
    let opened = Store::open("sqlite::memory:").await.unwrap();
    keeps_all_contracts(&opened).await;
    opened.close().await.unwrap();
}

/// Counts the backlog of all tenants together, and only what nobody has taken.
#[tokio::test]
async fn the_backlog_is_counted() {
    let opened = Store::open("sqlite::memory:").await.unwrap();
    assert_eq!(opened.backlog().await.unwrap(), Backlog::default());
    for tenant in ["one", "two"] {
        let run = RunKey::new(&TenantId::from(tenant), generate());
        let (session, source, due_ms) = (None, String::new(), 5);
        let work =
            Work { run, canvas: CanvasId::from("c"), session, input: Default::default(), source, due_ms };
        assert_eq!(opened.work().push_within(&[work], 1, 1).await.unwrap(), 0);
    }
    let dataset = datasets::dataset(&TenantId::from("one"), "waiting");
    opened.datasets().create(&dataset).await.unwrap();
    let document = datasets::document(&dataset.key, "a.txt");
    opened.datasets().add_document(&document).await.unwrap();
    opened.ingest().queue(&dataset.key, std::slice::from_ref(&document.key.id), 1).await.unwrap();
    opened.reembeddings().begin(&dataset.key, "other@Test", 1).await.unwrap();
    let all = Backlog { queued_runs: 2, documents: 1, reembeddings: 1, tasks: 0 };
    assert_eq!(opened.backlog().await.unwrap(), all);
    assert_eq!(opened.ingest().take(2, 9, 1).await.unwrap().len(), 1);
    assert_eq!(opened.work().take(5, 9, 1).await.unwrap().len(), 1);
    let left = Backlog { queued_runs: 1, documents: 0, ..all };
    assert_eq!(opened.backlog().await.unwrap(), left);
    opened.close().await.unwrap();
}

/// Nothing of a removed tenant reappears while its documents are still being read.
#[tokio::test]
async fn usage_of_a_removed_dataset_is_not_recorded() {
    let opened = Store::open("sqlite::memory:").await.unwrap();
    let tenant = TenantId::from("one");
    let dataset = datasets::dataset(&tenant, "gone");
    let usage = Usage { calls: 1, ..Usage::default() };
    let uses = [ModelUse { node: "dataset:d".into(), model: "m".into(), usage, micros: 0 }];
    let owner = UsageOwner::Dataset(dataset.key.clone());
    let noted = async || {
        opened.model_uses().note_usage(&owner, 5, &uses).await.unwrap();
        let filter = UsageFilter { limit: 9, ..UsageFilter::default() };
        let lines = opened.model_uses().usage(&tenant, &filter).await.unwrap();
        lines.iter().map(|line| line.usage.calls).sum::<u64>()
    };
    assert_eq!(noted().await, 0);
    opened.datasets().create(&dataset).await.unwrap();
    assert_eq!(noted().await, 1);
    opened.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("weft.db").display());
    let opened = Store::open(&url).await.unwrap();
    keeps_all_contracts(&opened).await;
    opened.close().await.unwrap();
    // Existing tables are used as they are.
    let again = Store::open(&url).await.unwrap();
    keeps_all_contracts(&again).await;
    again.close().await.unwrap();
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn postgres() {
    for user in ["root", "postgres"] {
        let server = format!("postgres://{user}@127.0.0.1:5432");
        if servers::with_fresh_database(&server, "test", keeps_all_contracts).await {
            return;
        }
    }
    weft_testkit::skipped("no PostgreSQL answers at 127.0.0.1:5432");
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread")]
async fn mariadb() {
    if !servers::with_fresh_database("mysql://root@127.0.0.1:3306", "test", keeps_all_contracts).await {
        weft_testkit::skipped("no MariaDB answers at 127.0.0.1:3306");
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod servers {
    use std::panic::AssertUnwindSafe;
    use std::time::Duration;

    use futures::FutureExt;
    use futures::future::join_all;
    use sea_orm::{ConnectOptions, ConnectionTrait, Database};
    use weft_store::Store;

    /// Runs a check in a database of its own, which is always removed afterwards. Returns `false` when the server
    /// does not answer.
    pub(super) async fn with_fresh_database(
        server: &str,
        existing: &str,
        check: impl AsyncFn(&Store),
    ) -> bool {
        let mut options = ConnectOptions::new(format!("{server}/{existing}"));
        options.acquire_timeout(Duration::from_secs(3)).max_connections(1);
        let Ok(admin) = Database::connect(options).await else { return false };
        let name = format!("weft_{}", weft_core::id::generate());
        admin.execute_unprepared(&format!("CREATE DATABASE {name}")).await.unwrap();
        let checked = AssertUnwindSafe(async {
            let url = format!("{server}/{name}");
            // Several processes may start at once; one of them creates the tables.
            let mut opened: Vec<_> = join_all((0..3).map(|_| Store::open(&url)))
                .await
                .into_iter()
                .map(|store| store.map_err(|error| error.full()).unwrap())
                .collect();
            let store = opened.pop().unwrap();
            check(&store).await;
            for store in opened.iter().chain([&store]) {
                store.close().await.unwrap();
            }
        });
        let outcome = checked.catch_unwind().await;
        admin.execute_unprepared(&format!("DROP DATABASE {name}")).await.unwrap();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
        true
    }
}
