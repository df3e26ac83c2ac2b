//! Folders and files of the file manager.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let entry = c
        .table("folder_entry")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.id("parent_id"))
        .col(c.long_text("name"))
        .col(c.id("name_folded"))
        .col(c.id("kind"))
        .col(c.number("size"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        .primary_key(Index::create().col("tenant_id").col("id"))
        .take();
    manager.create_table(entry).await?;
    // MariaDB commits each of these immediately: after an interrupted migration the table already exists.
    if manager.has_index("folder_entry", "folder_entry_name").await? {
        return Ok(());
    }
    let by_name = Index::create()
        .name("folder_entry_name")
        .table("folder_entry")
        .col("tenant_id")
        .col("parent_id")
        .col("name_folded")
        .unique()
        .take();
    manager.create_index(by_name).await
}
