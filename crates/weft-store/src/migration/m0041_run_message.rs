//! Messages that wait for agents running in other processes.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let table = c
        .table("run_message")
        .col(c.id("tenant_id"))
        .col(c.id("run_id"))
        .col(c.id("id"))
        .col(c.long_text("text"))
        .col(c.number("sent_ms"))
        .primary_key(Index::create().col("tenant_id").col("run_id").col("id"))
        .take();
    manager.create_table(table).await
}
