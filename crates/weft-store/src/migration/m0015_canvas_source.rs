//! The file that a canvas was read from. Before this migration it was in the description, which anyone may edit.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    // MariaDB commits a table change immediately: after a migration that was interrupted right after it, the
    // column already exists.
    if manager.has_column("canvas", "source").await? {
        return Ok(());
    }
    let c = Columns::of(manager).await?;
    let source = c.long_text("source").null().take();
    manager.alter_table(Table::alter().table("canvas").add_column(source).take()).await
}
