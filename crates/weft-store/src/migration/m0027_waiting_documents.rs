//! An index of documents that wait to be read, by tenant and in order: taking the next one reads none of the others.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    // MariaDB commits a table change immediately: after a migration that was interrupted right after it, the
    // index already exists.
    if manager.has_index("document", "document_waiting").await? {
        return Ok(());
    }
    let waiting = Index::create()
        .name("document_waiting")
        .table("document")
        .col("state")
        .col("tenant_id")
        .col("at_ms")
        .col("id")
        .take();
    manager.create_index(waiting).await
}
