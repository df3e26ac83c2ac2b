//! Revision numbers of datasets, documents, canvases and MCP servers, so that no writer overwrites a change it has
//! not seen; and a row that is updated by whoever adds something of which a tenant may have only a limited number.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    for table in ["dataset", "document", "canvas", "tool_server"] {
        // MariaDB commits each of these immediately: after an interrupted migration some already exist.
        if !manager.has_column(table, "revision").await? {
            let revision = c.number("revision").default(0).take();
            manager.alter_table(Table::alter().table(table).add_column(revision).take()).await?;
        }
    }
    let locks = c
        .table("tenant_lock")
        .col(c.id("tenant_id"))
        .col(c.id("kind"))
        .col(c.number("changes"))
        .primary_key(Index::create().col("tenant_id").col("kind"))
        .take();
    manager.create_table(locks).await
}
