//! What must hold for every kind of database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weft_core::seam::Databases as _;
use weft_core::seam::databases::{Database, SqlAnswer, SqlPart, SqlRequest};
use weft_core::{ErrorKind, Result};
use weft_net::{AllowList, Outbound};
use weft_sql::DatabaseClients;

/// Creates what [`keeps_it`] queries, in every dialect.
pub(crate) const SET_UP: [&str; 4] = [
    "CREATE TABLE person (id INTEGER PRIMARY KEY, name VARCHAR(40), born DATE, height DECIMAL(6, 2), note TEXT)",
    "INSERT INTO person VALUES (1, 'Ada', '1815-12-10', 1.65, NULL)",
    "INSERT INTO person VALUES (2, 'Grace; \"Hop\"', '1906-12-09', 1.70, 'a|b')",
    "INSERT INTO person VALUES (3, '汉字', '2000-01-01', 1.80, '')",
];

pub(crate) fn clients(files: Option<PathBuf>) -> DatabaseClients {
    let outbound = Outbound::open(AllowList::parse(["127.0.0.1"]).unwrap());
    DatabaseClients::new(Arc::new(outbound), Arc::new(move |_| files.clone()), None)
}

pub(crate) fn text(sql: &str) -> Vec<SqlPart> {
    vec![SqlPart::Text(sql.to_owned())]
}

pub(crate) fn request(database: &Database, sql: Vec<SqlPart>) -> SqlRequest {
    let time_limit = Duration::from_secs(20);
    SqlRequest { database: database.clone(), sql, rows_max: 2, bytes_max: 100_000, time_limit }
}

pub(crate) async fn asked(
    clients: &DatabaseClients,
    database: &Database,
    sql: Vec<SqlPart>,
) -> Result<Vec<SqlAnswer>> {
    clients.ask(&"t".into(), request(database, sql)).await
}

async fn one(clients: &DatabaseClients, database: &Database, sql: &str) -> Json {
    json!(asked(clients, database, text(sql)).await.unwrap()[0])
}

/// The message of a statement that failed.
fn failed(answer: &SqlAnswer) -> &str {
    match answer {
        SqlAnswer::Failed(why) => why,
        SqlAnswer::Rows(rows) => panic!("it was executed: {rows:?}"),
    }
}

pub(crate) async fn keeps_it(clients: &DatabaseClients, database: &Database, endless: &str) {
    rows_come_as_values(clients, database).await;
    statements_fail_alone(clients, database).await;
    values_are_bound(clients, database).await;
    nothing_is_changed(clients, database).await;
    answers_stay_within_their_limits(clients, database, endless).await;
}

async fn rows_come_as_values(clients: &DatabaseClients, database: &Database) {
    let sql = "SELECT id, name, born, height, note FROM person WHERE id < 3 ORDER BY id";
    let rows =
        [json!([1, "Ada", "1815-12-10", 1.65, null]), json!([2, "Grace; \"Hop\"", "1906-12-09", 1.7, "a|b"])];
    let columns = ["id", "name", "born", "height", "note"];
    assert_eq!(one(clients, database, sql).await, json!({"rows": {"columns": columns, "rows": rows}}));
    let twice = one(clients, database, "SELECT id, id FROM person WHERE name = '汉字'").await;
    assert_eq!(twice, json!({"rows": {"columns": ["id", "id_2"], "rows": [[3, 3]]}}));
    let none = one(clients, database, "SELECT id FROM person WHERE id = 99").await;
    assert_eq!(none, json!({"rows": {"columns": ["id"], "rows": []}}));
    let cut = one(clients, database, "SELECT id FROM person ORDER BY id").await;
    assert_eq!(cut, json!({"rows": {"columns": ["id"], "rows": [[1], [2]], "cut": true}}));
}

async fn statements_fail_alone(clients: &DatabaseClients, database: &Database) {
    let sql = "SELECT 1 AS a; SELECT id FROM nowhere; DROP TABLE person; SELECT 2 AS b;";
    let answers = asked(clients, database, text(sql)).await.unwrap();
    assert_eq!(answers.len(), 4);
    assert_eq!(json!(answers[0]), json!({"rows": {"columns": ["a"], "rows": [[1]]}}));
    assert!(failed(&answers[1]).contains("nowhere"), "{:?}", answers[1]);
    assert!(failed(&answers[2]).contains("DROP is refused"), "{:?}", answers[2]);
    assert_eq!(json!(answers[3]), json!({"rows": {"columns": ["b"], "rows": [[2]]}}));
}

async fn values_are_bound(clients: &DatabaseClients, database: &Database) {
    let names = |value: Json| {
        let parts = [
            SqlPart::Text("SELECT name FROM person WHERE name = ".to_owned()),
            SqlPart::Value(value),
            SqlPart::Text(" ORDER BY id".to_owned()),
        ];
        asked(clients, database, parts.to_vec())
    };
    for (value, found) in [
        ("Ada", json!([["Ada"]])),
        ("Grace; \"Hop\"", json!([["Grace; \"Hop\""]])),
        ("x' OR '1'='1", json!([])),
        ("x\\' OR 1=1 -- ", json!([])),
        ("汉字", json!([["汉字"]])),
    ] {
        let answers = names(json!(value)).await.unwrap();
        assert_eq!(json!(answers[0])["rows"]["rows"], found, "{value}");
    }
    // Every value comes back unchanged.
    for value in ["'", "''", "\\", "\\'", "a\nb\tc", "%_", "🦀 汉", "\u{1}", "{x} :y $1 ?"] {
        let parts = vec![
            SqlPart::Text("SELECT ".to_owned()),
            SqlPart::Value(json!(value)),
            SqlPart::Text(" AS v".into()),
        ];
        let answers = asked(clients, database, parts).await.unwrap();
        assert_eq!(json!(answers[0])["rows"]["rows"], json!([[value]]), "{value:?}");
        let within = vec![
            SqlPart::Text("SELECT '<".to_owned()),
            SqlPart::Value(json!(value)),
            SqlPart::Text(">' AS v".into()),
        ];
        let answers = asked(clients, database, within).await.unwrap();
        assert_eq!(json!(answers[0])["rows"]["rows"], json!([[format!("<{value}>")]]), "{value:?}");
    }
    let list = vec![
        SqlPart::Text("SELECT id FROM person WHERE id IN (".to_owned()),
        SqlPart::Value(json!([1, 3, -5])),
        SqlPart::Text(") ORDER BY id".to_owned()),
    ];
    assert_eq!(json!(asked(clients, database, list).await.unwrap()[0])["rows"]["rows"], json!([[1], [3]]));
}

async fn nothing_is_changed(clients: &DatabaseClients, database: &Database) {
    for sql in [
        "INSERT INTO person VALUES (9, 'x', NULL, NULL, NULL)",
        "UPDATE person SET name = 'x'",
        "DELETE FROM person",
        "WITH gone AS (DELETE FROM person RETURNING id) SELECT * FROM gone",
        "CREATE TABLE other (a INTEGER)",
        "BEGIN; DELETE FROM person; COMMIT",
        "EXPLAIN ANALYZE DELETE FROM person",
    ] {
        let answers = asked(clients, database, text(sql)).await.unwrap();
        assert!(answers.iter().any(|answer| matches!(answer, SqlAnswer::Failed(_))), "{sql}");
    }
    let left = one(clients, database, "SELECT COUNT(*) AS n, MIN(name) AS name FROM person").await;
    assert_eq!(left["rows"]["rows"], json!([[3, "Ada"]]));
}

async fn answers_stay_within_their_limits(clients: &DatabaseClients, database: &Database, endless: &str) {
    let long = format!("SELECT '{}' AS a, '{0}' AS b", "x".repeat(60_000));
    let error = asked(clients, database, text(&long)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.full().contains("100000 bytes"), "{}", error.full());
    let began = Instant::now();
    let slow = SqlRequest { time_limit: Duration::from_millis(1_500), ..request(database, text(endless)) };
    let late = match clients.ask(&"t".into(), slow).await {
        Err(error) => error.kind == ErrorKind::Timeout,
        Ok(answers) => failed(&answers[0]).contains("time"),
    };
    assert!(late && began.elapsed() < Duration::from_secs(15));
    for sql in ["", ";;", "SELECT 'a"] {
        assert_eq!(asked(clients, database, text(sql)).await.unwrap_err().kind, ErrorKind::Invalid);
    }
}
