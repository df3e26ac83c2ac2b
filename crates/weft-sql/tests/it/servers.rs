//! Database servers, where some are running on this machine.

use serde_json::json;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use weft_core::ErrorKind;
use weft_core::seam::databases::{Database, DatabaseKind, SqlAnswer, SqlPart, TlsMode};
use weft_core::secret::Secret;

use crate::contract::{SET_UP, asked, clients, keeps_it, text};

fn server(kind: DatabaseKind, user: &str, port: u16) -> Database {
    let name = format!("weft_sql_{}_{port}", std::process::id());
    let host = "127.0.0.1".to_owned();
    let (user, password, tls) = (user.to_owned(), Secret::default(), TlsMode::default());
    Database { kind, host, port, name, user, password, tls }
}

async fn postgres() -> Option<(sqlx::PgConnection, Database)> {
    for user in ["postgres", "root"] {
        let options = sqlx::postgres::PgConnectOptions::new_without_pgpass();
        let options = options.host("127.0.0.1").port(5432).username(user).database("postgres");
        if let Ok(connection) = options.connect().await {
            return Some((connection, server(DatabaseKind::Postgres, user, 5432)));
        }
    }
    weft_testkit::skipped("no PostgreSQL answers at 127.0.0.1:5432");
    None
}

async fn mysql() -> Option<(sqlx::MySqlConnection, Database)> {
    let options = sqlx::mysql::MySqlConnectOptions::new().host("127.0.0.1").port(3306).username("root");
    if let Ok(connection) = options.connect().await {
        return Some((connection, server(DatabaseKind::MySql, "root", 3306)));
    }
    weft_testkit::skipped("no MariaDB answers at 127.0.0.1:3306");
    None
}

#[tokio::test]
async fn postgres_keeps_the_contract() {
    let Some((mut admin, database)) = postgres().await else { return };
    let name = database.name.clone();
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    let options =
        sqlx::postgres::PgConnectOptions::new_without_pgpass().host("127.0.0.1").username(&database.user);
    let mut inside = options.database(&name).connect().await.unwrap();
    for sql in SET_UP {
        inside.execute(sql).await.unwrap();
    }
    let clients = clients(None);
    keeps_it(
        &clients,
        &database,
        "SELECT COUNT(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b, generate_series(1, 100000) c",
    )
    .await;
    let sql = "SELECT '{\"a\": [1]}'::jsonb AS j, ARRAY[1,2] AS l, '2024-02-03 04:05:06+00'::timestamptz IS NULL AS b, \
               12345678901234567890.123::numeric AS n, 'NaN'::float8 AS x, AVG(v) AS m FROM (VALUES (12.0), (13.0)) AS w(v); \
               SHOW server_encoding; EXPLAIN SELECT 1";
    let answers = asked(&clients, &database, text(sql)).await.unwrap();
    let row = json!([{"a": [1]}, [1, 2], false, "12345678901234567890.123", null, 12.5]);
    assert_eq!(json!(answers[0])["rows"]["rows"], json!([row]));
    assert_eq!(json!(answers[1])["rows"]["rows"], json!([["UTF8"]]));
    assert!(matches!(&answers[2], SqlAnswer::Rows(rows) if !rows.rows.is_empty()));
    // A superuser could execute these in a read-only transaction.
    let sql = "SELECT COUNT(*) AS n FROM person; SELECT set_config('transaction_read_only', 'off', false); \
               SELECT nextval('s'); SELECT pg_read_file('PG_VERSION')";
    let answers = asked(&clients, &database, text(sql)).await.unwrap();
    assert_eq!(json!(answers[0])["rows"]["rows"], json!([[3]]));
    assert!(answers[1..].iter().all(|answer| matches!(answer, SqlAnswer::Failed(_))), "{answers:?}");
    inside.close().await.unwrap();
    let missing = Database { name: "no_such_database".to_owned(), ..database };
    assert_eq!(asked(&clients, &missing, text("SELECT 1")).await.unwrap_err().kind, ErrorKind::NotFound);
    admin.execute(AssertSqlSafe(format!("DROP DATABASE {name}"))).await.unwrap();
}

#[tokio::test]
async fn mysql_keeps_the_contract() {
    let Some((mut admin, database)) = mysql().await else { return };
    let name = database.name.clone();
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"))).await.unwrap();
    let options = sqlx::mysql::MySqlConnectOptions::new().host("127.0.0.1").username("root").database(&name);
    let mut inside = options.connect().await.unwrap();
    for sql in SET_UP {
        inside.execute(sql).await.unwrap();
    }
    let clients = clients(None);
    keeps_it(
        &clients,
        &database,
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) \
         SELECT COUNT(*) FROM n a, n b, n c, n d",
    )
    .await;
    let double = vec![
        SqlPart::Text("SELECT \"<".into()),
        SqlPart::Value(json!("\\\" -- '")),
        SqlPart::Text(">\" AS v".into()),
    ];
    assert_eq!(
        json!(asked(&clients, &database, double).await.unwrap()[0])["rows"]["rows"],
        json!([["<\\\" -- '>"]])
    );
    let sql = "SHOW TABLES; DESCRIBE person; SELECT x'00ff' AS b; SELECT LOAD_FILE('/etc/passwd'); SELECT 0 INTO @a; SELECT 1 INTO OUTFILE '/tmp/x'";
    let answers = asked(&clients, &database, text(sql)).await.unwrap();
    assert_eq!(json!(answers[0])["rows"]["rows"], json!([["person"]]));
    assert!(matches!(&answers[1], SqlAnswer::Rows(rows) if rows.columns.len() == 6));
    assert_eq!(json!(answers[2])["rows"]["rows"], json!([["0x00ff"]]));
    assert!(answers[3..].iter().all(|answer| matches!(answer, SqlAnswer::Failed(_))), "{answers:?}");
    inside.execute("CREATE TABLE flag (mask BIT(3))").await.unwrap();
    inside.execute("INSERT INTO flag VALUES (b'101'), (NULL)").await.unwrap();
    let answers = asked(&clients, &database, text("SELECT mask FROM flag ORDER BY mask DESC")).await.unwrap();
    assert_eq!(json!(answers[0])["rows"]["rows"], json!([[5], [null]]));
    inside.close().await.unwrap();
    let stranger =
        Database { user: "nobody_here".to_owned(), password: Secret::new("not-the-password"), ..database };
    let error = asked(&clients, &stranger, text("SELECT 1")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthenticated, "{}", error.full());
    assert!(!error.full().contains("not-the-password"));
    admin.execute(AssertSqlSafe(format!("DROP DATABASE {name}"))).await.unwrap();
}
