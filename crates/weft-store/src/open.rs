//! Opens the store.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sea_orm::{
    ConnectOptions, ConnectionTrait as _, Database, DatabaseConnection, DbBackend, DbErr, Statement,
    TransactionTrait,
};
use weft_core::quota::TenantQuotas;
use weft_core::seam::run_store::{RunLease, overtaken};
use weft_core::seam::tool_source::PinStore;
use weft_core::seam::{
    AuditStore, CanvasStore, ChatStore, Clock, DatasetStore, IdentityStore, IngestQueue, MemoryStore,
    NoticeStore, ProcessStore, ReadingLog, ReembeddingStore, RunMessages, RunStore, ScheduleStore,
    SessionStore, ShareStore, SpendingStore, TaskStore, TenantStore, TokenStore, UsageStore, UserStore,
    VersionStore, WorkQueue,
};
use weft_core::{Error, ErrorKind, Result};

use crate::attempts::run_batch;
use crate::batch::{Batch, BatchOutcome};
use crate::failure::failure;
use crate::journal::JournalQueue;
use crate::migration;
use crate::opened_file::OpenedFile;
use crate::place::StorePlace;
use crate::private;
use crate::quotas::Quotas;
use crate::reader::StoreReader;
use crate::session_dictionary::SessionDictionaries;
use crate::sqlite::{self, Connections};
use crate::write_gate::{WriteGate, WriteTransaction};

pub(crate) use crate::attempts::{repeated, write_options};

/// Maximum number of connections to a database server.
// PostgreSQL accepts a hundred by default, and several processes may share a server.
const SERVER_CONNECTIONS_MAX: u32 = 16;

/// How long a caller waits for a connection to a database server.
const SERVER_ACQUIRE_MAX: Duration = Duration::from_secs(5);

/// Canvases, sessions, runs, tasks, tokens and accepted tools in one database. Clones are handles to the same store.
///
/// It implements [`CanvasStore`], [`SessionStore`], [`RunStore`], [`ProcessStore`], [`SpendingStore`],
/// [`UsageStore`], [`TaskStore`], [`TokenStore`], [`UserStore`], [`TenantStore`], [`ShareStore`], [`AuditStore`],
/// [`PinStore`], [`WorkQueue`], [`ScheduleStore`], [`ChatStore`], [`MemoryStore`], [`NoticeStore`], [`DatasetStore`],
/// [`IngestQueue`], [`ReadingLog`] and [`ReembeddingStore`]. Because these share method names, [`Store::canvases`]
/// and similar methods return a single one of them.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<StoreInner>,
    pub(crate) quotas: Arc<Quotas>,
    /// Number of versions that are kept for each canvas; 0: all.
    pub(crate) versions_kept: u64,
}

pub(crate) struct StoreInner {
    pub(crate) place: StorePlace,
    /// The file as it was when the store was opened.
    pub(crate) file: Option<OpenedFile>,
    pub(crate) read: StoreReader,
    pub(crate) write: DatabaseConnection,
    /// Serializes all writes that are not journal entries.
    pub(crate) gate: WriteGate,
    pub(crate) journal: JournalQueue,
    pub(crate) dictionaries: SessionDictionaries,
    pub(crate) clock: Arc<dyn Clock>,
}

struct WallClock;

impl Clock for WallClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn running(&self) -> Duration {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGAN.elapsed()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.inner.place).finish()
    }
}

impl Store {
    /// Opens the store at `sqlite:PATH`, `sqlite::memory:`, `postgres://…` or `mysql://…` and brings its tables up to
    /// date. Must be called inside a tokio runtime, which has to outlive the store.
    ///
    /// # Errors
    /// `Invalid` for a URL of another form, `Unsupported` for a database that is not part of this build or was
    /// written by a newer version; otherwise the reason why the database cannot be used, naming the file or server.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with_clock(url, Arc::new(WallClock)).await
    }

    /// Same as [`Store::open`], with a clock for the timestamps of changes.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub async fn open_with_clock(url: &str, clock: Arc<dyn Clock>) -> Result<Self> {
        let (place, connections) = connect(url, OpenMode::ToWrite).await?;
        migration::run(&connections.write, &place).await?;
        Self::over(place, connections, clock).await
    }

    /// Opens an existing store for reading: its tables are neither created nor brought up to date. A SQLite file
    /// cannot be changed through it.
    ///
    /// # Errors
    /// As for [`Store::open`]; also `Unsupported` for a store of an older version.
    pub async fn open_to_read(url: &str) -> Result<Self> {
        let (place, connections) = connect(url, OpenMode::ToRead).await?;
        migration::look(&connections.write, &place).await?;
        Self::over(place, connections, Arc::new(WallClock)).await
    }

    async fn over(place: StorePlace, connections: Connections, clock: Arc<dyn Clock>) -> Result<Self> {
        let Connections { write, read, lane, gate } = connections;
        let file = OpenedFile::at(&place).await;
        let journal = JournalQueue::start(lane, place.clone())?;
        Ok(Self {
            inner: Arc::new(StoreInner {
                place,
                file,
                read,
                write,
                gate,
                journal,
                dictionaries: SessionDictionaries::default(),
                clock,
            }),
            quotas: Arc::default(),
            versions_kept: 0,
        })
    }

    /// The same store with limits for each tenant. Without them, there are none.
    #[must_use]
    pub fn with_quotas(self, limits: TenantQuotas) -> Self {
        Self { quotas: Arc::new(Quotas::new(limits)), ..self }
    }

    /// The same store, in which saving a canvas removes its old versions: all but this many, and those that something
    /// depends on. With 0, as without a call, none are removed.
    #[must_use]
    pub fn with_versions_kept(self, count: u64) -> Self {
        Self { versions_kept: count, ..self }
    }

    /// Copies a store in a SQLite file, as it is at one moment, to a new file. Other writers may continue meanwhile.
    ///
    /// # Errors
    /// `Unsupported` for another database; `Invalid` for a path that is not valid text; otherwise when the file
    /// cannot be written.
    pub async fn copy_into(&self, path: &std::path::Path) -> Result<()> {
        const DOING: &str = "copy the store";
        let StorePlace::File(_) = &self.inner.place else {
            return Err(Error::new(ErrorKind::Unsupported, "only a store in a SQLite file can be copied"));
        };
        // Created first, with private permissions: SQLite accepts an empty file, and would otherwise create one that
        // everyone can read.
        private::make_file(path).map_err(|cause| {
            Error::new(ErrorKind::Denied, format!("cannot make the file `{}`", path.display())).because(cause)
        })?;
        let path = path.to_str().ok_or_else(|| Error::invalid("the path of the copy is not text"))?;
        let copy = Statement::from_sql_and_values(DbBackend::Sqlite, "VACUUM INTO ?", [path.into()]);
        self.inner.read.execute_raw(copy).await.map(drop).map_err(|error| self.fail(DOING, error))
    }

    /// Flushes pending writes, then closes the database. Later calls fail.
    ///
    /// # Errors
    /// When the database cannot be closed; everything that was acknowledged before is stored nevertheless.
    pub async fn close(&self) -> Result<()> {
        // The journal first: its task flushes pending writes through the connections that are closed below.
        self.inner.journal.close().await;
        let fail = |error| failure(&self.inner.place, "close the store", error);
        self.inner.read.close().await.map_err(fail)?;
        self.inner.write.close_by_ref().await.map_err(fail)
    }

    /// The store of canvases.
    pub fn canvases(&self) -> Arc<dyn CanvasStore> {
        Arc::new(self.clone())
    }

    /// The store of notes and labels on versions of canvases.
    pub fn versions(&self) -> Arc<dyn VersionStore> {
        Arc::new(self.clone())
    }

    /// The store of sessions.
    pub fn sessions(&self) -> Arc<dyn SessionStore> {
        Arc::new(self.clone())
    }

    /// The store of runs.
    pub fn runs(&self) -> Arc<dyn RunStore> {
        Arc::new(self.clone())
    }

    /// The store of the heartbeats of processes.
    pub fn processes(&self) -> Arc<dyn ProcessStore> {
        Arc::new(self.clone())
    }

    /// The store of messages that wait for runs.
    pub fn messages(&self) -> Arc<dyn RunMessages> {
        Arc::new(self.clone())
    }

    /// The store of what runs have spent.
    pub fn spending(&self) -> Arc<dyn SpendingStore> {
        Arc::new(self.clone())
    }

    /// The store of human tasks.
    pub fn tasks(&self) -> Arc<dyn TaskStore> {
        Arc::new(self.clone())
    }

    /// The store of users.
    pub fn users(&self) -> Arc<dyn UserStore> {
        Arc::new(self.clone())
    }

    /// The store of users' identities at OpenID providers.
    pub fn identities(&self) -> Arc<dyn IdentityStore> {
        Arc::new(self.clone())
    }

    /// The store of tenants.
    pub fn tenants(&self) -> Arc<dyn TenantStore> {
        Arc::new(self.clone())
    }

    /// The store of share tokens.
    pub fn shares(&self) -> Arc<dyn ShareStore> {
        Arc::new(self.clone())
    }

    /// The store of the audit log.
    pub fn audit_log(&self) -> Arc<dyn AuditStore> {
        Arc::new(self.clone())
    }

    /// The store of the model usage of runs.
    pub fn model_uses(&self) -> Arc<dyn UsageStore> {
        Arc::new(self.clone())
    }

    /// The store of notices to people.
    pub fn outbox(&self) -> Arc<dyn NoticeStore> {
        Arc::new(self.clone())
    }

    /// The store of tokens.
    pub fn tokens(&self) -> Arc<dyn TokenStore> {
        Arc::new(self.clone())
    }

    /// The store of accepted tool definitions.
    pub fn pins(&self) -> Arc<dyn PinStore> {
        Arc::new(self.clone())
    }

    /// The store of chat assistants.
    pub fn chats(&self) -> Arc<dyn ChatStore> {
        Arc::new(self.clone())
    }

    /// The store of memories.
    pub fn memories(&self) -> Arc<dyn MemoryStore> {
        Arc::new(self.clone())
    }

    /// The store of schedules.
    pub fn schedules(&self) -> Arc<dyn ScheduleStore> {
        Arc::new(self.clone())
    }

    /// The store of datasets.
    pub fn datasets(&self) -> Arc<dyn DatasetStore> {
        Arc::new(self.clone())
    }

    /// The queue of documents to read.
    pub fn ingest(&self) -> Arc<dyn IngestQueue> {
        Arc::new(self.clone())
    }

    /// The store of re-embedding tasks.
    pub fn reembeddings(&self) -> Arc<dyn ReembeddingStore> {
        Arc::new(self.clone())
    }

    /// The log of the readings of documents.
    pub fn readings(&self) -> Arc<dyn ReadingLog> {
        Arc::new(self.clone())
    }

    /// The queue of work.
    pub fn work(&self) -> Arc<dyn WorkQueue> {
        Arc::new(self.clone())
    }

    pub(crate) fn fail(&self, doing: &str, error: DbErr) -> Error {
        failure(&self.inner.place, doing, error)
    }

    /// The error when another process has taken over a run: this process forgets its state of the run.
    pub(crate) fn overtaken(&self, lease: &RunLease, doing: &str) -> Error {
        self.inner.journal.ended(&lease.run);
        overtaken(lease, doing)
    }

    /// An empty batch for this database.
    pub(crate) fn batch(&self) -> Batch {
        Batch::new(self.inner.write.get_database_backend())
    }

    /// Executes a batch, all of it or nothing.
    pub(crate) async fn execute(&self, batch: &Batch) -> Result<BatchOutcome, DbErr> {
        if self.inner.journal.runs_batches() {
            return self.inner.journal.run(batch.clone()).await;
        }
        repeated(|| run_batch(&self.inner.write, batch.clone())).await
    }

    pub(crate) async fn begin(&self) -> Result<WriteTransaction, DbErr> {
        let permit = self.inner.gate.permit().await;
        let transaction = self.inner.write.begin_with_options(write_options(&self.inner.write)).await?;
        Ok(WriteTransaction { transaction, permit })
    }
}

/// The purpose for which a store is opened.
#[derive(Clone, Copy)]
enum OpenMode {
    ToRead,
    ToWrite,
}

async fn connect(url: &str, opened: OpenMode) -> Result<(StorePlace, Connections)> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "sqlite" if rest == ":memory:" => Ok((StorePlace::Memory, sqlite::open_memory().await?)),
        "sqlite" => {
            let path = sqlite_path(rest)?;
            let connections = match opened {
                OpenMode::ToRead => sqlite::open_file_to_read(&path).await?,
                OpenMode::ToWrite => sqlite::open_file(&path).await?,
            };
            Ok((StorePlace::File(path), connections))
        }
        "postgres" | "postgresql" if cfg!(feature = "postgres") => {
            connect_server("PostgreSQL", format!("postgres:{rest}")).await
        }
        "mysql" | "mariadb" if cfg!(feature = "mysql") => {
            connect_server("MariaDB", format!("mysql:{rest}")).await
        }
        "postgres" | "postgresql" => Err(left_out("postgres")),
        "mysql" | "mariadb" => Err(left_out("mysql")),
        // The rest may contain a password, so only the scheme is repeated.
        _ => Err(Error::invalid(format!("cannot open a store whose URL begins with `{scheme}:`"))
            .help("store.url must begin with sqlite:, postgres: or mysql:")),
    }
}

fn sqlite_path(rest: &str) -> Result<PathBuf> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    // URLs written for other programs end like this; the file is created in any case.
    let path = path.strip_suffix("?mode=rwc").unwrap_or(path);
    if path.is_empty() || path.contains('\0') {
        return Err(Error::invalid("the store URL does not name a file")
            .help("write sqlite:PATH, such as sqlite:/var/lib/weft/weft.db"));
    }
    Ok(PathBuf::from(path))
}

fn left_out(feature: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("cannot open the store: this Weft was built without {feature}"),
    )
    .help(format!(
        "build it with `cargo build --release -p weft-cli --features {feature}`, or use a store.url that begins \
         with sqlite:"
    ))
}

async fn connect_server(kind: &str, url: String) -> Result<(StorePlace, Connections)> {
    let place = StorePlace::server(kind, &url);
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(SERVER_CONNECTIONS_MAX)
        .acquire_timeout(SERVER_ACQUIRE_MAX)
        .connect_timeout(SERVER_ACQUIRE_MAX)
        // It would write a line for each statement.
        .sqlx_logging(false);
    let write = Database::connect(options).await.map_err(|error| failure(&place, "open the store", error))?;
    Ok((place, Connections::pooled(write)))
}
