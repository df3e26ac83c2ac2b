//! Sessions and their messages. A session refers to its canvas without a foreign key: the canvas may have been read
//! from a file and never stored.

use sea_orm_migration::prelude::{DbErr, ForeignKey, ForeignKeyAction, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let session = c
        .table("session")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.id("canvas_id"))
        .col(c.id("canvas_version"))
        .col(c.id("user_id"))
        .col(c.long_text("name"))
        .col(c.long_text("state"))
        .col(c.number("revision"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        .primary_key(Index::create().col("tenant_id").col("id"))
        .take();
    manager.create_table(session).await?;
    let of_canvas = Index::create()
        .name("session_of_canvas")
        .table("session")
        .col("tenant_id")
        .col("canvas_id")
        .col("updated_ms")
        .take();
    manager.create_index(of_canvas).await?;
    let message = c
        .table("session_message")
        .col(c.id("tenant_id"))
        .col(c.id("session_id"))
        .col(c.number("revision"))
        .col(c.number("position"))
        .col(c.id("role"))
        .col(c.long_text("content"))
        .col(c.id("run_id").null())
        .col(c.long_text("reference"))
        .col(c.number("created_ms"))
        .primary_key(Index::create().col("tenant_id").col("session_id").col("revision").col("position"))
        .foreign_key(
            ForeignKey::create()
                .name("session_message_session")
                .from("session_message", ("tenant_id", "session_id"))
                .to("session", ("tenant_id", "id"))
                .on_delete(ForeignKeyAction::Cascade),
        )
        .take();
    manager.create_table(message).await
}
