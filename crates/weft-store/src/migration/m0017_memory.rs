//! What agents remember.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let memory = c
        .table("memory")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.long_text("settings"))
        .col(c.number("last_number"))
        .col(c.number("used_bytes"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        .primary_key(Index::create().col("tenant_id").col("id"))
        .take();
    manager.create_table(memory).await?;
    let message = c
        .table("memory_message")
        .col(c.id("tenant_id"))
        .col(c.id("memory_id"))
        .col(c.number("number"))
        .col(c.short_bytes("origin"))
        .col(c.number("kind"))
        .col(c.number("source"))
        .col(c.long_text("user_id"))
        .col(c.long_text("agent_id"))
        .col(c.long_text("session_id"))
        .col(c.long_text("content"))
        .col(c.long_bytes("vector"))
        .col(c.number("size"))
        .col(c.number("valid_ms"))
        .col(c.number("invalid_ms").null())
        .col(c.number("forgotten_ms").null())
        .col(c.number("enabled"))
        .col(c.number("due_ms").null())
        .col(c.number("attempts"))
        .col(c.long_text("problem"))
        .primary_key(Index::create().col("tenant_id").col("memory_id").col("number"))
        .take();
    manager.create_table(message).await?;
    for (name, columns) in [
        ("memory_message_due", &["due_ms"][..]),
        ("memory_message_origin", &["tenant_id", "memory_id", "origin"]),
    ] {
        // MariaDB commits each of these immediately: after an interrupted migration some already exist.
        if manager.has_index("memory_message", name).await? {
            continue;
        }
        let mut index = Index::create();
        index.name(name).table("memory_message");
        for column in columns {
            index.col(*column);
        }
        manager.create_index(index.take()).await?;
    }
    Ok(())
}
