//! Share tokens: each opens one agent or one chat assistant.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let share = c
        .table("share")
        .col(c.id("hash").primary_key().take())
        .col(c.id("tenant_id"))
        .col(c.id("kind"))
        .col(c.id("target_id"))
        .col(c.long_text("name"))
        .col(c.number("created_ms"))
        .col(c.number("expires_ms").null().take())
        .col(c.number("last_used_ms"))
        .take();
    manager.create_table(share).await?;
    if manager.has_index("share", "share_target").await? {
        return Ok(());
    }
    let by_target = Index::create().name("share_target").table("share").col("target_id").take();
    manager.create_index(by_target).await
}
