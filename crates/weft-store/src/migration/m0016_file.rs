//! Files of conversations.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let file = c
        .table("file")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.long_text("name"))
        .col(c.long_text("mime_type"))
        .col(c.number("size"))
        .col(c.id("session_id"))
        .col(c.number("created_ms"))
        .primary_key(Index::create().col("tenant_id").col("id"))
        .take();
    manager.create_table(file).await?;
    for (name, columns) in [("file_age", &["created_ms"][..]), ("file_session", &["tenant_id", "session_id"])]
    {
        // MariaDB commits each of these immediately: after an interrupted migration some already exist.
        if manager.has_index("file", name).await? {
            continue;
        }
        let mut index = Index::create();
        index.name(name).table("file");
        for column in columns {
            index.col(*column);
        }
        manager.create_index(index.take()).await?;
    }
    Ok(())
}
