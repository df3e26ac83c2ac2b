//! Removed documents and datasets, until nothing of them is left in the index and among the files.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};
use sea_orm_migration::sea_orm::DbBackend;

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let mut removed = c
        .table("removed")
        .col(c.id("tenant_id"))
        .col(c.id("dataset_id"))
        .col(c.id("document_id"))
        .col(c.id("blob"))
        .col(c.number("from_ms"))
        .primary_key(Index::create().col("tenant_id").col("dataset_id").col("document_id"))
        .take();
    // A table that is empty most of the time should take one page, and not another one for its key.
    if manager.get_database_backend() == DbBackend::Sqlite {
        removed.extra("WITHOUT ROWID");
    }
    manager.create_table(removed).await
}
