//! Chat assistants, and readers' feedback on answers.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let chat = c
        .table("chat")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.id("name"))
        .col(c.id("name_folded"))
        .col(c.long_text("settings"))
        .col(c.number("revision"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        .primary_key(Index::create().col("tenant_id").col("id"))
        .take();
    manager.create_table(chat).await?;
    // MariaDB commits each of these immediately: after an interrupted migration some already exist.
    if !manager.has_index("chat", "chat_name").await? {
        let name = Index::create()
            .name("chat_name")
            .table("chat")
            .col("tenant_id")
            .col("name_folded")
            .unique()
            .take();
        manager.create_index(name).await?;
    }
    if !manager.has_column("session_message", "feedback").await? {
        let feedback = c.long_text("feedback").null().take();
        manager.alter_table(Table::alter().table("session_message").add_column(feedback).take()).await?;
    }
    Ok(())
}
