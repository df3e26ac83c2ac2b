//! The last heartbeat of a run's process. Runs from before this migration have none.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    // MariaDB commits a table change immediately: after a migration that was interrupted right after it, the
    // column already exists.
    if manager.has_column("run", "alive_ms").await? {
        return Ok(());
    }
    let c = Columns::of(manager).await?;
    let alive = c.number("alive_ms").default(0).take();
    manager.alter_table(Table::alter().table("run").add_column(alive).take()).await
}
