//! The SQL of the journal: one statement for all rows of a group, and the end of a journal.

use std::fmt::{self, Write};

use sea_orm::sqlx::sqlite::SqliteConnection;
use sea_orm::sqlx::{self, AssertSqlSafe, Connection, Row as _};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, RuntimeErr, Statement, Value};
use weft_core::id::RunKey;

use crate::ids::text;
use crate::open::repeated;
use crate::turn::Turns;

/// Columns of a row.
const COLUMNS: usize = 5;

/// Entries of one run that were appended together.
pub(crate) struct Row {
    pub(crate) key: RunKey,
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
pub(crate) struct Log(u32);

impl Log {
    /// At least so many pages,
    const PAGES_MIN: i64 = 12;
    /// at most so many,
    const PAGES_MAX: i64 = 4_096;
    /// and between them one for so many of the file.
    const PART: i64 = 8;
    /// Writes until the size of the file is looked at again.
    const WRITES: u32 = 256;

    async fn written(&mut self, connection: &mut SqliteConnection) {
        if self.0.is_multiple_of(Self::WRITES)
            && let Err(error) = Self::limit(connection).await
        {
            tracing::warn!(%error, "the size of the store's log could not be set");
        }
        self.0 = self.0.wrapping_add(1);
    }

    async fn limit(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut *connection).await?;
        let most = (pages / Self::PART).clamp(Self::PAGES_MIN, Self::PAGES_MAX);
        let limit = format!("PRAGMA wal_autocheckpoint = {most}");
        sqlx::query(AssertSqlSafe(limit)).execute(connection).await.map(drop)
    }
}

impl Lane {
    /// Writes all rows or none.
    pub(crate) async fn insert(&mut self, rows: &[Row]) -> Result<(), DbErr> {
        match self {
            Self::Own(connection, turns, log) => {
                let mut query = sqlx::query(AssertSqlSafe(insert_sql(DbBackend::Sqlite, rows.len())));
                for row in rows {
                    query = query
                        .bind(row.key.tenant.as_str())
                        .bind(row.key.id.as_str())
                        .bind(row.first_seq.cast_signed())
                        .bind(row.last_seq.cast_signed())
                        .bind(&row.body);
                }
                let turn = turns.next().await;
                query.execute(&mut **connection).await.map_err(failed)?;
                drop(turn);
                log.written(connection).await;
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

    /// Lets go of a connection of its own.
    pub(crate) async fn close(self) {
        if let Self::Own(connection, ..) = self
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the journal's connection did not close cleanly; what was answered is stored");
        }
    }
}

fn values(row: &Row) -> [Value; COLUMNS] {
    [
        Value::from(text(row.key.tenant.as_str())),
        Value::from(text(row.key.id.as_str())),
        Value::from(row.first_seq.cast_signed()),
        Value::from(row.last_seq.cast_signed()),
        Value::from(row.body.clone()),
    ]
}

fn failed(error: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(error.into()))
}

fn insert_sql(backend: DbBackend, rows: usize) -> String {
    let mut sql = String::with_capacity(80 + rows * 32);
    sql.push_str("INSERT INTO journal (tenant_id, run_id, first_seq, last_seq, body) VALUES ");
    for row in 0..rows {
        let at = |column| Placeholder(backend, row * COLUMNS + column);
        let comma = if row == 0 { "" } else { "," };
        // Writing into a String cannot fail.
        let _ = write!(sql, "{comma}({},{},{},{},{})", at(1), at(2), at(3), at(4), at(5));
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
        assert!(insert_sql(DbBackend::Postgres, 2).ends_with("VALUES ($1,$2,$3,$4,$5),($6,$7,$8,$9,$10)"));
        assert!(insert_sql(DbBackend::Sqlite, 1).ends_with("VALUES (?,?,?,?,?)"));
    }
}
