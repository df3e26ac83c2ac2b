//! Transactions of writers: how they begin, and how often they are attempted.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use sea_orm::{
    DatabaseConnection, DbBackend, DbErr, SqliteTransactionMode, TransactionOptions, TransactionTrait as _,
};

use crate::batch::{Batch, BatchOutcome};
use crate::failure::gave_way;

/// Maximum number of attempts of a write that gives way to other writers. Of several that collide, one always
/// succeeds.
const ATTEMPTS_MAX: u32 = 10;
/// How often the pause between two attempts is doubled, starting from half a millisecond.
// At most 64 ms on average: collisions are over by then, and callers wait.
const PAUSE_DOUBLED_MAX: u32 = 7;

/// The pause of a writer before its next attempt: longer each time, and random, so that two writers that collided do
/// not collide again.
fn pause_before(attempt: u32) -> Duration {
    let chance = RandomState::new().build_hasher().finish() % 1_000;
    Duration::from_micros((500_u64 << attempt.min(PAUSE_DOUBLED_MAX)) * (500 + chance) / 1_000)
}

/// Repeats an attempt that gave way to another writer. None of it was written, so the effect is the same as if it had
/// come later. SQLite has no such case.
pub(crate) async fn repeated<T, F: Future<Output = Result<T, DbErr>>>(
    attempt: impl Fn() -> F,
) -> Result<T, DbErr> {
    for nth in 1..ATTEMPTS_MAX {
        match attempt().await {
            Err(error) if gave_way(&error) => tokio::time::sleep(pause_before(nth)).await,
            outcome => return outcome,
        }
    }
    attempt().await
}

/// Executes a batch in a transaction, unless it is a single statement, which is a transaction by itself.
pub(crate) async fn run_batch(db: &DatabaseConnection, batch: Batch) -> Result<BatchOutcome, DbErr> {
    if batch.is_single() {
        return batch.run_in(db).await;
    }
    let transaction = db.begin_with_options(write_options(db)).await?;
    match batch.run_in(&transaction).await? {
        BatchOutcome::Committed => transaction.commit().await.map(|()| BatchOutcome::Committed),
        refused @ BatchOutcome::Refused(_) => {
            sea_orm::TransactionSession::rollback(transaction).await.map(|()| refused)
        }
    }
}

/// A SQLite transaction that reads first and writes later fails immediately if another process wrote in between; one
/// that takes the write lock at its beginning waits for it.
pub(crate) fn write_options(db: &DatabaseConnection) -> TransactionOptions {
    let sqlite = db.get_database_backend() == DbBackend::Sqlite;
    TransactionOptions {
        sqlite_transaction_mode: sqlite.then_some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    }
}
