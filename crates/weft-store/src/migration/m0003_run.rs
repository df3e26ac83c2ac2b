//! Runs and their journals. A run refers to its session and canvas without foreign keys: neither has to be stored.

use sea_orm_migration::prelude::{DbErr, ForeignKey, ForeignKeyAction, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let run = c
        .table("run")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.id("session_id"))
        .col(c.id("canvas_id"))
        .col(c.long_text("query"))
        .col(c.id("ending").null())
        .col(c.number("started_ms"))
        .col(c.number("finished_ms").null())
        .primary_key(Index::create().col("tenant_id").col("id"))
        .take();
    manager.create_table(run).await?;
    let of_session = Index::create()
        .name("run_of_session")
        .table("run")
        .col("tenant_id")
        .col("session_id")
        .col("started_ms")
        .take();
    manager.create_index(of_session).await?;
    // One row contains the entries of one append, so the key is the number of the first of them.
    let journal = c
        .table("journal")
        .col(c.id("tenant_id"))
        .col(c.id("run_id"))
        .col(c.number("first_seq"))
        .col(c.number("last_seq"))
        .col(c.long_bytes("body"))
        .primary_key(Index::create().col("tenant_id").col("run_id").col("first_seq"))
        .foreign_key(
            ForeignKey::create()
                .name("journal_run")
                .from("journal", ("tenant_id", "run_id"))
                .to("run", ("tenant_id", "id"))
                .on_delete(ForeignKeyAction::Cascade),
        )
        .take();
    manager.create_table(journal).await
}
