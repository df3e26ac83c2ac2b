//! MCP servers of tenants; the data sent to them is stored as ciphertext.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let server = c
        .table("tool_server")
        .col(c.id("id"))
        .col(c.id("tenant_id"))
        .col(c.id("name"))
        .col(c.id("name_folded"))
        .col(c.long_text("url"))
        .col(c.id("transport"))
        .col(c.long_text("description"))
        .col(c.id("key_name"))
        .col(c.long_bytes("sealed"))
        .col(c.long_text("tools"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        .primary_key(Index::create().col("id"))
        .take();
    manager.create_table(server).await?;
    if manager.has_index("tool_server", "tool_server_name").await? {
        return Ok(());
    }
    let by_name = Index::create()
        .name("tool_server_name")
        .table("tool_server")
        .col("tenant_id")
        .col("name_folded")
        .unique()
        .take();
    manager.create_index(by_name).await
}
