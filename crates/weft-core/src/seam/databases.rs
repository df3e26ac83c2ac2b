//! Databases of others that a canvas asks.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;
use crate::secret::Secret;
use crate::value::Json;

/// What kind of server a database is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// A file of the tenant's workspace.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    MySql,
}

/// Where a database is.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    /// What kind it is.
    pub kind: DatabaseKind,
    /// The name of the server; empty for a file.
    pub host: String,
    /// The server's port; 0 for a file.
    pub port: u16,
    /// The database on the server, or the path of the file in the workspace.
    pub name: String,
    /// Who asks.
    pub user: String,
    /// How the server knows that it is them.
    pub password: Secret,
}

/// One part of a text of SQL.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlPart {
    /// SQL as it stands.
    Text(String),
    /// A value. It stands for itself wherever it is put, and is never read as SQL: a list is the list of its
    /// items with commas between them.
    Value(Json),
}

/// What to ask.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlRequest {
    /// Where.
    pub database: Database,
    /// One statement or several with `;` between them.
    pub sql: Vec<SqlPart>,
    /// Rows of one statement, at most; what is more is left out.
    pub rows_max: usize,
    /// Bytes of all answers together, at most.
    pub bytes_max: usize,
    /// For everything.
    pub time_limit: Duration,
}

/// The rows of one statement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SqlRows {
    /// The names of the columns, each one once.
    pub columns: Vec<String>,
    /// One value for each column. Numbers and truth values as such as long as nothing of them is lost, anything else as
    /// the database writes it.
    pub rows: Vec<Vec<Json>>,
    /// There were more rows than were asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// What became of one statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlAnswer {
    /// It was carried out.
    Rows(SqlRows),
    /// It was refused or failed: why. The statements behind it are carried out all the same.
    Failed(String),
}

/// The one way to databases of others.
///
/// An implementation carries out statements that read and nothing else, whatever the rights of the user are; it
/// connects to addresses only that canvases may reach, and keeps passwords out of every error.
#[async_trait]
pub trait Databases: Send + Sync + fmt::Debug {
    /// Asks a database: one answer for each statement, in their order.
    ///
    /// # Errors
    /// `Denied` for an address that may not be reached, `Unavailable` when nothing answers, `Unauthenticated` when
    /// the server refuses the user, `Timeout`, `Invalid` when there is no statement, more than
    /// [`STATEMENTS_MAX`], or more in an answer than was allowed.
    async fn ask(&self, tenant: &TenantId, request: SqlRequest) -> Result<Vec<SqlAnswer>>;
}

/// Statements of one request, at most.
pub const STATEMENTS_MAX: usize = 100;

/// No databases.
#[derive(Clone, Copy, Debug)]
pub struct NoDatabases;

#[async_trait]
impl Databases for NoDatabases {
    async fn ask(&self, _: &TenantId, _: SqlRequest) -> Result<Vec<SqlAnswer>> {
        Err(Error::new(ErrorKind::Denied, "no database can be asked here"))
    }
}
