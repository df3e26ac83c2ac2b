//! Accepted definitions of tools. They belong to no tenant: tool servers are the operator's.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let pin = c
        .table("tool_pin")
        .col(c.id("server"))
        .col(c.id("tool"))
        .col(c.long_text("definition"))
        .col(c.number("accepted_ms"))
        .primary_key(Index::create().col("server").col("tool"))
        .take();
    manager.create_table(pin).await
}
