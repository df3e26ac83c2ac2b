//! Translates database errors into actionable messages.

use std::sync::{Arc, LazyLock};

use sea_orm::sqlx;
use sea_orm::{DbErr, RuntimeErr};
use weft_core::counts::Counts;
use weft_core::{Error, ErrorKind};

use crate::place::StorePlace;

/// One for all stores of a process: failing parts of a store do not know which store they belong to.
static FAILURES: LazyLock<Arc<Counts<ErrorKind>>> = LazyLock::new(Arc::default);

/// Number of failures of this process's stores, by kind. Each retry counts.
pub fn failures() -> Arc<Counts<ErrorKind>> {
    Arc::clone(&FAILURES)
}

/// The error of a failure while `doing` something, such as "read the session", at `place`. The location of the store
/// and the database's message are for the operator: callers get an id under which the log has them. Every unexpected
/// failure of a statement comes through here.
#[expect(clippy::needless_pass_by_value, reason = "what fails ends here")]
pub(crate) fn failure(place: &StorePlace, doing: &str, error: DbErr) -> Error {
    let (kind, what, help) = reason(place, &error);
    FAILURES.add(kind, 1);
    let private = format!("cannot {doing}: {what}: {error}");
    let id = weft_core::id::generate();
    tracing::warn!(error.id = id, reason = private, "the store failed");
    let public = match kind {
        ErrorKind::Unavailable => "is not responding",
        ErrorKind::Conflict => "had a conflict with another writer",
        _ => "failed",
    };
    Error::new(kind, format!("cannot {doing}: the store {public}; the log has the reason under {id}"))
        .in_private(private, help)
}

/// Whether a row with this key already exists.
pub(crate) fn is_duplicate(error: &DbErr) -> bool {
    is_violation(error, &sqlx::error::ErrorKind::UniqueViolation)
}

/// Whether the row that this one refers to does not exist.
pub(crate) fn is_orphan(error: &DbErr) -> bool {
    is_violation(error, &sqlx::error::ErrorKind::ForeignKeyViolation)
}

/// Whether a required value is missing because its source does not exist.
pub(crate) fn is_absent(error: &DbErr) -> bool {
    is_violation(error, &sqlx::error::ErrorKind::NotNullViolation)
}

fn is_violation(error: &DbErr, kind: &sqlx::error::ErrorKind) -> bool {
    matches!(sqlx_error(error), Some(sqlx::Error::Database(database)) if database.kind() == *kind)
}

/// Whether the database aborted the attempt in favor of another writer, so that the same attempt may succeed now.
pub(crate) fn gave_way(error: &DbErr) -> bool {
    match sqlx_error(error) {
        Some(sqlx::Error::Database(database)) => {
            // A serialization failure, and a deadlock; MariaDB uses the first code for both.
            matches!(database.code().as_deref(), Some("40001" | "40P01"))
        }
        _ => false,
    }
}

fn reason(place: &StorePlace, error: &DbErr) -> (ErrorKind, String, Option<&'static str>) {
    if let DbErr::ConnectionAcquire(_) = error {
        return unreachable_in_time(place);
    }
    match sqlx_error(error) {
        Some(sqlx::Error::PoolTimedOut | sqlx::Error::Io(_)) => unreachable_in_time(place),
        Some(sqlx::Error::PoolClosed) => (ErrorKind::Unavailable, format!("{place} is closed"), None),
        Some(sqlx::Error::Database(database)) => {
            let code = database.code().unwrap_or_default();
            match place {
                StorePlace::File(_) | StorePlace::Memory => sqlite_reason(place, &code),
                StorePlace::Server(_) => server_reason(place, &code),
            }
        }
        _ => (ErrorKind::Internal, format!("{place} returned an error"), None),
    }
}

fn sqlx_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => Some(error),
        _ => None,
    }
}

fn unreachable_in_time(place: &StorePlace) -> (ErrorKind, String, Option<&'static str>) {
    let what = format!("{place} is not responding");
    let help = match place {
        StorePlace::Server(_) => Some("start the database server, or name another one in store.url"),
        StorePlace::File(_) | StorePlace::Memory => None,
    };
    (ErrorKind::Unavailable, what, help)
}

/// The low byte of a SQLite result code says what happened, the rest gives details.
fn sqlite_reason(place: &StorePlace, code: &str) -> (ErrorKind, String, Option<&'static str>) {
    // In this order: SQLITE_BUSY and SQLITE_LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB.
    match code.parse::<u32>().map_or(0, |code| code & 0xff) {
        5 | 6 => (
            ErrorKind::Unavailable,
            format!("{place} is locked by another process"),
            Some("stop the other process that writes to it, or give this one its own data folder"),
        ),
        8 => (
            ErrorKind::Denied,
            format!("{place} is read-only"),
            Some("make the file and its folder writable, or name another data folder"),
        ),
        10 => (
            ErrorKind::Internal,
            format!("{place} cannot be read or written"),
            Some("check the disk that holds it"),
        ),
        11 => (
            ErrorKind::Garbled,
            format!("{place} is damaged"),
            Some("restore it from a backup, or move it away to start with an empty one"),
        ),
        13 => (
            ErrorKind::Internal,
            format!("the disk that holds {place} is full"),
            Some("free some space, then try again; what was stored before is intact"),
        ),
        14 => (
            ErrorKind::Denied,
            format!("{place} cannot be opened"),
            Some("check that the folder exists and is writable, or name another data folder"),
        ),
        26 => (
            ErrorKind::Garbled,
            format!("{place} is not a SQLite database"),
            Some("name another file in store.url, or move this one away"),
        ),
        _ => (ErrorKind::Internal, format!("{place} returned an error"), None),
    }
}

/// By SQLSTATE, whose first two characters PostgreSQL and MariaDB share.
fn server_reason(place: &StorePlace, code: &str) -> (ErrorKind, String, Option<&'static str>) {
    match code {
        // PostgreSQL names these disk_full, read_only_sql_transaction, serialization_failure and deadlock_detected.
        "53100" => (
            ErrorKind::Internal,
            format!("the disk of {place} is full"),
            Some("free some space on the server, then try again"),
        ),
        "25006" => {
            (ErrorKind::Denied, format!("{place} is read-only"), Some("name the primary server in store.url"))
        }
        "40001" | "40P01" => {
            (ErrorKind::Conflict, format!("{place} had a conflict with another writer"), Some("try again"))
        }
        _ if code.starts_with("28") => (
            ErrorKind::Unauthenticated,
            format!("{place} refuses the user or the password"),
            Some("check user and password in store.url"),
        ),
        // MariaDB returns 42000 for a database that does not exist as well as for one that the user may not access.
        _ if code.starts_with("3D") || code == "42000" => (
            ErrorKind::NotFound,
            format!("{place} refuses the request"),
            Some("check that the database in store.url exists and the user may use it"),
        ),
        // 57: the server is starting or stopping; 08: the connection broke. Both are temporary.
        _ if code.starts_with("57") || code.starts_with("08") => unreachable_in_time(place),
        _ => (ErrorKind::Internal, format!("{place} returned an error"), None),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sea_orm::ConnectionTrait;
    use weft_core::Result;
    use weft_core::id::{CanvasKey, RunKey, TenantId};
    use weft_core::seam::canvas_store::{CanvasHead, CanvasStore};
    use weft_core::seam::run_store::{RunLease, RunStore, StoredEntry, StoredRun};

    use super::*;
    use crate::Store;
    use crate::journal::JournalQueue;
    use crate::lane::{Lane, LogLength};
    use crate::pace::Haste;
    use crate::sqlite_writer::SqliteWriter;
    use crate::write_gate::WriteGate;

    /// A store and its file.
    struct Bench {
        folder: tempfile::TempDir,
        store: Store,
    }

    impl Bench {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store =
                Store::open(&format!("sqlite:{}", folder.path().join("weft.db").display())).await.unwrap();
            let run = StoredRun::begun(run(), "s", "c", 0);
            RunStore::create(&store, &run).await.unwrap();
            Self { folder, store }
        }

        /// A journal whose connection has this pragma set.
        fn journal(&self, pragma: (&str, &str)) -> JournalQueue {
            let file = self.folder.path().join("weft.db");
            let direct = SqliteWriter::open(&file, Duration::from_secs(5), &[pragma]).unwrap();
            JournalQueue::start(
                Lane::Own(direct, WriteGate::default(), LogLength::default()),
                self.store.inner.place.clone(),
            )
            .unwrap()
        }

        #[track_caller]
        fn check(&self, outcome: Result<()>, kind: ErrorKind, word: &str) {
            let error = outcome.unwrap_err();
            let file = self.folder.path().join("weft.db").display().to_string();
            assert_eq!(error.kind, kind, "{}", error.detail());
            let told = error.private_message();
            assert!(told.contains(word) && told.contains(&file), "{told}");
            assert!(error.private_help().is_some());
            assert!(
                !error.full().contains(&file) && error.full().contains("the log has"),
                "{}",
                error.full()
            );
        }
    }

    fn run() -> RunKey {
        RunKey::new(&TenantId::from("t"), "r")
    }

    fn lease() -> RunLease {
        RunLease { run: run(), fence: RunLease::FIRST }
    }

    /// An entry that cannot be compressed.
    fn entry(seq: u64, bytes: usize) -> Vec<StoredEntry> {
        let mut state = seq;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b' ' + (state >> 58) as u8)
        };
        let record: String = (0..bytes).map(|_| next()).collect();
        vec![StoredEntry { seq, event: None, at_ms: 0, record: record.into() }]
    }

    #[tokio::test]
    async fn a_full_disk_loses_nothing_that_was_stored() {
        let bench = Bench::new().await;
        let store = &bench.store;
        store.append(&lease(), entry(1, 10)).await.unwrap();
        // SQLite treats this limit like a full disk.
        let journal = bench.journal(("max_page_count", "1"));
        bench.check(
            journal.append(&lease(), Haste::Brief, &entry(2, 500_000), None).await,
            ErrorKind::Internal,
            "is full",
        );
        store.inner.write.execute_unprepared("PRAGMA max_page_count = 1").await.unwrap();
        let key = CanvasKey::new(&TenantId::from("t"), "c");
        let put = store.put(&key, &CanvasHead::default(), &"x".repeat(500_000)).await;
        bench.check(put.map(drop), ErrorKind::Internal, "is full");
        assert!(CanvasStore::get(store, &key).await.is_err());
        store.append(&lease(), entry(2, 500_000)).await.unwrap();
        assert_eq!(store.entries(&run(), 0, 9).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_read_only_file_is_named() {
        let bench = Bench::new().await;
        let before = failures().get(ErrorKind::Denied);
        let journal = bench.journal(("query_only", "1"));
        bench.check(
            journal.append(&lease(), Haste::Brief, &entry(1, 10), None).await,
            ErrorKind::Denied,
            "is read-only",
        );
        // Other tests of this process increase the counter, too.
        assert!(failures().get(ErrorKind::Denied) > before);
    }

    #[tokio::test]
    async fn a_file_that_another_process_holds_is_named() {
        let bench = Bench::new().await;
        let journal = bench.journal(("busy_timeout", "1"));
        let held = bench.store.begin().await.unwrap();
        bench.check(
            journal.append(&lease(), Haste::Brief, &entry(1, 10), None).await,
            ErrorKind::Unavailable,
            "is locked",
        );
        held.rollback().await.unwrap();
        journal.append(&lease(), Haste::Brief, &entry(1, 10), None).await.unwrap();
    }
}
