//! SQLite databases in files of a tenant's workspace.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::OwnedSemaphorePermit;
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
/// Number of virtual machine instructions between two checks of the deadline. An instruction can be a function that
/// reads a value of [`VALUE_MAX`], so there are few of them.
const STEPS: i32 = 100;
/// The same for a statement that calls one of [`PAIRING`] or [`MATCHING`]: the deadline is checked at every jump.
const SLOW_STEPS: i32 = 1;
/// Functions that may compare every byte of one argument with every byte of another one. A call is a single step that
/// cannot be interrupted.
const PAIRING: [&str; 7] = ["instr", "json_patch", "jsonb_patch", "ltrim", "replace", "rtrim", "trim"];
/// Functions that may compare every byte of a value with every byte of a pattern of [`PATTERN_MAX`].
const MATCHING: [&str; 2] = ["glob", "like"];
/// Maximum number of comparisons by such functions between two checks of the deadline: some seconds.
const COMPARISONS_MAX: u64 = 1 << 32;
/// Functions that are refused: the result has no limit before it is complete, and deep lists make it huge.
const REFUSED_FUNCTIONS: [&str; 1] = ["json_pretty"];
/// Pragmas that are refused, also as table-valued functions and in views of the file: they tell paths of the machine.
const REFUSED_PRAGMAS: [&str; 3] = ["data_store_directory", "database_list", "temp_store_directory"];
/// How long to wait for another connection that is writing.
const BUSY: Duration = Duration::from_secs(2);

/// A file to query, and the time limit.
pub(crate) struct SqliteRequest {
    pub folder: PathBuf,
    pub path: String,
    pub time_limit: Duration,
    /// Held by the thread of the query, which may outlive the wait for it.
    pub permit: OwnedSemaphorePermit,
}

/// Executes statements on a file.
pub(crate) async fn ask(
    asked: SqliteRequest,
    statements: Vec<CheckedStatement>,
    room: ReplyRoom,
) -> Result<Vec<SqlAnswer>> {
    let work = move || {
        let answers = carried_out(&asked, statements, room);
        drop(asked.permit);
        answers
    };
    blocking("the database query", work).await
}

fn carried_out(
    asked: &SqliteRequest,
    statements: Vec<CheckedStatement>,
    mut room: ReplyRoom,
) -> Result<Vec<SqlAnswer>> {
    let connection = open(asked)?;
    let deadline = Instant::now() + asked.time_limit;
    let one = |statement: CheckedStatement| match statement {
        Ok(sql) => match rows(&connection, &sql, deadline, &mut room) {
            Ok(rows) => Ok(SqlAnswer::Rows(rows)),
            // Nothing but the deadline interrupts a statement.
            Err(SqliteFailure::Statement(cause)) if is_interrupted(&cause) => Err(late(asked.time_limit)),
            Err(SqliteFailure::Statement(cause)) => Ok(SqlAnswer::Failed(told(&connection, &cause))),
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
    let set = || -> rusqlite::Result<()> {
        connection.busy_timeout(BUSY)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_MAX)?;
        // No other file may be attached, since its path would not be checked.
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection
            // The file is untrusted: its views and triggers may call functions with side effects, and its pages may be
            // crafted to mislead the reader.
            .execute_batch("PRAGMA query_only = 1; PRAGMA trusted_schema = 0; PRAGMA cell_size_check = 1")?;
        // Asked about the views of the file, and about the pragmas behind table-valued functions, too.
        connection.authorizer(Some(authorized))
    };
    set().map_err(|cause| cannot(&asked.path, cause))?;
    Ok(connection)
}

fn cannot(path: &str, cause: rusqlite::Error) -> Error {
    Error::invalid(format!("`{path}` cannot be opened as a SQLite database")).because(cause)
}

fn authorized(context: AuthContext<'_>) -> Authorization {
    let is_refused = match context.action {
        AuthAction::Function { function_name } => is_one_of(&REFUSED_FUNCTIONS, function_name.as_bytes()),
        AuthAction::Pragma { pragma_name, .. } => is_one_of(&REFUSED_PRAGMAS, pragma_name.as_bytes()),
        _ => false,
    };
    if is_refused { Authorization::Deny } else { Authorization::Allow }
}

fn is_one_of(names: &[&str], name: &[u8]) -> bool {
    names.iter().any(|one| one.as_bytes().eq_ignore_ascii_case(name))
}

/// The message of a statement that failed.
fn told(connection: &Connection, cause: &rusqlite::Error) -> String {
    if cause.sqlite_error_code() != Some(rusqlite::ErrorCode::TooBig) {
        return cause.to_string();
    }
    match connection.limit(Limit::SQLITE_LIMIT_LENGTH) {
        Ok(max) => format!(
            "{cause}: values of this statement may have at most {max} bytes; calls of functions such as `instr`, \
             `replace`, `trim` and `like` lower this limit"
        ),
        Err(_) => cause.to_string(),
    }
}

/// Limits the time and the memory of a statement.
fn confine(connection: &Connection, sql: &str, deadline: Instant) -> rusqlite::Result<()> {
    let limit = |value_max: i32, steps: i32| -> rusqlite::Result<()> {
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, value_max)?;
        connection.progress_handler(steps, Some(move || Instant::now() >= deadline))
    };
    limit(VALUE_MAX, STEPS)?;
    let statement = connection.prepare(sql)?;
    // It is not executed, and cannot be explained again.
    if statement.is_explain() != 0 {
        return Ok(());
    }
    match value_max(connection, sql)? {
        Some(value_max) => limit(value_max, SLOW_STEPS),
        None => Ok(()),
    }
}

/// Returns the maximum size of values with which a statement calls slow functions for no longer than
/// [`COMPARISONS_MAX`], or `None` without such calls. The deadline is checked at jumps, so what counts is the number of
/// calls in the compiled program, which may be higher than in the text: subqueries and aliases are repeated.
fn value_max(connection: &Connection, sql: &str) -> rusqlite::Result<Option<i32>> {
    let mut program = connection.prepare(&format!("EXPLAIN {sql}"))?;
    let (mut pairing, mut matching) = (0_u64, 0_u64);
    let mut instructions = program.query([])?;
    while let Some(instruction) = instructions.next()? {
        let ValueRef::Text(b"Function" | b"PureFunc") = instruction.get_ref("opcode")? else { continue };
        // A name and the number of arguments, such as `instr(2)`.
        let ValueRef::Text(call) = instruction.get_ref("p4")? else { continue };
        let name = call.split(|byte| *byte == b'(').next().unwrap_or_default();
        pairing += u64::from(is_one_of(&PAIRING, name));
        matching += u64::from(is_one_of(&MATCHING, name));
    }
    let pattern_max = u64::from(PATTERN_MAX.unsigned_abs());
    let of_pairing = COMPARISONS_MAX.checked_div(pairing).map(u64::isqrt);
    let of_matching = COMPARISONS_MAX.checked_div(matching).map(|count| count / pattern_max);
    let lower = [of_pairing, of_matching].into_iter().flatten().min();
    Ok(lower.map(|max| i32::try_from(max).unwrap_or(VALUE_MAX).min(VALUE_MAX)))
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
    deadline: Instant,
    room: &mut ReplyRoom,
) -> std::result::Result<SqlRows, SqliteFailure> {
    confine(connection, sql, deadline)?;
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
