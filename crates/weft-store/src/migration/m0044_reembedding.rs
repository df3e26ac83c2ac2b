//! Vectors that another model computes for all chunks of a dataset, beside those used for searching.

use sea_orm_migration::prelude::{ColumnDef, DbErr, Index, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    // MariaDB commits a table change immediately: after a migration that was interrupted right after one, that
    // change already exists.
    for (table, name, column) in [
        ("dataset", "generation", c.number("generation").default(0).take()),
        ("document", "staged", c.number("staged").default(-1).take()),
        ("chunk", "odd_vector", c.long_bytes("odd_vector").null().take()),
    ] {
        if !manager.has_column(table, name).await? {
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
        }
    }
    let reembedding = c
        .table("reembedding")
        .col(c.id("tenant_id"))
        .col(c.id("dataset_id"))
        .col(c.id("embedder"))
        .col(c.id("state"))
        .col(c.fraction("progress"))
        .col(c.long_text("message"))
        .col(c.number("begun_ms"))
        .col(ColumnDef::new("ended_ms").big_integer())
        .col(c.number("littered"))
        .col(c.number("taken"))
        .col(c.number("at_ms"))
        .col(c.number("fence"))
        .col(c.number("attempts"))
        .primary_key(Index::create().col("tenant_id").col("dataset_id"))
        .take();
    manager.create_table(reembedding).await
}
