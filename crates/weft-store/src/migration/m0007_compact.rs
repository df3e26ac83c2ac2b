//! A session has at most one run without an ending.

use std::collections::HashSet;

use sea_orm_migration::prelude::{DbErr, SchemaManager};
use sea_orm_migration::prelude::{Expr, Order};
use sea_orm_migration::sea_orm::sea_query::Query;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, ExprTrait};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

use super::columns::Columns;

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0007_compact"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        end_forgotten_runs(manager).await?;
        one_run_at_work(manager).await
    }
}

/// Of several runs of one session that were cut off only the newest can go on: each of the others
/// began with a state of the session that is no longer the current one.
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
            .value("finished_ms", alive_ms)
            .and_where(Expr::col("tenant_id").eq(tenant))
            .and_where(Expr::col("id").eq(id))
            .take();
        db.execute(&end).await?;
    }
    Ok(())
}

/// MariaDB has no index over some of the rows; there a computed column is empty for the others.
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
