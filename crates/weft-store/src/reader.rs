//! How the store is read: through the pool of a database server, or through connections to a SQLite file, which are
//! handed out without a liveness check before or after use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sea_orm::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sea_orm::sqlx::{self, AssertSqlSafe, ConnectOptions as _, Connection as _};
use sea_orm::{
    ConnAcquireErr, ConnectionTrait, DatabaseConnection, DbBackend, DbErr, EntityTrait, ExecResult,
    PaginatorTrait as _, QueryResult, QuerySelect as _, RuntimeErr, Select, Statement,
};
use sea_query_sqlx::SqlxValues;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::ids::bounded;

/// A source of connections for reading.
#[derive(Clone)]
pub(crate) enum StoreReader {
    Pool(DatabaseConnection),
    File(Arc<SqliteReaders>),
}

/// Connections to a SQLite file, opened on demand.
pub(crate) struct SqliteReaders {
    options: SqliteConnectOptions,
    free: Mutex<Vec<SqliteConnection>>,
    places: Semaphore,
    count_max: u32,
    /// How long a caller waits for a connection.
    wait_max: Duration,
}

/// A connection that is returned when this guard is dropped.
struct ReadGuard<'a> {
    file: &'a SqliteReaders,
    connection: Option<SqliteConnection>,
    _place: SemaphorePermit<'a>,
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.file.free().push(connection);
        }
    }
}

impl SqliteReaders {
    pub(crate) fn new(options: SqliteConnectOptions, count_max: u32, wait_max: Duration) -> Self {
        let places = Semaphore::new(count_max as usize);
        Self { options, free: Mutex::default(), places, count_max, wait_max }
    }

    fn free(&self) -> MutexGuard<'_, Vec<SqliteConnection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn lend(&self) -> Result<ReadGuard<'_>, DbErr> {
        let place = match tokio::time::timeout(self.wait_max, self.places.acquire()).await {
            Ok(Ok(place)) => place,
            // The semaphore is only closed together with the file.
            Ok(Err(_)) => return Err(failed(sqlx::Error::PoolClosed)),
            Err(_) => return Err(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)),
        };
        // A separate statement: the lock must not be held while a connection is opened.
        let free = self.free().pop();
        let connection = match free {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(failed)?,
        };
        Ok(ReadGuard { file: self, connection: Some(connection), _place: place })
    }

    /// Runs `work` with a connection. A connection is not reused after a failure that was not caused by the
    /// statement.
    async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, DbErr> {
        let mut lent = self.lend().await?;
        let Some(connection) = &mut lent.connection else { return Err(failed(sqlx::Error::PoolClosed)) };
        let done = work(connection).await;
        if let Err(error) = &done
            && !matches!(error, sqlx::Error::Database(_))
        {
            lent.connection = None;
        }
        done.map_err(failed)
    }

    /// Waits for current readers, then closes the file.
    async fn close(&self) -> Result<(), DbErr> {
        // Concurrent calls do not occur; if one did, there would be nothing left to wait for.
        let all = self.places.acquire_many(self.count_max).await;
        self.places.close();
        drop(all);
        let free = std::mem::take(&mut *self.free());
        for connection in free {
            connection.close().await.map_err(failed)?;
        }
        Ok(())
    }
}

impl StoreReader {
    /// One page of the rows that an ordered query finds, and how many it finds in all.
    pub(crate) async fn page<E: EntityTrait<Model: Sync + 'static>>(
        &self,
        found: Select<E>,
        offset: u64,
        limit: u64,
    ) -> Result<(Vec<E::Model>, u64), DbErr> {
        let total = found.clone().count(self).await?;
        let rows = found.offset(bounded(offset)).limit(bounded(limit)).all(self).await?;
        Ok((rows, total))
    }

    /// Closes the database. Later calls fail.
    pub(crate) async fn close(&self) -> Result<(), DbErr> {
        match self {
            Self::Pool(pool) => pool.close_by_ref().await,
            Self::File(file) => file.close().await,
        }
    }
}

fn failed(error: sqlx::Error) -> DbErr {
    DbErr::Query(RuntimeErr::SqlxError(error.into()))
}

fn query(statement: Statement) -> sqlx::query::Query<'static, sqlx::Sqlite, SqlxValues> {
    let values = statement.values.unwrap_or(sea_orm::Values(Vec::new()));
    sqlx::query_with(AssertSqlSafe(statement.sql), SqlxValues(values))
}

#[async_trait::async_trait]
impl ConnectionTrait for StoreReader {
    fn get_database_backend(&self) -> DbBackend {
        match self {
            Self::Pool(pool) => pool.get_database_backend(),
            Self::File(_) => DbBackend::Sqlite,
        }
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        match self {
            Self::Pool(pool) => pool.execute_raw(statement).await,
            Self::File(file) => {
                let done = file.with(async |connection| query(statement).execute(connection).await).await?;
                Ok(done.into())
            }
        }
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        match self {
            Self::Pool(pool) => pool.execute_unprepared(sql).await,
            Self::File(_) => self.execute_raw(Statement::from_string(DbBackend::Sqlite, sql)).await,
        }
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        match self {
            Self::Pool(pool) => pool.query_one_raw(statement).await,
            Self::File(file) => {
                let row =
                    file.with(async |connection| query(statement).fetch_optional(connection).await).await?;
                Ok(row.map(QueryResult::from))
            }
        }
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        match self {
            Self::Pool(pool) => pool.query_all_raw(statement).await,
            Self::File(file) => {
                let rows = file.with(async |connection| query(statement).fetch_all(connection).await).await?;
                Ok(rows.into_iter().map(QueryResult::from).collect())
            }
        }
    }
}
