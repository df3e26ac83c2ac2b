//! The size in bytes of the pictures that are stored with documents.

use sea_orm_migration::prelude::{ColumnDef, DbErr, Index, SchemaManager};

use super::columns::Columns;

/// Maximum length of a picture's name in characters. A key of MariaDB has room for three ids and nothing else.
const NAME_CHARS_MAX: u32 = 64;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let kept_picture = c
        .table("kept_picture")
        .col(c.id("tenant_id"))
        .col(c.id("document_id"))
        .col(ColumnDef::new("name").string_len(NAME_CHARS_MAX).not_null().take())
        .col(c.id("dataset_id"))
        .col(c.number("bytes"))
        .primary_key(Index::create().col("tenant_id").col("document_id").col("name"))
        .take();
    manager.create_table(kept_picture).await
}
