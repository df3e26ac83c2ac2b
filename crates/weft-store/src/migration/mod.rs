//! The tables, migration by migration. A released migration is never changed; a new one is added after it.

mod columns;
mod m0001_canvas;
mod m0002_session;
mod m0003_run;
mod m0004_token;
mod m0005_tool_pin;
mod m0006_run_alive;
mod m0007_compact;
mod m0008_task;
mod m0009_work;
mod m0010_spending;
mod m0011_dataset;
mod m0012_removed;
mod m0013_owner;
mod m0014_operator;
mod m0015_canvas_source;
mod m0016_file;
mod m0017_memory;
mod m0018_chat;
mod m0019_give_way;
mod m0020_secret;
mod m0021_version;
mod m0022_canvas_by_id;
mod m0023_account;
mod m0024_token_role;
mod m0025_share;
mod m0026_audit;
mod m0027_waiting_documents;
mod m0035_notice;
mod m0036_model_use;
mod m0037_identity;
mod m0038_reading;
mod m0039_tool_server;
mod m0040_search_app;
mod m0041_run_message;
mod m0042_folder_entry;
mod m0043_revision;
mod m0044_reembedding;
mod m0045_tool_credential;
mod m0046_picture;
mod m0047_kept_picture;
mod m0048_file_owner;
mod m0049_work_crashes;
mod m0050_versions_in_use;

use std::pin::Pin;

use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, Statement, TransactionTrait,
};
use sea_orm_migration::{MigrationName, MigrationTrait, MigratorTrait, SchemaManager, async_trait};
use weft_core::{Error, ErrorKind, Result};

use crate::failure::failure;
use crate::open::write_options;
use crate::place::StorePlace;

/// Distinguishes our migration lock from other locks on the same server.
// The letters `weft` in ASCII.
const LOCK_NUMBER: i64 = 0x77_65_66_74;

/// How long to wait for another process that migrates, in seconds.
const LOCK_WAIT_SECONDS: u32 = 60;

/// The work of a step that goes on.
// Boxed, so that the compiler works out only once that what a step does can be sent to another thread.
type StepFuture<'a> = Pin<Box<dyn Future<Output = Result<(), DbErr>> + Send + 'a>>;

/// A step: a file of this folder.
struct Migration {
    /// The name under which it is recorded as done: that of the file.
    name: &'static str,
    up: for<'a> fn(&'a SchemaManager<'a>) -> StepFuture<'a>,
}

impl MigrationName for Migration {
    fn name(&self) -> &str {
        self.name
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        (self.up)(manager).await
    }
}

struct Migrator;

/// Lists the steps in the order in which they are taken.
macro_rules! migrations {
    ($($file:ident),* $(,)?) => {
        vec![$(Box::new(Migration { name: stringify!($file), up: |manager| Box::pin($file::up(manager)) })),*]
    };
}

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        migrations![
            m0001_canvas,
            m0002_session,
            m0003_run,
            m0004_token,
            m0005_tool_pin,
            m0006_run_alive,
            m0007_compact,
            m0008_task,
            m0009_work,
            m0010_spending,
            m0011_dataset,
            m0012_removed,
            m0013_owner,
            m0014_operator,
            m0015_canvas_source,
            m0016_file,
            m0017_memory,
            m0018_chat,
            m0019_give_way,
            m0020_secret,
            m0021_version,
            m0022_canvas_by_id,
            m0023_account,
            m0024_token_role,
            m0025_share,
            m0026_audit,
            m0027_waiting_documents,
            m0035_notice,
            m0036_model_use,
            m0037_identity,
            m0038_reading,
            m0039_tool_server,
            m0040_search_app,
            m0041_run_message,
            m0042_folder_entry,
            m0043_revision,
            m0044_reembedding,
            m0045_tool_credential,
            m0046_picture,
            m0047_kept_picture,
            m0048_file_owner,
            m0049_work_crashes,
            m0050_versions_in_use,
        ]
    }
}

/// Brings the tables up to date. Several processes may do so concurrently: one works, the others wait.
pub(crate) async fn run(db: &DatabaseConnection, place: &StorePlace) -> Result<()> {
    // Almost every start finds nothing to do, and need not wait for the lock.
    if pending(db, place).await? == 0 {
        return Ok(());
    }
    let fail = |error| failure(place, "bring the tables up to date", error);
    let transaction = db.begin_with_options(write_options(db)).await.map_err(fail)?;
    if !lock(&transaction).await.map_err(fail)? {
        let message =
            format!("another process has been changing the tables of {place} for {LOCK_WAIT_SECONDS} s");
        return Err(
            Error::new(ErrorKind::Unavailable, message).help("wait until it is done, then start again")
        );
    }
    let outcome = Migrator::up(&transaction, None).await;
    let end = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let unlocked = unlock(&transaction, end).await;
    // First what a step failed for: a lost connection, for instance, cannot be unlocked either.
    outcome.and(unlocked).map_err(fail)?;
    transaction.commit().await.map_err(fail)
}

/// Checks whether the tables are up to date, without changing anything.
///
/// # Errors
/// `Unsupported` when they belong to another version.
pub(crate) async fn look(db: &DatabaseConnection, place: &StorePlace) -> Result<()> {
    if pending(db, place).await? == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, format!("{place} was written by an older version of Weft"))
        .help("a command that changes something, such as `weft serve`, brings it up to date"))
}

async fn pending(db: &DatabaseConnection, place: &StorePlace) -> Result<usize> {
    match Migrator::get_pending_migrations_read_only(db).await {
        Ok(steps) => Ok(steps.len()),
        // The only custom error of this call: the database has migrations that this program does not know.
        Err(error @ DbErr::Custom(_)) => {
            Err(Error::new(ErrorKind::Unsupported, format!("{place} was written by a newer version of Weft"))
                .help("use that version, or name another data folder")
                .because(error))
        }
        Err(error) => Err(failure(place, "read the list of tables", error)),
    }
}

/// Waits until no other process is migrating; returns whether the lock was obtained. In SQLite, a write transaction
/// is already a lock, and PostgreSQL waits without a time limit.
async fn lock(transaction: &DatabaseTransaction) -> Result<bool, DbErr> {
    let sql = match transaction.get_database_backend() {
        DbBackend::Postgres => format!("SELECT pg_advisory_xact_lock({LOCK_NUMBER})"),
        DbBackend::MySql => format!("SELECT GET_LOCK('weft-{LOCK_NUMBER}', {LOCK_WAIT_SECONDS})"),
        _ => return Ok(true),
    };
    let backend = transaction.get_database_backend();
    let row = transaction.query_one_raw(Statement::from_string(backend, sql)).await?;
    // MariaDB gives up without an error: 0 on a timeout, null when the server ends the wait.
    let got = row.map(|row| row.try_get_by_index::<Option<i64>>(0));
    Ok(backend != DbBackend::MySql || got.transpose()?.flatten() == Some(1))
}

/// PostgreSQL releases the lock at the end of the transaction, and MariaDB at the end of the connection, which goes
/// back to the pool with the transaction. There the statement `end` ends the changes while the lock is still held: the
/// next process would otherwise not see that the last step is done, and would take it again.
async fn unlock(transaction: &DatabaseTransaction, end: &str) -> Result<(), DbErr> {
    if transaction.get_database_backend() != DbBackend::MySql {
        return Ok(());
    }
    let ended = transaction.execute_unprepared(end).await;
    transaction.execute_unprepared(&format!("SELECT RELEASE_LOCK('weft-{LOCK_NUMBER}')")).await?;
    ended.map(drop)
}
