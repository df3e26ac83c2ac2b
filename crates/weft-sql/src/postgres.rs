//! PostgreSQL.

use std::time::Duration;

use futures::TryStreamExt as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow, PgSslMode};
use sqlx::{
    AssertSqlSafe, Column as _, ConnectOptions as _, Connection as _, Executor as _, Row as _,
    SqlSafeStr as _, Statement as _, TypeInfo as _, ValueRef as _,
};
use weft_core::seam::databases::{Database, DatabaseKind, SqlAnswer, SqlRows, TlsMode};
use weft_core::{Error, ErrorKind, Json, Result};
use weft_net::Tunnel;

use crate::cell::{CellKind, list, value};
use crate::reply::{self, ReplyRoom, columns, in_time};
use crate::statements::{CheckedStatement, verb};

/// Name of a server's socket, as the client library forms it.
pub(crate) fn socket_name(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

/// Executes statements on the server at the other end of a tunnel.
pub(crate) async fn ask(
    database: &Database,
    tunnel: &Tunnel,
    statements: Vec<CheckedStatement>,
    room: &mut ReplyRoom,
    time_limit: Duration,
) -> Result<Vec<SqlAnswer>> {
    // Every option is set, even an empty password: anything left out would be taken from the environment of this
    // process.
    let options = PgConnectOptions::new_without_pgpass()
        .host(&database.host)
        .port(database.port)
        .socket(tunnel.folder())
        .username(&database.user)
        .password(database.password.reveal())
        .database(&database.name)
        .application_name("weft")
        // A connection serves one request, whose statements are prepared once each.
        .statement_cache_capacity(0)
        .ssl_mode(match database.tls {
            TlsMode::Disable => PgSslMode::Disable,
            TlsMode::Prefer => PgSslMode::Prefer,
            TlsMode::Require => PgSslMode::Require,
            TlsMode::VerifyFull => PgSslMode::VerifyFull,
        });
    // Boxed, because the future contains all the state of a handshake.
    let signed_in = in_time(Box::pin(options.connect()), time_limit).await?;
    let mut connection = signed_in.map_err(|cause| refused(&cause))?;
    let mut answers = Vec::with_capacity(statements.len());
    for statement in statements {
        answers.push(match statement {
            Ok(sql) => one(&mut connection, sql, room, time_limit).await?,
            Err(why) => SqlAnswer::Failed(why),
        });
    }
    // All answers have arrived, so an error on closing does not matter.
    let _ = connection.close().await;
    Ok(answers)
}

async fn one(
    connection: &mut PgConnection,
    sql: String,
    room: &mut ReplyRoom,
    time_limit: Duration,
) -> Result<SqlAnswer> {
    // Session settings that a statement changes are reset at the end of its transaction.
    // Strings must be read as the check of the statements reads them.
    let begin = format!(
        "BEGIN READ ONLY; SET LOCAL statement_timeout = {}; SET LOCAL standard_conforming_strings = on; \
         SET LOCAL client_encoding = 'UTF8'; SET LOCAL datestyle = 'ISO'",
        time_limit.as_millis()
    );
    connection.execute(sqlx::raw_sql(AssertSqlSafe(begin))).await.map_err(|cause| refused(&cause))?;
    let answer = match carried_out(connection, sql, room).await {
        Ok(rows) => SqlAnswer::Rows(rows),
        Err(PostgresFailure::Statement(why)) => SqlAnswer::Failed(why),
        Err(PostgresFailure::Everything(error)) => return Err(error),
    };
    // A failed statement has aborted the transaction, and the next statement needs its own.
    connection.execute("ROLLBACK").await.map_err(|cause| refused(&cause))?;
    Ok(answer)
}

enum PostgresFailure {
    Statement(String),
    Everything(Error),
}

impl From<sqlx::Error> for PostgresFailure {
    fn from(cause: sqlx::Error) -> Self {
        match cause.as_database_error() {
            Some(said) => Self::Statement(match said.code() {
                Some(code) => format!("{} ({code})", said.message()),
                None => said.message().to_owned(),
            }),
            None => Self::Everything(refused(&cause)),
        }
    }
}

async fn carried_out(
    connection: &mut PgConnection,
    sql: String,
    room: &mut ReplyRoom,
) -> std::result::Result<SqlRows, PostgresFailure> {
    // A cursor accepts exactly one query, and lets the server stop after the last row that is needed. Statements that
    // are not queries, such as SHOW, are sent as prepared statements, which are also limited to one statement.
    let is_query = !["SHOW", "EXPLAIN", "DESCRIBE"].contains(&verb(DatabaseKind::Postgres, &sql).as_str());
    let prepared = connection.prepare(AssertSqlSafe(sql.clone()).into_sql_str()).await?;
    let names = prepared.columns().iter().map(|column| column.name().to_owned()).collect::<Vec<_>>();
    let mut rows = SqlRows { columns: columns(names), ..SqlRows::default() };
    let fetch = if is_query {
        let declare = format!("DECLARE weft NO SCROLL CURSOR FOR {sql}");
        connection.execute(sqlx::query(AssertSqlSafe(declare))).await?;
        // One row more than wanted shows whether any are left out.
        format!("FETCH {} FROM weft", room.rows_max().saturating_add(1))
    } else {
        sql
    };
    let mut coming = sqlx::raw_sql(AssertSqlSafe(fetch)).fetch(&mut *connection);
    while let Some(row) = coming.try_next().await? {
        if !room.add(&mut rows, cells(&row)).map_err(PostgresFailure::Everything)? {
            break;
        }
    }
    // The next use of the connection reads and discards the rest of the answer.
    drop(coming);
    Ok(rows)
}

fn cells(row: &PgRow) -> Vec<Json> {
    let cell = |place: usize| {
        let Ok(raw) = row.try_get_raw(place) else { return Json::Null };
        if raw.is_null() {
            return Json::Null;
        }
        let Ok(text) = raw.as_str().map(str::to_owned) else { return Json::Null };
        let kind = raw.type_info();
        match kind.name().strip_suffix("[]") {
            Some(member) => list(CellKind::named(member), text),
            None => value(CellKind::named(kind.name()), text),
        }
    };
    (0..row.len()).map(cell).collect()
}

fn refused(cause: &sqlx::Error) -> Error {
    // Class 28 is "invalid authorization", 3D "no such database".
    reply::refused(cause, |code| match code.get(..2) {
        Some("28") => ErrorKind::Unauthenticated,
        Some("3D") => ErrorKind::NotFound,
        _ => ErrorKind::Unavailable,
    })
}
