//! Credentials issued by authorization servers for MCP servers; all of it is ciphertext.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let table = c
        .table("tool_credential")
        .col(c.id("tenant_id"))
        .col(c.id("server_id"))
        .col(c.id("key_name"))
        .col(c.long_bytes("sealed"))
        .col(c.number("revision"))
        .primary_key(Index::create().col("tenant_id").col("server_id"))
        .take();
    manager.create_table(table).await
}
