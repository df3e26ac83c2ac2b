//! A direct connection to a SQLite file, which executes whole transactions in one visit of its thread. It is used for
//! the writes at every step of every run.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql, params_from_iter};
use sea_orm::sqlx::error::{DatabaseError, ErrorKind};
use sea_orm::{DbErr, RuntimeErr, Value, sqlx};

use crate::batch::{BatchOutcome, BatchStep, ExpectedEffect};

/// Size of the cache of prepared statements.
const STATEMENTS_KEPT: usize = 64;

/// A connection that writes. Calls block on the disk, so it belongs to a thread of its own.
pub(crate) struct SqliteWriter(Connection);

impl SqliteWriter {
    /// Opens an existing file and executes the pragmas first.
    pub(crate) fn open(path: &Path, busy: Duration, pragmas: &[(&str, &str)]) -> Result<Self, DbErr> {
        let open = || {
            let connection = Connection::open_with_flags(
                path,
                // Only one thread uses the connection, so SQLite need not lock it for each call.
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            connection.busy_timeout(busy)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
            for (name, value) in pragmas {
                connection.pragma_update(None, name, value)?;
            }
            Ok(connection)
        };
        open().map(Self).map_err(|error| failed(&error))
    }

    /// Calls `work` with the connection.
    pub(crate) fn call<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, DbErr> {
        work(&mut self.0).map_err(|error| failed(&error))
    }

    /// Executes all steps in one transaction, or none of them.
    pub(crate) fn run(&mut self, steps: &[BatchStep]) -> Result<BatchOutcome, DbErr> {
        self.call(|connection| run(connection, steps))
    }

    /// Closes the file.
    pub(crate) fn close(self) -> Result<(), DbErr> {
        self.0.close().map_err(|(_, error)| failed(&error))
    }
}

/// Executes `work` in a transaction that takes the write lock at its beginning: one that reads first and writes later
/// fails immediately if another process wrote in between. It is rolled back unless `work` returns that it has to be
/// committed.
pub(crate) fn transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<(T, bool)>,
) -> rusqlite::Result<T> {
    // Like `Transaction`, but with cached prepared statements.
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
    let ended = work(connection).and_then(|(done, keep)| {
        connection.prepare_cached(if keep { "COMMIT" } else { "ROLLBACK" })?.execute(())?;
        Ok(done)
    });
    // After some failures, such as a full disk, SQLite has ended the transaction by itself.
    if ended.is_err() && !connection.is_autocommit() {
        connection.prepare_cached("ROLLBACK")?.execute(())?;
    }
    ended
}

fn run(connection: &mut Connection, steps: &[BatchStep]) -> rusqlite::Result<BatchOutcome> {
    if let [step] = steps {
        return Ok(if done(connection, step)? { BatchOutcome::Committed } else { BatchOutcome::Refused(0) });
    }
    transaction(connection, |connection| {
        for (at, step) in steps.iter().enumerate() {
            if !done(connection, step)? {
                return Ok((BatchOutcome::Refused(at), false));
            }
        }
        Ok((BatchOutcome::Committed, true))
    })
}

/// Executes a step. Returns whether it had the expected effect.
fn done(connection: &Connection, BatchStep { statement, kind }: &BatchStep) -> rusqlite::Result<bool> {
    let mut prepared = connection.prepare_cached(&statement.sql)?;
    let values = statement.values.as_ref().map(|values| values.0.as_slice()).unwrap_or_default();
    let values = params_from_iter(values.iter().map(Bound));
    match kind {
        ExpectedEffect::MustFind => prepared.exists(values),
        ExpectedEffect::MustChange => Ok(prepared.execute(values)? > 0),
        ExpectedEffect::Any => prepared.execute(values).map(|_| true),
    }
}

/// A value of a statement in SQLite's form.
struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let number = |number: Option<i64>| Ok(number.map_or(ToSqlOutput::from(Null), ToSqlOutput::from));
        match self.0 {
            Value::Bool(value) => number(value.map(i64::from)),
            Value::Int(value) => number(value.map(i64::from)),
            Value::BigInt(value) => number(*value),
            Value::String(value) => Ok(value.as_deref().map_or(ToSqlOutput::from(Null), ToSqlOutput::from)),
            Value::Bytes(value) => {
                let bytes = value.as_deref();
                Ok(bytes
                    .map_or(ToSqlOutput::from(Null), |bytes| ToSqlOutput::Borrowed(ValueRef::Blob(bytes))))
            }
            other => {
                let kind = format!("no column of the store has values such as {other:?}");
                Err(rusqlite::Error::ToSqlConversionFailure(kind.into()))
            }
        }
    }
}

/// An error in the form shared by all databases of the store.
fn failed(error: &rusqlite::Error) -> DbErr {
    let told = match error {
        rusqlite::Error::SqliteFailure(code, _) => sqlx::Error::Database(Box::new(WriteFailure {
            // The primary code is the same for every kind of constraint.
            code: code.extended_code,
            message: error.to_string(),
        })),
        _ => sqlx::Error::Protocol(error.to_string()),
    };
    DbErr::Exec(RuntimeErr::SqlxError(told.into()))
}

/// An error reported by SQLite.
#[derive(Debug)]
struct WriteFailure {
    /// The extended result code.
    code: i32,
    message: String,
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(code: {}) {}", self.code, self.message)
    }
}

impl std::error::Error for WriteFailure {}

impl DatabaseError for WriteFailure {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        use rusqlite::ffi;
        match self.code {
            ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY => ErrorKind::UniqueViolation,
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ErrorKind::ForeignKeyViolation,
            ffi::SQLITE_CONSTRAINT_NOTNULL => ErrorKind::NotNullViolation,
            ffi::SQLITE_CONSTRAINT_CHECK => ErrorKind::CheckViolation,
            _ => ErrorKind::Other,
        }
    }
}
