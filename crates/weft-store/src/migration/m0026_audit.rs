//! The audit log.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let audit = c
        .table("audit")
        .col(c.id("tenant_id"))
        .col(c.number("at_ms"))
        .col(c.id("id"))
        .col(c.id("actor"))
        .col(c.long_text("action"))
        .col(c.long_text("target"))
        .col(c.number("outcome"))
        .col(c.long_text("address"))
        .primary_key(Index::create().col("tenant_id").col("at_ms").col("id"))
        .take();
    manager.create_table(audit).await?;
    // Expired entries are searched across all tenants.
    if manager.has_index("audit", "audit_time").await? {
        return Ok(());
    }
    let by_time = Index::create().name("audit_time").table("audit").col("at_ms").take();
    manager.create_index(by_time).await
}
