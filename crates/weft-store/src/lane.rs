//! The SQL of the journal: one statement for all rows of a group, and the end of a journal.

use std::fmt::{self, Write};

use sea_orm::sqlx::sqlite::SqliteConnection;
use sea_orm::sqlx::{self, AssertSqlSafe, Connection, Row as _};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, RuntimeErr, Statement, Value};
use weft_core::id::RunKey;
use weft_core::seam::run_store::RunLease;

use crate::ids::text;
use crate::open::repeated;
use crate::turn::Turns;

/// Values of a row.
const VALUES: usize = 7;

/// A statement of up to so many rows is kept for the next time. Longer ones are as many as there are lengths, and
/// read again faster than they are kept.
const ROWS_KEPT_MAX: usize = 16;

/// Entries of one run that were appended together.
pub(crate) struct Row {
    pub(crate) lease: RunLease,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
    /// As [`crate::pack`] writes it.
    pub(crate) body: Vec<u8>,
}

/// How rows get to the table.
pub(crate) enum Lane {
    /// A connection to a SQLite file that does nothing else. Giving one back to a pool and taking it
    /// again costs more than the row.
    Own(Box<SqliteConnection>, Turns, Log),
    /// Whichever connection is free.
    Pool(DatabaseConnection),
}

/// How long SQLite's log may become: a part of what the file has, so that a small file has a small log
/// and the copying of a busy one is done in large steps.
#[derive(Default)]
pub(crate) struct Log {
    writes: u32,
    traffic: Traffic,
}

/// How much is written at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// By a few runs.
    #[default]
    Low,
    /// By many. Each of their rows is on a page of its own, so a log of a small file's length would be full
    /// after every write or two; it would be copied then, which waits for the disk twice, and so would
    /// everybody.
    High,
}

impl Log {
    /// At least so many pages, a quarter of a mebibyte, because a turn writes about forty and each copying waits
    /// for the disk twice,
    const PAGES_MIN: i64 = 128;
    /// at most so many,
    const PAGES_MAX: i64 = 4_096;
    /// and between them one for so many of the file.
    const PART: i64 = 8;
    /// Writes until the size of the file is looked at again.
    const WRITES: u32 = 256;

    async fn written(&mut self, connection: &mut SqliteConnection, traffic: Traffic) {
        let changed = std::mem::replace(&mut self.traffic, traffic) != traffic;
        if (changed || self.writes.is_multiple_of(Self::WRITES))
            && let Err(error) = Self::limit(connection, traffic).await
        {
            tracing::warn!(%error, "the size of the store's log could not be set");
        }
        self.writes = self.writes.wrapping_add(1);
    }

    async fn limit(connection: &mut SqliteConnection, traffic: Traffic) -> Result<(), sqlx::Error> {
        let most = match traffic {
            Traffic::High => Self::PAGES_MAX,
            Traffic::Low => {
                let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut *connection).await?;
                (pages / Self::PART).clamp(Self::PAGES_MIN, Self::PAGES_MAX)
            }
        };
        let limit = format!("PRAGMA wal_autocheckpoint = {most}");
        sqlx::query(AssertSqlSafe(limit)).execute(connection).await.map(drop)
    }
}

impl Lane {
    /// Writes all rows or none.
    pub(crate) async fn insert(&mut self, rows: &[Row], traffic: Traffic) -> Result<(), DbErr> {
        match self {
            Self::Own(connection, turns, log) => {
                let sql = insert_sql(DbBackend::Sqlite, rows.len());
                let mut query = sqlx::query(AssertSqlSafe(sql)).persistent(rows.len() <= ROWS_KEPT_MAX);
                for row in rows {
                    let RunLease { run, fence } = &row.lease;
                    query = query
                        .bind(run.tenant.as_str())
                        .bind(run.id.as_str())
                        .bind(*fence)
                        .bind(run.id.as_str())
                        .bind(row.first_seq.cast_signed())
                        .bind(row.last_seq.cast_signed())
                        .bind(&row.body);
                }
                let turn = turns.next().await;
                query.execute(&mut **connection).await.map_err(failed)?;
                drop(turn);
                log.written(connection, traffic).await;
                Ok(())
            }
            Self::Pool(db) => {
                let backend = db.get_database_backend();
                let sql = insert_sql(backend, rows.len());
                let statement = Statement::from_sql_and_values(backend, sql, rows.iter().flat_map(values));
                repeated(|| db.execute_raw(statement.clone())).await.map(drop)
            }
        }
    }

    /// The number of a run's last entry, 0 when there is none; nothing when there is no such run.
    pub(crate) async fn last_seq(&mut self, key: &RunKey) -> Result<Option<u64>, DbErr> {
        let (tenant, run) = (text(key.tenant.as_str()), text(key.id.as_str()));
        let last: Option<Option<i64>> = match self {
            Self::Own(connection, ..) => {
                let query = sqlx::query(AssertSqlSafe(last_sql(DbBackend::Sqlite))).bind(tenant).bind(run);
                let row = query.fetch_optional(&mut **connection).await.map_err(failed)?;
                row.map(|row| row.try_get(0)).transpose().map_err(failed)?
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

    /// A run's fencing number; nothing when there is no such run.
    pub(crate) async fn fence(&mut self, key: &RunKey) -> Result<Option<i64>, DbErr> {
        let (tenant, run) = (text(key.tenant.as_str()), text(key.id.as_str()));
        match self {
            Self::Own(connection, ..) => {
                let query =
                    sqlx::query_scalar(AssertSqlSafe(fence_sql(DbBackend::Sqlite))).bind(tenant).bind(run);
                query.fetch_optional(&mut **connection).await.map_err(failed)
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

    /// Lets go of a connection of its own.
    pub(crate) async fn close(self) {
        if let Self::Own(connection, ..) = self
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the journal's connection did not close cleanly; what was answered is stored");
        }
    }
}

fn values(row: &Row) -> [Value; VALUES] {
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

fn failed(error: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(error.into()))
}

/// Keeps a row as it was read until the end of the transaction, where others may write at the same time.
pub(crate) fn shared(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => " FOR SHARE",
        // MariaDB does not know the words that MySQL has for it now; both know these.
        DbBackend::MySql => " LOCK IN SHARE MODE",
        // Whoever writes is alone.
        _ => "",
    }
}

/// The tenant is taken from the run's own row, if that still has the fencing number of whoever writes. If not
/// there is none, and the database refuses the whole statement.
fn insert_sql(backend: DbBackend, rows: usize) -> String {
    let mut sql = String::with_capacity(80 + rows * 128);
    sql.push_str("INSERT INTO journal (tenant_id, run_id, first_seq, last_seq, body) VALUES ");
    for row in 0..rows {
        let at = |value| Placeholder(backend, row * VALUES + value);
        let comma = if row == 0 { "" } else { "," };
        // Writing into a String cannot fail.
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

/// Stands for a value in a statement; PostgreSQL counts them.
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
    fn postgres_counts_its_placeholders() {
        assert!(insert_sql(DbBackend::Postgres, 2).ends_with(" AND fence=$10 FOR SHARE),$11,$12,$13,$14)"));
        assert!(insert_sql(DbBackend::Sqlite, 1).ends_with(" AND fence=?),?,?,?,?)"));
    }
}
