//! API tokens.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let token = c
        .table("token")
        .col(c.id("tenant_id"))
        .col(c.id("hash"))
        .col(c.long_text("name"))
        .col(c.number("created_ms"))
        .primary_key(Index::create().col("tenant_id").col("hash"))
        .take();
    manager.create_table(token).await?;
    // A caller presents a token before its tenant is known.
    let by_hash = Index::create().name("token_hash").table("token").col("hash").unique().take();
    manager.create_index(by_hash).await
}
