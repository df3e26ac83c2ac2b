//! Information for operators: when a token was last used (never, for tokens from before this migration), and a row
//! that is written only to test whether the store can be written.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    // MariaDB commits a table change immediately: after a migration that was interrupted right after it, the
    // column already exists.
    if !manager.has_column("token", "last_used_ms").await? {
        let used = c.number("last_used_ms").default(0).take();
        manager.alter_table(Table::alter().table("token").add_column(used).take()).await?;
    }
    let probe = c.table("probe").col(c.number("id").primary_key().take()).col(c.number("at_ms")).take();
    manager.create_table(probe).await
}
