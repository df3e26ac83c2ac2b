//! Large values in pieces; and at most one unfinished run per session.

use std::collections::HashSet;

use sea_orm_migration::prelude::{
    DbErr, Expr, ForeignKey, ForeignKeyAction, Index, Order, SchemaManager, Table,
};
use sea_orm_migration::sea_orm::sea_query::Query;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, ExprTrait};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    end_forgotten_runs(manager).await?;
    if manager.get_database_backend() == DbBackend::Sqlite {
        manager.get_connection().execute_unprepared(RUNS_BY_KEY).await?;
    }
    one_run_at_work(manager).await?;
    pieces(manager).await
}

/// Of several interrupted runs of one session, only the newest can be resumed: each of the others started from a
/// state of the session that is no longer the current one.
async fn end_forgotten_runs(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let db = manager.get_connection();
    let unfinished = Query::select()
        .columns(["tenant_id", "id", "session_id", "alive_ms"])
        .from("run")
        .and_where(Expr::col("ending").is_null())
        .order_by("started_ms", Order::Desc)
        .order_by("id", Order::Desc)
        .take();
    let mut seen = HashSet::new();
    for row in db.query_all(&unfinished).await? {
        let (tenant, id): (String, String) = (row.try_get("", "tenant_id")?, row.try_get("", "id")?);
        let (session, alive_ms): (String, i64) =
            (row.try_get("", "session_id")?, row.try_get("", "alive_ms")?);
        if seen.insert((tenant.clone(), session)) {
            continue;
        }
        let end = Query::update()
            .table("run")
            .value("ending", "failed")
            // Its last sign of life is the best that is known of its end.
            .value("finished_ms", alive_ms)
            .and_where(Expr::col("tenant_id").eq(tenant))
            .and_where(Expr::col("id").eq(id))
            .take();
        db.execute(&end).await?;
    }
    Ok(())
}

/// SQLite stores a table by row number unless it is told to store it by its key, and then needs a separate index for
/// the key. The journal is rebuilt as well, because its rows refer to their runs.
const RUNS_BY_KEY: &str = r#"
CREATE TABLE run_by_key (
  "tenant_id" varchar(255) NOT NULL, "id" varchar(255) NOT NULL, "session_id" varchar(255) NOT NULL,
  "canvas_id" varchar(255) NOT NULL, "query" text NOT NULL, "ending" varchar(255) NULL,
  "started_ms" integer NOT NULL, "finished_ms" integer NULL, "alive_ms" integer NOT NULL DEFAULT 0,
  PRIMARY KEY ("tenant_id", "id")
) WITHOUT ROWID;
INSERT INTO run_by_key
  SELECT tenant_id, id, session_id, canvas_id, query, ending, started_ms, finished_ms, alive_ms FROM run;
CREATE TABLE journal_by_key (
  "tenant_id" varchar(255) NOT NULL, "run_id" varchar(255) NOT NULL, "first_seq" integer NOT NULL,
  "last_seq" integer NOT NULL, "body" blob NOT NULL,
  PRIMARY KEY ("tenant_id", "run_id", "first_seq"),
  FOREIGN KEY ("tenant_id", "run_id") REFERENCES run_by_key ("tenant_id", "id") ON DELETE CASCADE
);
INSERT INTO journal_by_key SELECT tenant_id, run_id, first_seq, last_seq, body FROM journal;
DROP TABLE journal;
DROP TABLE run;
ALTER TABLE run_by_key RENAME TO run;
ALTER TABLE journal_by_key RENAME TO journal;
CREATE INDEX run_of_session ON run (tenant_id, session_id, started_ms);
"#;

/// Large values are stored in pieces, which are removed with their session.
async fn pieces(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    // MariaDB commits a table change immediately: after an interrupted migration this column already exists.
    if !manager.has_column("session", "state_list").await? {
        let list = c.long_bytes("state_list").null().take();
        manager.alter_table(Table::alter().table("session").add_column(list).take()).await?;
    }
    let piece = c
        .table("piece")
        .col(c.id("tenant_id"))
        .col(c.id("session_id"))
        .col(c.short_bytes("name"))
        .col(c.long_bytes("body"))
        .primary_key(Index::create().col("tenant_id").col("session_id").col("name"))
        .foreign_key(
            ForeignKey::create()
                .name("piece_session")
                .from("piece", ("tenant_id", "session_id"))
                .to("session", ("tenant_id", "id"))
                .on_delete(ForeignKeyAction::Cascade),
        )
        .take();
    manager.create_table(piece).await
}

/// MariaDB has no partial indexes; there, a computed column is null for the other rows.
async fn one_run_at_work(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    if manager.has_index("run", "run_at_work").await? {
        return Ok(());
    }
    let db = manager.get_connection();
    if manager.get_database_backend() != DbBackend::MySql {
        let index = "CREATE UNIQUE INDEX run_at_work ON run (tenant_id, session_id) WHERE ending IS NULL";
        return db.execute_unprepared(index).await.map(drop);
    }
    if !manager.has_column("run", "at_work").await? {
        let text = Columns::of(manager).await?.id_type();
        let column = format!(
            "ALTER TABLE run ADD COLUMN at_work {text} \
             GENERATED ALWAYS AS (CASE WHEN ending IS NULL THEN session_id END) VIRTUAL"
        );
        db.execute_unprepared(&column).await?;
    }
    db.execute_unprepared("CREATE UNIQUE INDEX run_at_work ON run (tenant_id, at_work)").await.map(drop)
}
