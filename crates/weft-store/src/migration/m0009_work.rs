//! Work for workers, and the schedules that create it. Both refer to their canvas without foreign keys, as runs do.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    work(&c, manager).await?;
    schedule(&c, manager).await
}

async fn work(c: &Columns, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let work = c
        .table("work")
        .col(c.id("tenant_id"))
        .col(c.id("run_id"))
        .col(c.id("canvas_id"))
        .col(c.id("session_id").null())
        .col(c.id("source"))
        .col(c.long_text("input"))
        .col(c.number("due_ms"))
        .col(c.id("state"))
        .col(c.number("at_ms"))
        .col(c.number("fence"))
        .col(c.number("attempts"))
        .col(c.long_text("reason"))
        .col(c.number("pushed_ms"))
        .primary_key(Index::create().col("tenant_id").col("run_id"))
        .take();
    manager.create_table(work).await?;
    let by_state = Index::create().name("work_by_state").table("work").col("state").col("at_ms").take();
    manager.create_index(by_state).await?;
    let of_source = Index::create()
        .name("work_of_source")
        .table("work")
        .col("tenant_id")
        .col("source")
        .col("due_ms")
        .take();
    manager.create_index(of_source).await
}

async fn schedule(c: &Columns, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let schedule = c
        .table("schedule")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.id("canvas_id"))
        .col(c.id("name"))
        .col(c.long_text("terms"))
        .col(c.number("next_ms").null())
        .col(c.number("decided_ms"))
        .col(c.number("revision"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        .primary_key(Index::create().col("tenant_id").col("id"))
        .take();
    manager.create_table(schedule).await?;
    let by_next = Index::create().name("schedule_by_next").table("schedule").col("next_ms").take();
    manager.create_index(by_next).await?;
    let by_decided = Index::create().name("schedule_by_decided").table("schedule").col("decided_ms").take();
    manager.create_index(by_decided).await
}
