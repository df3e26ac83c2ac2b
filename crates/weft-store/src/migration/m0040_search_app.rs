//! Search apps: assistants for single questions, with their own namespace.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    // MariaDB commits each of these immediately: after an interrupted migration some already exist.
    if !manager.has_column("chat", "kind").await? {
        let kind = c.id("kind").default("assistant").take();
        manager.alter_table(Table::alter().table("chat").add_column(kind).take()).await?;
    }
    if !manager.has_index("chat", "chat_name_of_kind").await? {
        let name = Index::create()
            .name("chat_name_of_kind")
            .table("chat")
            .col("tenant_id")
            .col("kind")
            .col("name_folded")
            .unique()
            .take();
        manager.create_index(name).await?;
    }
    if manager.has_index("chat", "chat_name").await? {
        manager.drop_index(Index::drop().name("chat_name").table("chat").to_owned()).await?;
    }
    Ok(())
}
