//! canvas → components → **databases of others**: statements that read, within limits.
//!
//! Three things keep a statement from changing anything, each on its own: it is parsed and has to be one that reads,
//! to call nothing that does more, and to be read by its server as it is here (`statements`, `rewrites`, `effects`, `misreadings`); it is handed over in a way that takes one statement only; and it is carried out in a transaction
//! that the server lets read and nothing else. Servers are reached by way of `weft-net`, which checks and pins the
//! address and ends what sends too much.

mod cell;
mod chains;
mod clients;
mod effects;
mod misreadings;
mod mysql;
mod postgres;
mod reply;
mod rewrites;
mod sqlite;
mod statements;

use weft_core::seam::databases::{DatabaseKind, SqlPart};

pub use clients::{DatabaseClients, OwnDatabase, SqliteFolder};

/// Why statements that are written down would be refused whenever they are asked for, in the words of a run; nothing when
/// all of them may be carried out. Nobody is asked.
pub fn refusals(kind: DatabaseKind, sql: &str) -> Vec<String> {
    match statements::checked(kind, &[SqlPart::Text(sql.to_owned())]) {
        Ok(found) => found.into_iter().filter_map(Result::err).collect(),
        Err(error) => vec![error.full()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_known_before_it_is_asked() {
        let check = |sql: &str, expected: &[&str]| {
            let found = refusals(DatabaseKind::Postgres, sql);
            let told = found.iter().zip(expected).all(|(found, expected)| found.contains(expected));
            assert!(told && found.len() == expected.len(), "{sql}: {found:?}");
        };
        check("SELECT a FROM t; -- why\n SELECT 2", &[]);
        check("DELETE FROM t; SELECT 1; SELEC 2", &["DELETE is refused", "cannot be read"]);
        check("SELECT 'a", &["the SQL cannot be read"]);
        check("-- nothing", &["there is no SQL to carry out"]);
    }
}
