//! The outcome of each reading of a document.

use sea_orm_migration::prelude::{ColumnDef, DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let reading = c
        .table("reading")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.id("dataset_id"))
        .col(c.id("document_id"))
        .col(c.long_text("name"))
        .col(c.long_text("name_folded"))
        .col(c.id("method"))
        .col(c.long_text("settings"))
        .col(c.id("state"))
        .col(c.long_text("message"))
        .col(ColumnDef::new("begun_ms").big_integer())
        .col(c.number("ended_ms"))
        .col(c.number("duration_ms"))
        .col(c.number("chunk_count"))
        .col(c.number("token_count"))
        .primary_key(Index::create().col("tenant_id").col("id"))
        .take();
    manager.create_table(reading).await?;
    if manager.has_index("reading", "reading_document").await? {
        return Ok(());
    }
    let by_document = Index::create()
        .name("reading_document")
        .table("reading")
        .col("tenant_id")
        .col("dataset_id")
        .col("document_id")
        .col("ended_ms")
        .take();
    manager.create_index(by_document).await
}
