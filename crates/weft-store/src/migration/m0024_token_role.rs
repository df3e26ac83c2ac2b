//! The role of API keys, and who created them. Keys from before this migration may do everything, as before, and have
//! no creator.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    for (column, default) in [("role", "owner"), ("user_id", "")] {
        // MariaDB commits a table change immediately: after an interrupted migration one of the two already
        // exists.
        if !manager.has_column("token", column).await? {
            let added = c.id(column).default(default).take();
            manager.alter_table(Table::alter().table("token").add_column(added).take()).await?;
        }
    }
    Ok(())
}
