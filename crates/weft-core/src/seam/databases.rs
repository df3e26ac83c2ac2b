//! External databases that canvases query.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;
use crate::secret::Secret;
use crate::value::Json;

/// The kind of a database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// An SQLite file in the tenant's workspace.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    MySql,
}

/// Whether the connection to a database server is encrypted, in the words of PostgreSQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// It is not.
    Disable,
    /// If the server offers it. Whoever controls the network can prevent it.
    #[default]
    Prefer,
    /// Always, with any certificate.
    Require,
    /// Always, with a certificate from a trusted authority for the name of the server.
    VerifyFull,
}

impl TlsMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Disable, Self::Prefer, Self::Require, Self::VerifyFull];

    /// Returns the name used for it in canvases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyFull => "verify-full",
        }
    }

    /// Returns the mode of this name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str().eq_ignore_ascii_case(name.trim()))
    }
}

/// The location of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    /// Its kind.
    pub kind: DatabaseKind,
    /// The host name of the server; empty for a file.
    pub host: String,
    /// The server's port; 0 for a file.
    pub port: u16,
    /// The database on the server, or the path of the file in the workspace.
    pub name: String,
    /// The user name.
    pub user: String,
    /// The user's password.
    pub password: Secret,
    /// Whether the connection is encrypted; without meaning for a file.
    pub tls: TlsMode,
}

/// One part of an SQL text.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlPart {
    /// SQL, used verbatim.
    Text(String),
    /// A value. It is always passed as a value and never interpreted as SQL; a list becomes its items separated by
    /// commas.
    Value(Json),
}

/// A request to a database.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlRequest {
    /// The database.
    pub database: Database,
    /// One statement, or several separated by `;`.
    pub sql: Vec<SqlPart>,
    /// Maximum number of rows per statement; further rows are left out.
    pub rows_max: usize,
    /// Maximum size of all answers combined, in bytes.
    pub bytes_max: usize,
    /// Time limit for the whole request.
    pub time_limit: Duration,
}

/// The rows of one statement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SqlRows {
    /// The names of the columns, made unique.
    pub columns: Vec<String>,
    /// One value for each column. Numbers and booleans are kept as such if they can be represented exactly;
    /// everything else is in the database's text form.
    pub rows: Vec<Vec<Json>>,
    /// Whether there were more rows than requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// The outcome of one statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlAnswer {
    /// It was carried out.
    Rows(SqlRows),
    /// It was refused or failed, with the reason. The statements after it are still executed.
    Failed(String),
}

/// The only way to external databases.
///
/// An implementation executes only statements that read, regardless of the user's privileges; connects only to
/// addresses that canvases may reach; and keeps passwords out of all errors.
#[async_trait]
pub trait Databases: Send + Sync + fmt::Debug {
    /// Queries a database. Returns one answer per statement, in order.
    ///
    /// # Errors
    /// `Denied` for an address that must not be reached, `Unavailable` when nothing responds, `Unauthenticated` when
    /// the server rejects the user, `Timeout`, `Invalid` when there is no statement, when there are more than
    /// [`STATEMENTS_MAX`], or when an answer exceeds the limit.
    async fn ask(&self, tenant: &TenantId, request: SqlRequest) -> Result<Vec<SqlAnswer>>;
}

/// Maximum number of statements in one request.
pub const STATEMENTS_MAX: usize = 100;

/// There are no databases.
#[derive(Clone, Copy, Debug)]
pub struct NoDatabases;

#[async_trait]
impl Databases for NoDatabases {
    async fn ask(&self, _: &TenantId, _: SqlRequest) -> Result<Vec<SqlAnswer>> {
        Err(Error::new(ErrorKind::Denied, "database queries are not available here"))
    }
}
