//! Secrets of tenants, as ciphertext.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let secret = c
        .table("secret")
        .col(c.id("tenant_id"))
        .col(c.id("name"))
        .col(c.id("key_name"))
        .col(c.long_bytes("sealed"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        .primary_key(Index::create().col("tenant_id").col("name"))
        .take();
    manager.create_table(secret).await
}
