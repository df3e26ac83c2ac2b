//! How often work was left behind by its worker.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    // MariaDB commits a table change immediately: after a migration that was interrupted right after it, the
    // column already exists.
    if manager.has_column("work", "crashes").await? {
        return Ok(());
    }
    let count = Columns::of(manager).await?.number("crashes").default(0).take();
    manager.alter_table(Table::alter().table("work").add_column(count).take()).await
}
