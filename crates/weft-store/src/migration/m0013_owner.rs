//! The owner of a run: its fencing token, its process, whether it was asked to stop; and the processes.
//!
//! Runs from before this migration have no owner: the first process that looks takes them.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager, Table};
use sea_orm_migration::sea_orm::{ConnectionTrait as _, DbBackend};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    // MariaDB commits a table change immediately: after a migration that was interrupted right after one, that
    // change already exists.
    let columns = [
        c.number("fence").default(0).take(),
        c.id("owner").null().take(),
        c.number("cancel_ms").null().take(),
    ];
    for column in columns {
        if !manager.has_column("run", column.get_column_name()).await? {
            manager.alter_table(Table::alter().table("run").add_column(column).take()).await?;
        }
    }
    // The other databases have an index of unfinished runs; in MariaDB that index begins with the tenant.
    if manager.get_database_backend() == DbBackend::MySql && !manager.has_index("run", "run_ending").await? {
        let index = "CREATE INDEX run_ending ON run (ending)";
        manager.get_connection().execute_unprepared(index).await?;
    }
    let process = c
        .table("process")
        .col(c.id("id"))
        .col(c.id("host"))
        .col(c.id("boot"))
        .col(c.number("pid"))
        .col(c.number("started"))
        .col(c.number("beat"))
        .primary_key(Index::create().col("id"))
        .take();
    manager.create_table(process).await
}
