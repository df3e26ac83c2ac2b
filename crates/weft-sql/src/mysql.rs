//! MySQL and MariaDB.

use std::time::Duration;

use futures::TryStreamExt as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow, MySqlSslMode};
use sqlx::{
    AssertSqlSafe, Column as _, ConnectOptions as _, Connection as _, Executor as _, Row as _,
    SqlSafeStr as _, Statement as _, TypeInfo as _, ValueRef as _,
};
use weft_core::seam::databases::{Database, SqlAnswer, SqlRows, TlsMode};
use weft_core::{Error, ErrorKind, Json, Result};
use weft_net::Tunnel;

use crate::cell::{CellKind, binary, value};
use crate::reply::{self, ReplyRoom, columns, in_time};
use crate::statements::CheckedStatement;

/// Executes statements on the server at the other end of a tunnel.
pub(crate) async fn ask(
    database: &Database,
    tunnel: &Tunnel,
    statements: Vec<CheckedStatement>,
    room: &mut ReplyRoom,
    time_limit: Duration,
) -> Result<Vec<SqlAnswer>> {
    let mut options = MySqlConnectOptions::new()
        .host(&database.host)
        .port(database.port)
        .socket(tunnel.socket())
        .username(&database.user)
        .database(&database.name)
        // A connection serves one request, whose statements are prepared once each.
        .statement_cache_capacity(0)
        // Keeps the server's time zone, so that times are shown as the database's owner sees them.
        .timezone(None)
        .ssl_mode(match database.tls {
            TlsMode::Disable => MySqlSslMode::Disabled,
            TlsMode::Prefer => MySqlSslMode::Preferred,
            TlsMode::Require => MySqlSslMode::Required,
            TlsMode::VerifyFull => MySqlSslMode::VerifyIdentity,
        });
    if !database.password.is_empty() {
        options = options.password(database.password.reveal());
    }
    // Boxed, because the future contains all the state of a handshake.
    let signed_in = in_time(Box::pin(options.connect()), time_limit).await?;
    let mut connection = signed_in.map_err(|cause| refused(&cause))?;
    prepare(&mut connection, time_limit, room.rows_max()).await.map_err(|cause| refused(&cause))?;
    let mut answers = Vec::with_capacity(statements.len());
    for statement in statements {
        answers.push(match statement {
            Ok(sql) => one(&mut connection, sql, room).await?,
            Err(why) => SqlAnswer::Failed(why),
        });
    }
    // All answers have arrived, so an error on closing does not matter.
    let _ = connection.close().await;
    Ok(answers)
}

/// SQL modes in which a server interprets quotes or backslashes differently from the check of the statements. Those
/// named after other servers include `ANSI_QUOTES`.
const READ_OTHERWISE: [&str; 8] =
    ["ANSI", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"];

/// The modes of a server without these.
fn mode_as_checked(mode: &str) -> String {
    // The modes are inserted into a statement, so they must be plain names.
    let is_name = |part: &&str| part.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    let kept = mode.split(',').filter(is_name).filter(|part| !READ_OTHERWISE.contains(part));
    kept.collect::<Vec<_>>().join(",")
}

/// Prepares a session that interprets texts as the check of the statements does, that is read-only, and that has a time
/// limit.
async fn prepare(
    connection: &mut MySqlConnection,
    time_limit: Duration,
    rows_max: usize,
) -> sqlx::Result<()> {
    let version: String = sqlx::query_scalar("SELECT VERSION()").fetch_one(&mut *connection).await?;
    // MariaDB's setting is in seconds, MySQL's in milliseconds.
    let limit = if version.to_ascii_lowercase().contains("mariadb") {
        format!("max_statement_time = {}", time_limit.as_secs().max(1))
    } else {
        format!("max_execution_time = {}", time_limit.as_millis().max(1))
    };
    let mode: String =
        sqlx::query_scalar("SELECT CAST(@@sql_mode AS CHAR)").fetch_one(&mut *connection).await?;
    // One row more than wanted shows whether any are left out.
    let set = format!(
        "SET SESSION {limit}, sql_select_limit = {}, sql_mode = '{}'",
        rows_max.saturating_add(1),
        mode_as_checked(&mode)
    );
    connection.execute(sqlx::raw_sql(AssertSqlSafe(set))).await?;
    // The default of the session as well, for a statement that ends the explicit transaction.
    connection.execute(sqlx::raw_sql("SET SESSION TRANSACTION READ ONLY")).await?;
    Ok(())
}

async fn one(connection: &mut MySqlConnection, sql: String, room: &mut ReplyRoom) -> Result<SqlAnswer> {
    connection
        .execute(sqlx::raw_sql("START TRANSACTION READ ONLY"))
        .await
        .map_err(|cause| refused(&cause))?;
    let answer = match carried_out(connection, sql, room).await {
        Ok(rows) => SqlAnswer::Rows(rows),
        Err(MysqlFailure::Statement(why)) => SqlAnswer::Failed(why),
        Err(MysqlFailure::Everything(error)) => return Err(error),
    };
    connection.execute(sqlx::raw_sql("ROLLBACK")).await.map_err(|cause| refused(&cause))?;
    Ok(answer)
}

enum MysqlFailure {
    Statement(String),
    Everything(Error),
}

impl From<sqlx::Error> for MysqlFailure {
    fn from(cause: sqlx::Error) -> Self {
        match cause.as_database_error() {
            Some(said) => Self::Statement(said.message().to_owned()),
            None => Self::Everything(refused(&cause)),
        }
    }
}

async fn carried_out(
    connection: &mut MySqlConnection,
    sql: String,
    room: &mut ReplyRoom,
) -> std::result::Result<SqlRows, MysqlFailure> {
    // A text that can be prepared is a single statement. The values are then fetched in the text format of the server.
    let prepared = connection.prepare(AssertSqlSafe(sql.clone()).into_sql_str()).await?;
    let names = prepared.columns().iter().map(|column| column.name().to_owned()).collect::<Vec<_>>();
    let mut rows = SqlRows { columns: columns(names), ..SqlRows::default() };
    let mut coming = sqlx::raw_sql(AssertSqlSafe(sql)).fetch(&mut *connection);
    while let Some(row) = coming.try_next().await? {
        // Some statements have no known columns before their first row.
        if rows.columns.is_empty() {
            rows.columns = columns(row.columns().iter().map(|column| column.name().to_owned()));
        }
        if !room.add(&mut rows, cells(&row)).map_err(MysqlFailure::Everything)? {
            break;
        }
    }
    drop(coming);
    Ok(rows)
}

fn cells(row: &MySqlRow) -> Vec<Json> {
    let cell = |place: usize| {
        let Ok(raw) = row.try_get_raw(place) else { return Json::Null };
        if raw.is_null() {
            return Json::Null;
        }
        let kind = raw.type_info().name().to_owned();
        if kind == "BIT" {
            return bits(&row.try_get_unchecked::<Vec<u8>, _>(place).unwrap_or_default());
        }
        let kind = CellKind::named(&kind);
        match row.try_get_unchecked::<String, _>(place) {
            Ok(text) => value(kind, text),
            // It is not UTF-8, so it is binary data.
            Err(_) => binary(&row.try_get_unchecked::<Vec<u8>, _>(place).unwrap_or_default()),
        }
    };
    (0..row.len()).map(cell).collect()
}

/// Value of a `BIT(n)`, which arrives as bytes.
fn bits(bytes: &[u8]) -> Json {
    bytes.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)).into()
}

fn refused(cause: &sqlx::Error) -> Error {
    // 1045 is "access denied", 1049 "unknown database", with SQLSTATE 28000 and 42000.
    reply::refused(cause, |code| match code {
        "28000" => ErrorKind::Unauthenticated,
        "42000" => ErrorKind::NotFound,
        _ => ErrorKind::Unavailable,
    })
}

#[cfg(test)]
mod tests {
    use super::{bits, mode_as_checked};
    use serde_json::json;

    #[test]
    fn modes_that_change_how_strings_end_are_removed() {
        let check = |mode: &str, expected: &str| assert_eq!(mode_as_checked(mode), expected);
        let oracle = "PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ORACLE,NO_KEY_OPTIONS";
        check(oracle, "PIPES_AS_CONCAT,IGNORE_SPACE,NO_KEY_OPTIONS");
        check("STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES");
        check("ANSI,x' OR 1", "");
        check("", "");
    }

    #[test]
    fn bits_become_a_number() {
        assert_eq!(bits(&[5]), json!(5));
        assert_eq!(bits(&[1, 0]), json!(256));
        assert_eq!(bits(&[255; 8]), json!(u64::MAX));
        assert_eq!(bits(&[]), json!(0));
    }
}
