//! External databases in requests.

use weft_core::Secret;
use weft_core::seam::databases::{Database, DatabaseKind, TlsMode};

use crate::body::Body;
use crate::error::{ApiError, code};

/// Required fields; a file needs no server.
const NEEDED: [&str; 6] = ["db_type", "database", "username", "host", "port", "password"];

/// Reads the database from a body.
///
/// # Errors
/// 101 when something is missing or of another type; 100 for a type of database that is not supported.
pub fn read(body: &Body) -> Result<Database, ApiError> {
    let name = body.text("db_type")?.unwrap_or_default().trim().to_ascii_lowercase();
    let kind = match name.as_str() {
        "" => None,
        "mysql" | "mariadb" | "oceanbase" => Some(DatabaseKind::MySql),
        "postgres" | "postgresql" => Some(DatabaseKind::Postgres),
        "sqlite" => Some(DatabaseKind::Sqlite),
        _ => {
            let message = "unsupported `db_type`; use one of mysql, mariadb, oceanbase, postgres and sqlite";
            return Err(ApiError::new(code::EXCEPTION, message));
        }
    };
    let Some(kind) = kind.filter(|kind| *kind == DatabaseKind::Sqlite) else {
        body.require(&NEEDED)?;
        return of_server(body, kind);
    };
    body.require(&NEEDED[..2])?;
    let name = body.text("database")?.unwrap_or_default();
    let (host, user, password) = (String::new(), String::new(), Secret::new(""));
    Ok(Database { kind, host, port: 0, name, user, password, tls: TlsMode::default() })
}

fn of_server(body: &Body, kind: Option<DatabaseKind>) -> Result<Database, ApiError> {
    let text = |key: &str| Ok::<_, ApiError>(body.text(key)?.unwrap_or_default().trim().to_owned());
    let empty = ["database", "username", "host"]
        .into_iter()
        .filter(|key| text(key).is_ok_and(|text| text.is_empty()));
    let empty: Vec<&str> = empty.collect();
    if !empty.is_empty() {
        return Err(ApiError::argument(format!("required argument are missing: {}; ", empty.join(","))));
    }
    // Clients send it as a number or as a text.
    let port = body.get("port").map(weft_core::value::to_text).unwrap_or_default();
    let port = port.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| ApiError::argument("`port` must be a whole number from 1 to 65535"))?;
    // An error must not repeat the value, whatever it is.
    let password = match body.get("password") {
        Some(serde_json::Value::String(password)) => Secret::new(password.as_str()),
        _ => return Err(ApiError::argument("`password` must be a text")),
    };
    let sslmode = text("sslmode")?;
    let tls = match sslmode.as_str() {
        "" => TlsMode::default(),
        name => TlsMode::named(name).ok_or_else(|| {
            let names = TlsMode::ALL.map(TlsMode::as_str).join(", ");
            ApiError::argument(format!("`sslmode` must be one of {names}"))
        })?,
    };
    Ok(Database {
        kind: kind.unwrap_or(DatabaseKind::MySql),
        host: text("host")?,
        port,
        name: text("database")?,
        user: text("username")?,
        password,
        tls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(json: serde_json::Value) -> Body {
        Body::of(json).unwrap()
    }

    #[test]
    fn an_incomplete_database_setting_is_refused() {
        let full = json!({"db_type": "MariaDB", "database": "d", "username": "u", "host": " h ", "port": "3306", "password": ""});
        let read_one = read(&body(full.clone())).unwrap();
        assert_eq!((read_one.kind, read_one.host.as_str(), read_one.port), (DatabaseKind::MySql, "h", 3306));
        let refused = |key: &str, value: serde_json::Value| {
            let mut changed = full.clone();
            changed[key] = value;
            format!("{:?}", read(&body(changed)).unwrap_err())
        };
        for port in [json!(0), json!(65_536), json!(-1), json!("x"), json!(1.5)] {
            assert!(refused("port", port).contains("from 1 to 65535"));
        }
        assert!(refused("host", json!(null)).contains("missing: host; "));
        assert!(refused("database", json!(" ")).contains("missing: database; "));
        assert!(refused("db_type", json!("trino")).contains("unsupported `db_type`"));
        assert!(refused("sslmode", json!("on")).contains("disable, prefer, require, verify-full"));
        let mut encrypted = full.clone();
        encrypted["sslmode"] = json!("verify-full");
        assert_eq!(
            (read_one.tls, read(&body(encrypted)).unwrap().tls),
            (TlsMode::Prefer, TlsMode::VerifyFull)
        );
        let told = refused("password", json!(["s3cret"]));
        assert!(told.contains("must be a text") && !told.contains("s3cret"), "{told}");
        let file = read(&body(json!({"db_type": "sqlite", "database": "a.db"}))).unwrap();
        assert_eq!((file.kind, file.name.as_str()), (DatabaseKind::Sqlite, "a.db"));
    }
}
