//! The SQL of the journal: one statement for all rows of a group, and queries for the end of a journal.

use std::fmt::{self, Write};

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement, Value};
use weft_core::id::RunKey;
use weft_core::seam::run_store::RunLease;

use crate::attempts::{repeated, run_batch};
use crate::batch::{Batch, BatchOutcome};
use crate::ids::text;
use crate::sqlite_writer::{SqliteWriter, transaction};
use crate::write_gate::WriteGate;

/// Number of values per row.
const VALUES: usize = 7;

/// Entries of one run that were appended together.
pub(crate) struct JournalRow {
    pub(crate) lease: RunLease,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
    /// Encoded by [`crate::pack`].
    pub(crate) body: Vec<u8>,
}

/// The path by which rows reach the table.
pub(crate) enum Lane {
    /// A dedicated connection to a SQLite file. Returning one to a pool and taking it again costs more than writing
    /// the row.
    Own(SqliteWriter, WriteGate, LogLength),
    /// Any free connection of a pool.
    Pool(DatabaseConnection),
}

/// The maximum length of SQLite's write-ahead log: a fraction of the file's size, so that a small file has a small
/// log and a busy one is checkpointed in large steps.
#[derive(Default)]
pub(crate) struct LogLength {
    writes: u32,
    traffic: Traffic,
}

/// How many runs write concurrently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// A few runs.
    #[default]
    Low,
    /// Many runs. Each of their rows is on a page of its own, so a log sized for a small file would be full after
    /// every write or two; each checkpoint waits for the disk twice, and all writers wait with it.
    High,
}

impl LogLength {
    /// Minimum number of pages, a quarter of a mebibyte: a turn writes about forty, and each checkpoint waits for the
    /// disk twice.
    const PAGES_MIN: i64 = 128;
    /// Maximum number of pages.
    const PAGES_MAX: i64 = 4_096;
    /// Between the two, one log page for this many pages of the file.
    const PART: i64 = 8;
    /// Number of writes until the size of the file is checked again.
    const WRITES: u32 = 256;
    /// How much of the log stays allocated after a checkpoint: what is truncated has to be allocated again, block by
    /// block.
    const BYTES_KEPT: i64 = 256 * 1024;
    const BYTES_KEPT_BUSY: i64 = 16 * 1024 * 1024;

    /// Whether to set the log's length after the next write.
    fn is_due(&mut self, traffic: Traffic) -> bool {
        let changed = std::mem::replace(&mut self.traffic, traffic) != traffic;
        let due = changed || self.writes.is_multiple_of(Self::WRITES);
        self.writes = self.writes.wrapping_add(1);
        due
    }

    fn limit(connection: &Connection, traffic: Traffic) -> rusqlite::Result<()> {
        let most = match traffic {
            Traffic::High => Self::PAGES_MAX,
            Traffic::Low => {
                let pages: i64 = connection.query_row("PRAGMA page_count", (), |row| row.get(0))?;
                (pages / Self::PART).clamp(Self::PAGES_MIN, Self::PAGES_MAX)
            }
        };
        let kept = if traffic == Traffic::High { Self::BYTES_KEPT_BUSY } else { Self::BYTES_KEPT };
        connection.pragma_update(None, "journal_size_limit", kept)?;
        connection.pragma_update(None, "wal_autocheckpoint", most)
    }
}

impl Lane {
    /// Whether it has a dedicated connection, which executes a batch in one call.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Own(..))
    }

    /// Writes all rows or none.
    pub(crate) async fn insert(&mut self, rows: &[JournalRow], traffic: Traffic) -> Result<(), DbErr> {
        match self {
            Self::Own(writer, gate, log) => {
                let _permit = gate.permit().await;
                let log_is_due = log.is_due(traffic);
                writer.call(|connection| {
                    let written = insert(connection, rows);
                    // The rows do not depend on it, so it is no error of their writer.
                    if log_is_due && let Err(error) = LogLength::limit(connection, traffic) {
                        tracing::warn!(%error, "the size of the store's log could not be set");
                    }
                    written
                })
            }
            Self::Pool(db) => {
                let backend = db.get_database_backend();
                let sql = insert_sql(backend, rows.len());
                let statement = Statement::from_sql_and_values(backend, sql, rows.iter().flat_map(values));
                repeated(|| db.execute_raw(statement.clone())).await.map(drop)
            }
        }
    }

    /// Executes a batch, all of it or nothing.
    pub(crate) async fn run(&mut self, batch: Batch) -> Result<BatchOutcome, DbErr> {
        match self {
            Self::Own(writer, gate, _) => {
                let _permit = gate.permit().await;
                writer.run(&batch.steps)
            }
            Self::Pool(db) => run_batch(db, batch).await,
        }
    }

    /// The number of a run's last entry, 0 when there is none; `None` when the run does not exist.
    pub(crate) async fn last_seq(&mut self, key: &RunKey) -> Result<Option<u64>, DbErr> {
        let (tenant, run) = (text(key.tenant.as_str()), text(key.id.as_str()));
        let last: Option<Option<i64>> = match self {
            Self::Own(writer, ..) => {
                writer.call(|connection| one(connection, &last_sql(DbBackend::Sqlite), &[&tenant, &run]))?
            }
            Self::Pool(db) => {
                let backend = db.get_database_backend();
                let values = [Value::from(tenant), Value::from(run)];
                let statement = Statement::from_sql_and_values(backend, last_sql(backend), values);
                let row = db.query_one_raw(statement).await?;
                row.map(|row| row.try_get_by_index(0)).transpose()?
            }
        };
        Ok(last.map(|last| last.and_then(|last| u64::try_from(last).ok()).unwrap_or_default()))
    }

    /// A run's fencing token; `None` when the run does not exist.
    pub(crate) async fn fence(&mut self, key: &RunKey) -> Result<Option<i64>, DbErr> {
        let (tenant, run) = (text(key.tenant.as_str()), text(key.id.as_str()));
        match self {
            Self::Own(writer, ..) => {
                writer.call(|connection| one(connection, &fence_sql(DbBackend::Sqlite), &[&tenant, &run]))
            }
            Self::Pool(db) => {
                let backend = db.get_database_backend();
                let values = [Value::from(tenant), Value::from(run)];
                let statement = Statement::from_sql_and_values(backend, fence_sql(backend), values);
                let row = db.query_one_raw(statement).await?;
                row.map(|row| row.try_get_by_index(0)).transpose()
            }
        }
    }

    /// Closes a dedicated connection.
    pub(crate) fn close(self) {
        if let Self::Own(writer, ..) = self
            && let Err(error) = writer.close()
        {
            tracing::warn!(%error, "the journal's connection did not close cleanly; what was answered is stored");
        }
    }
}

/// Row by row: the statement is prepared once and cached, and a row costs only its write.
fn insert(connection: &mut Connection, rows: &[JournalRow]) -> rusqlite::Result<()> {
    let sql = insert_sql(DbBackend::Sqlite, 1);
    let insert = |connection: &Connection, rows: &[JournalRow]| {
        let mut insert = connection.prepare_cached(&sql)?;
        for JournalRow { lease: RunLease { run, fence }, first_seq, last_seq, body } in rows {
            let (tenant, run) = (run.tenant.as_str(), run.id.as_str());
            insert.execute(params![
                tenant,
                run,
                fence,
                run,
                first_seq.cast_signed(),
                last_seq.cast_signed(),
                body
            ])?;
        }
        Ok(())
    };
    // One statement is a transaction by itself.
    if rows.len() == 1 {
        return insert(connection, rows);
    }
    transaction(connection, |connection| insert(connection, rows).map(|()| ((), true)))
}

/// The first value of the only row, if there is one.
fn one<T: FromSql>(connection: &Connection, sql: &str, values: &[&String]) -> rusqlite::Result<Option<T>> {
    let mut query = connection.prepare_cached(sql)?;
    query.query_row(params_from_iter(values), |row| row.get(0)).optional()
}

fn values(row: &JournalRow) -> [Value; VALUES] {
    let RunLease { run, fence } = &row.lease;
    [
        Value::from(text(run.tenant.as_str())),
        Value::from(text(run.id.as_str())),
        Value::from(*fence),
        Value::from(text(run.id.as_str())),
        Value::from(row.first_seq.cast_signed()),
        Value::from(row.last_seq.cast_signed()),
        Value::from(row.body.clone()),
    ]
}

/// Locks a row as it was read until the end of the transaction, on databases with concurrent writers.
pub(crate) fn shared(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => " FOR SHARE",
        // MariaDB does not support MySQL's current syntax; both support this one.
        DbBackend::MySql => " LOCK IN SHARE MODE",
        // In SQLite the writer is alone.
        _ => "",
    }
}

/// A column whose number changes with each change of its row.
#[derive(Clone, Copy)]
pub(crate) struct NumberedColumn {
    pub(crate) table: &'static str,
    pub(crate) column: &'static str,
}

/// Identifies a row of a table.
#[derive(Clone, Copy)]
pub(crate) struct RowId<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) id: &'a str,
}

/// Selects the row of a tenant with this id if its column has this number, and locks it: no other writer changes it
/// before the transaction ends.
pub(crate) fn row_with(
    backend: DbBackend,
    numbered: NumberedColumn,
    row: RowId<'_>,
    number: i64,
) -> Statement {
    let NumberedColumn { table, column } = numbered;
    let at = |n| Placeholder(backend, n);
    let sql = format!(
        "SELECT {column} FROM {table} WHERE tenant_id = {} AND id = {} AND {column} = {}{}",
        at(1),
        at(2),
        at(3),
        shared(backend)
    );
    let values = [Value::from(text(row.tenant)), Value::from(text(row.id)), Value::from(number)];
    Statement::from_sql_and_values(backend, sql, values)
}

/// The tenant is taken from the run's own row if that still has the writer's fencing token. Otherwise the value is
/// null, and the database rejects the whole statement.
fn insert_sql(backend: DbBackend, rows: usize) -> String {
    let mut sql = String::with_capacity(80 + rows * 128);
    sql.push_str("INSERT INTO journal (tenant_id, run_id, first_seq, last_seq, body) VALUES ");
    for row in 0..rows {
        let at = |value| Placeholder(backend, row * VALUES + value);
        // The lock keeps another process from taking the run over between this look at its fence and the commit.
        let comma = if row == 0 { "" } else { "," };
        // Writing to a `String` cannot fail.
        let _ = write!(
            sql,
            "{comma}((SELECT tenant_id FROM run WHERE tenant_id={} AND id={} AND fence={}{}),{},{},{},{})",
            at(1),
            at(2),
            at(3),
            shared(backend),
            at(4),
            at(5),
            at(6),
            at(7)
        );
    }
    sql
}

fn last_sql(backend: DbBackend) -> String {
    let (tenant, run) = (Placeholder(backend, 1), Placeholder(backend, 2));
    format!(
        "SELECT (SELECT last_seq FROM journal WHERE tenant_id = run.tenant_id AND run_id = run.id \
         ORDER BY first_seq DESC LIMIT 1) FROM run WHERE tenant_id = {tenant} AND id = {run}"
    )
}

fn fence_sql(backend: DbBackend) -> String {
    let (tenant, run) = (Placeholder(backend, 1), Placeholder(backend, 2));
    format!("SELECT fence FROM run WHERE tenant_id = {tenant} AND id = {run}")
}

/// A placeholder for a value in a statement; PostgreSQL numbers them.
pub(crate) struct Placeholder(pub(crate) DbBackend, pub(crate) usize);

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DbBackend::Postgres => write!(f, "${}", self.1),
            _ => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgres_placeholders_are_numbered() {
        assert!(insert_sql(DbBackend::Postgres, 2).ends_with(" AND fence=$10 FOR SHARE),$11,$12,$13,$14)"));
        assert!(insert_sql(DbBackend::Sqlite, 1).ends_with(" AND fence=?),?,?,?,?)"));
    }
}
