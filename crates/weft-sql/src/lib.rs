//! canvas → components → **external databases**: read-only statements, within limits.
//!
//! Three independent safeguards keep a statement from changing anything. It is parsed, and must only read, must not
//! call functions with side effects, and must be understood by its server in the same way as here (`statements`,
//! `rewrites`, `effects`, `misreadings`). It is sent in a form that accepts a single statement. And it is executed in a
//! read-only transaction. Servers are reached through `weft-net`, which checks and pins the address and closes a
//! connection that sends too much.

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

use weft_core::Json;
use weft_core::seam::databases::{DatabaseKind, SqlPart};

pub use clients::{DatabaseClients, OwnDatabase, SqliteFolder};

/// Checks SQL in advance: returns the reasons why its statements would be refused in every run, in the words of a run,
/// or nothing if all of them may be executed with some values for the placeholders. No database is contacted.
pub fn refusals(kind: DatabaseKind, sql: &[SqlPart]) -> Vec<String> {
    let with = |value: &Json| {
        let filled_in = |part: &SqlPart| match part {
            SqlPart::Value(_) => SqlPart::Value(value.clone()),
            SqlPart::Text(text) => SqlPart::Text(text.clone()),
        };
        statements::checked(kind, &sql.iter().map(filled_in).collect::<Vec<_>>())
    };
    let with_text = with(&Json::from("x"));
    // A value of one type may not be allowed where another is: what fails with all of them fails with any value.
    let others = [Json::Null, Json::from(1), Json::from(vec!["x", "y"])].map(|value| with(&value));
    match with_text {
        Ok(statements) => {
            let fails = |at: usize| {
                others.iter().all(|other| {
                    other.as_ref().map_or(true, |other| other.get(at).is_none_or(Result::is_err))
                })
            };
            let refused = statements.into_iter().enumerate();
            refused.filter(|(at, _)| fails(*at)).filter_map(|(_, one)| one.err()).collect()
        }
        Err(error) if others.iter().all(Result::is_err) => vec![error.full()],
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_known_before_execution() {
        let check = |sql: &str, expected: &[&str]| {
            let value = |text: &str| match text {
                "?" => SqlPart::Value(Json::Null),
                text => SqlPart::Text(text.to_owned()),
            };
            let found = refusals(
                DatabaseKind::Postgres,
                &sql.split_inclusive('?')
                    .flat_map(|part| match part.strip_suffix('?') {
                        Some(before) => vec![value(before), value("?")],
                        None => vec![value(part)],
                    })
                    .collect::<Vec<_>>(),
            );
            let told = found.iter().zip(expected).all(|(found, expected)| found.contains(expected));
            assert!(told && found.len() == expected.len(), "{sql}: {found:?}");
        };
        check("SELECT a FROM t; -- why\n SELECT 2", &[]);
        check("DELETE FROM t; SELECT 1; SELEC 2", &["DELETE is refused", "cannot be read"]);
        check("SELECT 'a", &["the SQL cannot be read"]);
        check("-- nothing", &["there is no SQL to execute"]);
        for right in [
            "SELECT a FROM t WHERE b = ? AND c LIKE '%?%' OR d IN (?) LIMIT ?",
            "SELECT CAST(? AS VARCHAR(?)), DATE ?, INTERVAL ? FROM t",
        ] {
            check(right, &[]);
        }
        check("DELETE FROM t WHERE a = ?", &["DELETE is refused"]);
        check("SELECT * FORM t WHERE a = ?", &["cannot be read"]);
        check("SELECT a FROM \"?\"", &["in a name"]);
    }
}
