//! SQLite files.

use std::path::Path;

use serde_json::json;
use weft_core::ErrorKind;
use weft_core::seam::databases::{Database, DatabaseKind, SqlAnswer, TlsMode};
use weft_core::secret::Secret;

use crate::contract::{SET_UP, asked, clients, keeps_it, text};

fn made(folder: &Path) -> Database {
    let connection = rusqlite::Connection::open(folder.join("people.db")).unwrap();
    for sql in SET_UP {
        connection.execute_batch(sql).unwrap();
    }
    file("people.db")
}

fn file(name: &str) -> Database {
    let (host, user, name) = (String::new(), String::new(), name.to_owned());
    let (password, tls) = (Secret::default(), TlsMode::default());
    Database { kind: DatabaseKind::Sqlite, host, port: 0, name, user, password, tls }
}

#[tokio::test]
async fn a_file_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let database = made(folder.path());
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT SUM(x) FROM c";
    keeps_it(&clients(Some(folder.path().to_owned())), &database, endless).await;
}

#[tokio::test]
async fn paths_cannot_leave_the_folder_and_no_file_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    made(outside.path());
    let inside = folder.path().join("in");
    std::fs::create_dir(&inside).unwrap();
    std::os::unix::fs::symlink(outside.path().join("people.db"), inside.join("link.db")).unwrap();
    std::os::unix::fs::symlink(outside.path(), inside.join("folder")).unwrap();
    std::fs::write(inside.join("text.db"), "no database at all, but long enough to look at").unwrap();
    let clients = clients(Some(inside.clone()));
    for (path, kind) in [
        ("link.db", ErrorKind::Denied),
        ("folder/people.db", ErrorKind::Denied),
        ("../people.db", ErrorKind::Denied),
        ("/etc/passwd", ErrorKind::Denied),
        ("missing.db", ErrorKind::NotFound),
        ("", ErrorKind::Invalid),
        ("file:people.db?mode=rwc", ErrorKind::Invalid),
    ] {
        let error = asked(&clients, &file(path), text("SELECT 1")).await.unwrap_err();
        assert_eq!(error.kind, kind, "{path}: {}", error.full());
    }
    let broken = asked(&clients, &file("text.db"), text("SELECT * FROM a")).await;
    assert!(matches!(broken.as_deref(), Err(_) | Ok([SqlAnswer::Failed(_)])), "{broken:?}");
    assert!(!inside.join("missing.db").exists());
    let none = asked(&crate::contract::clients(None), &file("a.db"), text("SELECT 1")).await.unwrap_err();
    assert_eq!(none.kind, ErrorKind::Denied);
}

#[tokio::test]
async fn large_values_and_other_files_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let database = made(folder.path());
    let clients = clients(Some(folder.path().to_owned()));
    let pattern = format!("SELECT 'a' LIKE '{}'", "%a".repeat(1_000));
    for sql in [
        pattern.as_str(),
        "SELECT hex(zeroblob(900000000))",
        "ATTACH DATABASE 'other.db' AS other",
        "SELECT load_extension('x')",
        "SELECT writefile('x', 'y')",
        "PRAGMA query_only = 0",
        "SELECT json_pretty('[1]')",
    ] {
        let answers = asked(&clients, &database, text(sql)).await.unwrap();
        assert!(matches!(answers[0], SqlAnswer::Failed(_)), "{sql}: {answers:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let sql = "SELECT x'0001' AS b, 1.5 AS r, zeroblob(70000) AS picture";
    let blob = asked(&clients, &database, text(sql)).await.unwrap();
    assert_eq!(json!(blob[0])["rows"]["rows"], json!([["0x0001", 1.5, "<binary, 70000 bytes>"]]));
}

#[tokio::test]
async fn the_path_of_a_file_is_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let database = made(folder.path());
    let connection = rusqlite::Connection::open(folder.path().join("people.db")).unwrap();
    connection.execute_batch("CREATE VIEW place AS SELECT file FROM pragma_database_list").unwrap();
    let clients = clients(Some(folder.path().to_owned()));
    for sql in [
        "PRAGMA database_list",
        "SELECT * FROM pragma_database_list",
        "SELECT file FROM \"Pragma_Database_List\"()",
        "SELECT * FROM place",
    ] {
        let answers = asked(&clients, &database, text(sql)).await.unwrap();
        assert!(matches!(answers[0], SqlAnswer::Failed(_)), "{sql}: {answers:?}");
    }
    let names =
        asked(&clients, &database, text("SELECT name FROM pragma_table_info('person')")).await.unwrap();
    assert_eq!(json!(names[0])["rows"]["rows"], json!([["id"], ["name"]]));
}

#[tokio::test]
async fn functions_of_quadratic_time_are_only_called_with_short_values() {
    let folder = tempfile::tempdir().unwrap();
    let database = made(folder.path());
    let clients = clients(Some(folder.path().to_owned()));
    let long = "replace(hex(zeroblob(1200000)), '00', 'aa')";
    // Every use of `a` is a call of its own.
    let repeated = format!("SELECT a{} FROM (SELECT instr(name || x, 'b') AS a", ", a".repeat(300));
    for sql in [
        format!("SELECT instr({long}, replace(hex(zeroblob(600000)), '00', 'aa') || 'b')"),
        format!("SELECT trim(hex(zeroblob(1200000)), {long})"),
        format!("{repeated} FROM (SELECT name, hex(zeroblob(20000)) AS x FROM person))"),
    ] {
        let answers = asked(&clients, &database, text(&sql)).await.unwrap();
        assert!(
            matches!(&answers[0], SqlAnswer::Failed(why) if why.contains("at most")),
            "{sql}: {answers:?}"
        );
    }
    let sql = "SELECT instr(name, 'd'), replace(name, 'A', 'B'), trim(name), name LIKE 'a%' FROM person LIMIT 1; \
               SELECT length(hex(zeroblob(1200000)))";
    let answers = asked(&clients, &database, text(sql)).await.unwrap();
    assert_eq!(json!(answers[0])["rows"]["rows"], json!([[2, "Bda", "Ada", 1]]));
    assert_eq!(json!(answers[1])["rows"]["rows"], json!([[2_400_000]]));
}
