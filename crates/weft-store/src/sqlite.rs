//! Opens SQLite databases: one connection that writes, a few that read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sea_orm::sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sea_orm::sqlx::{self, ConnectOptions, Connection as _};
use sea_orm::{DatabaseConnection, DbErr, RuntimeErr, TransactionTrait};
use weft_core::{Error, ErrorKind, Result};

use crate::attempts::write_options;
use crate::failure::failure;
use crate::lane::{Lane, LogLength};
use crate::place::StorePlace;
use crate::private;
use crate::reader::{SqliteReaders, StoreReader};
use crate::sqlite_writer::SqliteWriter;
use crate::write_gate::WriteGate;

/// Maximum number of concurrent reading connections.
const READERS_MAX: u32 = 4;

/// How long to wait for another process that holds the file's lock.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// How long a caller waits for a connection.
const ACQUIRE_MAX: Duration = Duration::from_secs(30);

/// Most rows are small, and each table and index takes at least one page.
const PAGE_BYTES: u32 = 2048;

/// The write-ahead log is truncated to this many bytes after a checkpoint; the lane of the journal checkpoints it.
const LOG_BYTES_KEPT: &str = "262144";

/// The page cache of a connection, in KiB (which SQLite expects as a negative number). There are six connections, and
/// pages that one of them does not have are in the system's cache.
const CACHE_KIB: &str = "-1024";

/// Maximum length of the log in pages.
const LOG_PAGES_MAX: &str = "4096";

/// Enough for all statements there are.
const STATEMENTS_KEPT: usize = 256;

/// Settings that the other connections get through their options.
const WRITER_PRAGMAS: [(&str, &str); 5] = [
    ("foreign_keys", "on"),
    ("synchronous", "normal"),
    ("cache_size", CACHE_KIB),
    ("journal_size_limit", LOG_BYTES_KEPT),
    ("wal_autocheckpoint", LOG_PAGES_MAX),
];

/// The connections to a database.
pub(crate) struct Connections {
    pub(crate) write: DatabaseConnection,
    pub(crate) read: StoreReader,
    pub(crate) lane: Lane,
    pub(crate) gate: WriteGate,
}

impl Connections {
    /// One pool for everything.
    pub(crate) fn pooled(pool: DatabaseConnection) -> Self {
        let (read, lane) = (StoreReader::Pool(pool.clone()), Lane::Pool(pool.clone()));
        Self { write: pool, read, lane, gate: WriteGate::default() }
    }
}

/// Opens a database that ends with the process. It has one connection: a second one would see another database, or
/// wait for locks without a time limit.
pub(crate) async fn open_memory() -> Result<Connections> {
    let options = SqliteConnectOptions::new().in_memory(true).filename(":memory:");
    let write = connect(options.disable_statement_logging(), &StorePlace::Memory).await?;
    Ok(Connections::pooled(write))
}

/// Opens a file, which is created if necessary. Only its owner can read it.
pub(crate) async fn open_file(path: &Path) -> Result<Connections> {
    let place = StorePlace::File(path.to_owned());
    prepare(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(BUSY_MAX)
        .pragma("cache_size", CACHE_KIB)
        .statement_cache_capacity(STATEMENTS_KEPT)
        .disable_statement_logging();
    // In WAL mode a commit survives the process without waiting for the disk; only a crash of the whole machine may
    // lose the last commits, and it never damages the file.
    let writer = options
        .clone()
        .create_if_missing(true)
        .page_size(PAGE_BYTES)
        // Has no effect once there are tables.
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .pragma("journal_size_limit", LOG_BYTES_KEPT)
        // The lane decides when to checkpoint the log; this applies when it has nothing to write.
        .pragma("wal_autocheckpoint", LOG_PAGES_MAX);
    let write = connect(writer, &place).await?;
    // SQLite silently opens files that it cannot write, so request the write lock once.
    let fail = |error| failure(&place, "write to the store", error);
    let probe = write.begin_with_options(write_options(&write)).await.map_err(fail)?;
    sea_orm::TransactionSession::rollback(probe).await.map_err(fail)?;
    tighten(path);
    // Read-only, so that a write that does not go through the gate fails.
    let read =
        StoreReader::File(Arc::new(SqliteReaders::new(options.read_only(true), READERS_MAX, ACQUIRE_MAX)));
    let gate = WriteGate::one_by_one();
    let writer = SqliteWriter::open(path, BUSY_MAX, &WRITER_PRAGMAS)
        .map_err(|error| failure(&place, "open the store", error))?;
    Ok(Connections { write, read, lane: Lane::Own(writer, gate.clone(), LogLength::default()), gate })
}

/// Opens an existing file for reading: neither the file nor its tables are changed.
pub(crate) async fn open_file_to_read(path: &Path) -> Result<Connections> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(BUSY_MAX)
        .pragma("cache_size", CACHE_KIB)
        .disable_statement_logging();
    let pool = connect(options, &StorePlace::File(path.to_owned())).await?;
    Ok(Connections::pooled(pool))
}

fn cannot_open(place: &StorePlace, error: sqlx::Error) -> Error {
    failure(place, "open the store", DbErr::Conn(RuntimeErr::SqlxError(error.into())))
}

async fn connect(options: SqliteConnectOptions, place: &StorePlace) -> Result<DatabaseConnection> {
    let mut pool = SqlitePoolOptions::new();
    // An in-memory database lives in its connection.
    if *place != StorePlace::Memory {
        // When a commit fails, as on a full disk, SQLite may end the transaction by itself. The driver still
        // considers it open: later writes would be part of a transaction that is never committed.
        pool = pool.before_acquire(|connection, _| {
            Box::pin(std::future::ready(Ok(!connection.is_in_transaction())))
        });
    }
    let pool = pool
        // One, and permanent: a file has one writer at a time, and an in-memory database ends with its connection.
        .max_connections(1)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(ACQUIRE_MAX)
        .connect_with(options)
        .await
        .map_err(|error| cannot_open(place, error))?;
    Ok(SqlitePool::into(pool))
}

fn prepare(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::invalid(format!("cannot open the store: `{}` is a directory", path.display()))
            .help(format!("name a file in it, such as sqlite:{}", path.join("weft.db").display())));
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        // Usually it is a typo, and an empty store would look as if everything were lost.
        let folder = folder.display();
        return Err(Error::invalid(format!("cannot open the store: there is no folder `{folder}`"))
            .help(format!("create it: mkdir -p {folder}; or check store.url")));
    }
    private::make_file(path).map_err(|cause| {
        Error::new(ErrorKind::Denied, format!("cannot make the file `{}`", path.display()))
            .help("make its folder writable, or name another one")
            .because(cause)
    })
}

/// Restricts an existing database to its owner, together with the files beside it, to which SQLite gives the
/// permissions of the database.
fn tighten(path: &Path) {
    for beside in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(beside);
        private::tighten_file(Path::new(&name));
    }
}
