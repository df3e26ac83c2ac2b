//! Whether a run should give way to a question that waits for it in another process.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    // MariaDB commits a table change immediately: after a migration that was interrupted right after one, that
    // change already exists.
    for column in ["give_way", "listened"] {
        if !manager.has_column("run", column).await? {
            let count = c.number(column).default(0).take();
            manager.alter_table(Table::alter().table("run").add_column(count).take()).await?;
        }
    }
    Ok(())
}
