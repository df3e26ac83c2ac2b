//! The location of a store, in words for people.

use std::fmt;
use std::path::PathBuf;

/// The location of a store. Never contains a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StorePlace {
    /// A SQLite file.
    File(PathBuf),
    /// A SQLite database that ends with the process.
    Memory,
    /// A database server: its kind, host and database.
    Server(String),
}

impl StorePlace {
    /// A server, described without user and password.
    pub(crate) fn server(kind: &str, url: &str) -> Self {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let rest = rest.split('?').next().unwrap_or_default();
        // At the last one: a password may contain others.
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        Self::Server(format!("the {kind} database `{rest}`"))
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file `{}`", path.display()),
            Self::Memory => f.write_str("the database in memory"),
            Self::Server(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_without_its_password() {
        let place =
            StorePlace::server("PostgreSQL", "postgres://me:s3cret@db.local:5432/weft?password=s3cret");
        assert_eq!(place.to_string(), "the PostgreSQL database `db.local:5432/weft`");
    }
}
