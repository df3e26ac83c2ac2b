//! What runs have used: for each run what is known so far, for each canvas and tenant by day.

use sea_orm_migration::prelude::{ColumnDef, DbErr, Index, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    // MariaDB commits a table change immediately: after a migration that was interrupted right after one, that
    // change already exists.
    if !manager.has_column("run", "spent").await? {
        let spent = ColumnDef::new("spent").text().null().take();
        manager.alter_table(Table::alter().table("run").add_column(spent).take()).await?;
    }
    let spending = c
        .table("spending")
        .col(c.id("tenant_id"))
        .col(c.id("canvas_id"))
        .col(c.number("day"))
        .col(c.number("rounds"))
        .col(c.number("tool_calls"))
        .col(c.number("model_calls"))
        .col(c.number("tokens"))
        .col(c.number("micros"))
        .col(c.number("millis"))
        .primary_key(Index::create().col("tenant_id").col("canvas_id").col("day"))
        .take();
    manager.create_table(spending).await
}
