//! The picture from which the text of a chunk was read, and the first picture of each document.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    for table in ["chunk", "document"] {
        // MariaDB commits a table change immediately: after a migration that was interrupted right after one,
        // that change already exists.
        if !manager.has_column(table, "picture").await? {
            let column = c.id("picture").null().take();
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
        }
    }
    Ok(())
}
