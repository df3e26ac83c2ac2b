//! Collects the rows of answers within limits.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use weft_core::seam::databases::SqlRows;
use weft_core::{Error, ErrorKind, Json, Result};

/// Limits for all answers to one request together.
#[derive(Debug)]
pub(crate) struct ReplyRoom {
    rows_max: usize,
    bytes_left: usize,
    bytes_max: usize,
}

impl ReplyRoom {
    /// Allows `rows_max` rows for each statement, and `bytes_max` bytes for all of them.
    pub(crate) fn new(rows_max: usize, bytes_max: usize) -> Self {
        Self { rows_max, bytes_left: bytes_max, bytes_max }
    }

    /// Maximum number of rows for each statement.
    pub(crate) fn rows_max(&self) -> usize {
        self.rows_max
    }

    /// Adds a row; returns false if there were as many as requested and this is one more.
    ///
    /// # Errors
    /// `Invalid` if it does not fit.
    pub(crate) fn add(&mut self, rows: &mut SqlRows, row: Vec<Json>) -> Result<bool> {
        if rows.rows.len() == self.rows_max {
            rows.cut = true;
            return Ok(false);
        }
        let size: usize = row.iter().map(size).sum();
        self.bytes_left = self.bytes_left.checked_sub(size).ok_or_else(|| too_much(self.bytes_max))?;
        rows.rows.push(row);
        Ok(true)
    }
}

/// The error for an answer that is larger than allowed.
pub(crate) fn too_much(bytes_max: usize) -> Error {
    Error::invalid(format!("the database returned more than {bytes_max} bytes"))
        .help("select fewer columns or rows, or aggregate the rows")
}

/// The error for a database that exceeded its time limit.
pub(crate) fn late(limit: Duration) -> Error {
    let seconds = limit.as_secs_f64();
    Error::new(ErrorKind::Timeout, format!("the database has not answered within {seconds} s"))
        .help("query less at a time")
}

/// Waits for a connection to be authenticated, for up to a quarter of the time limit, but at least a second.
///
/// # Errors
/// `Unavailable` if the server does not respond in time.
pub(crate) async fn in_time<C>(
    signing_in: impl Future<Output = sqlx::Result<C>>,
    time_limit: Duration,
) -> Result<sqlx::Result<C>> {
    // A client of MySQL waits for a greeting, which a server of another kind never sends.
    let limit = (time_limit / 4).max(Duration::from_secs(1));
    tokio::time::timeout(limit, signing_in).await.map_err(|_| {
        let seconds = limit.as_secs_f64();
        let message = format!("no database accepts the user within {seconds} s");
        Error::new(ErrorKind::Unavailable, message)
            .help("check that `host` and `port` are those of a database of this `db_type`")
    })
}

/// The error for a server that refuses a connection or loses it; `kind` interprets the server's code, which may be
/// empty.
pub(crate) fn refused(cause: &sqlx::Error, kind: impl FnOnce(&str) -> ErrorKind) -> Error {
    match cause.as_database_error() {
        Some(said) => {
            let kind = kind(said.code().as_deref().unwrap_or_default());
            Error::new(kind, format!("the database refuses: {}", said.message()))
        }
        None => {
            let message = format!("the connection to the database failed: {cause}");
            let error = Error::new(ErrorKind::Unavailable, message);
            match cause {
                sqlx::Error::Tls(_) => {
                    error.help("set up TLS at the server, or set `sslmode` to what the server supports")
                }
                _ => error,
            }
        }
    }
}

/// Approximate memory use of a value.
fn size(value: &Json) -> usize {
    /// Size of a value without the data that it points to.
    const OWN: usize = 32;
    OWN + match value {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(size).sum(),
        Json::Object(members) => members.iter().map(|(name, value)| name.len() + size(value)).sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
    }
}

/// Makes column names unique: of two with the same name the second becomes `name_2`.
pub(crate) fn columns(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut columns = Vec::new();
    let (mut taken, mut next) = (HashSet::new(), HashMap::new());
    for name in names {
        let mut unique = name.clone();
        while taken.contains(&unique) {
            // Continues where the last one of this name ended: a query may give thousands of columns the same name.
            let count = next.entry(name.clone()).or_insert(2_usize);
            unique = format!("{name}_{count}");
            *count += 1;
        }
        taken.insert(unique.clone());
        columns.push(unique);
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn repeated_column_names_are_made_unique() {
        let names = ["id", "id", "id_2", "id"].map(str::to_owned);
        assert_eq!(columns(names), ["id", "id_2", "id_2_2", "id_3"]);
    }

    #[test]
    fn thousands_of_equal_column_names_are_made_unique_quickly() {
        let names = columns(std::iter::repeat_n("a".to_owned(), 50_000));
        assert_eq!((names[1].as_str(), names[49_999].as_str()), ("a_2", "a_50000"));
    }

    #[test]
    fn rows_stop_at_the_limits() {
        let mut rows = SqlRows::default();
        let mut room = ReplyRoom::new(2, 100);
        assert!(room.add(&mut rows, vec![json!(1)]).unwrap() && room.add(&mut rows, vec![json!(2)]).unwrap());
        assert!(!room.add(&mut rows, vec![json!(3)]).unwrap());
        assert!(rows.cut && rows.rows.len() == 2);
        let mut rows = SqlRows::default();
        assert!(room.add(&mut rows, vec![json!("x".repeat(100))]).unwrap_err().full().contains("100 bytes"));
    }
}
