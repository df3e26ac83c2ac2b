//! SQLite databases in files of a tenant's workspace.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use weft_core::seam::databases::{SqlAnswer, SqlRows};
use weft_core::seam::workspace::names;
use weft_core::{Error, ErrorKind, Json, Result, blocking};

use crate::cell::binary;
use crate::reply::{ReplyRoom, columns, late};
use crate::statements::CheckedStatement;

/// Maximum size of one value or row, in bytes.
const VALUE_MAX: i32 = 4 << 20;
/// Maximum length of a `LIKE` pattern, in bytes: matching is a single step that cannot be interrupted.
const PATTERN_MAX: i32 = 1_000;
/// Maximum number of bytes of binary data that are shown in hexadecimal: enough for an id or a digest. Files store
/// whole pictures in their rows, whose digits are of no use.
const DIGITS_BYTES_MAX: usize = 256;
/// Number of virtual machine instructions between two checks of the deadline.
const STEPS: i32 = 10_000;
/// How long to wait for another connection that is writing.
const BUSY: Duration = Duration::from_secs(2);

/// A file to query, and the time limit.
pub(crate) struct SqliteRequest {
    pub folder: PathBuf,
    pub path: String,
    pub time_limit: Duration,
}

/// Executes statements on a file.
pub(crate) async fn ask(
    asked: SqliteRequest,
    statements: Vec<CheckedStatement>,
    room: ReplyRoom,
) -> Result<Vec<SqlAnswer>> {
    blocking("the database query", move || carried_out(&asked, statements, room)).await
}

fn carried_out(
    asked: &SqliteRequest,
    statements: Vec<CheckedStatement>,
    mut room: ReplyRoom,
) -> Result<Vec<SqlAnswer>> {
    let connection = open(asked)?;
    let one = |statement: CheckedStatement| match statement {
        Ok(sql) => match rows(&connection, &sql, &mut room) {
            Ok(rows) => Ok(SqlAnswer::Rows(rows)),
            // Nothing but the deadline interrupts a statement.
            Err(SqliteFailure::Statement(cause)) if is_interrupted(&cause) => Err(late(asked.time_limit)),
            Err(SqliteFailure::Statement(cause)) => Ok(SqlAnswer::Failed(cause.to_string())),
            Err(SqliteFailure::Everything(error)) => Err(error),
        },
        Err(why) => Ok(SqlAnswer::Failed(why)),
    };
    statements.into_iter().map(one).collect()
}

fn open(asked: &SqliteRequest) -> Result<Connection> {
    let file = asked.folder.join(names(&asked.path)?.join("/"));
    let missing = || {
        Error::not_found(format!("there is no database `{}`", asked.path))
            .help("name a file below `files.root`")
    };
    // Links are resolved, because what matters is where the path leads.
    let folder = asked.folder.canonicalize().map_err(|_| missing())?;
    let file = file.canonicalize().map_err(|_| missing())?;
    if !file.starts_with(&folder) {
        return Err(Error::new(ErrorKind::Denied, format!("`{}` leads outside of the files", asked.path)));
    }
    if !file.is_file() {
        return Err(Error::invalid(format!("`{}` is not a regular file", asked.path)));
    }
    // SQLite refuses a path that has become a link since it was checked.
    // The connection stays on one thread, so it needs no mutex.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(&file, flags).map_err(|cause| cannot(&asked.path, cause))?;
    let deadline = Instant::now() + asked.time_limit;
    let set = || -> rusqlite::Result<()> {
        connection.busy_timeout(BUSY)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_MAX)?;
        // No other file may be attached, since its path would not be checked.
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.progress_handler(STEPS, Some(move || Instant::now() >= deadline))?;
        connection
            // The file is untrusted: its views and triggers may call functions with side effects, and its pages may be
            // crafted to mislead the reader.
            .execute_batch("PRAGMA query_only = 1; PRAGMA trusted_schema = 0; PRAGMA cell_size_check = 1")
    };
    set().map_err(|cause| cannot(&asked.path, cause))?;
    Ok(connection)
}

fn cannot(path: &str, cause: rusqlite::Error) -> Error {
    Error::invalid(format!("`{path}` cannot be opened as a SQLite database")).because(cause)
}

fn is_interrupted(cause: &rusqlite::Error) -> bool {
    cause.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted)
}

enum SqliteFailure {
    Statement(rusqlite::Error),
    Everything(Error),
}

impl From<rusqlite::Error> for SqliteFailure {
    fn from(cause: rusqlite::Error) -> Self {
        Self::Statement(cause)
    }
}

fn rows(
    connection: &Connection,
    sql: &str,
    room: &mut ReplyRoom,
) -> std::result::Result<SqlRows, SqliteFailure> {
    let mut statement = connection.prepare(sql)?;
    let names = statement.column_names().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let width = names.len();
    let mut rows = SqlRows { columns: columns(names), ..SqlRows::default() };
    let mut coming = statement.query([])?;
    while let Some(row) = coming.next()? {
        let cells =
            (0..width).map(|place| row.get_ref(place).map(cell)).collect::<rusqlite::Result<Vec<_>>>()?;
        if !room.add(&mut rows, cells).map_err(SqliteFailure::Everything)? {
            break;
        }
    }
    Ok(rows)
}

fn cell(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(whole) => whole.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        ValueRef::Blob(bytes) if bytes.len() <= DIGITS_BYTES_MAX => binary(bytes),
        ValueRef::Blob(bytes) => format!("<binary, {} bytes>", bytes.len()).into(),
    }
}
