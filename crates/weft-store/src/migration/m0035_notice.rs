//! Notices to people.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let notice = c
        .table("notice")
        .col(c.id("tenant_id"))
        .col(c.id("kind"))
        .col(c.id("subject"))
        .col(c.long_text("said"))
        .col(c.number("at_ms"))
        .col(c.id("state"))
        .col(c.number("state_ms"))
        .col(c.number("fence"))
        .col(c.number("attempts"))
        .col(c.long_text("done"))
        .col(c.long_text("reason"))
        .primary_key(Index::create().col("tenant_id").col("kind").col("subject"))
        .take();
    manager.create_table(notice).await?;
    // Notices to send are searched across all tenants, lists are per tenant.
    let indexes = [("notice_state", ["state", "state_ms"]), ("notice_time", ["tenant_id", "at_ms"])];
    for (name, columns) in indexes {
        if manager.has_index("notice", name).await? {
            continue;
        }
        let mut index = Index::create().name(name).table("notice").take();
        for column in columns {
            index.col(column);
        }
        manager.create_index(index).await?;
    }
    Ok(())
}
