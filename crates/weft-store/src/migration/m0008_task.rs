//! Human tasks. They are written with their session and removed with it.

use sea_orm_migration::prelude::{DbErr, ForeignKey, ForeignKeyAction, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let task = c
        .table("task")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.id("session_id"))
        .col(c.id("canvas_id"))
        .col(c.id("run_id"))
        .col(c.long_text("node"))
        .col(c.long_text("address"))
        .col(c.id("kind"))
        .col(c.long_text("title"))
        .col(c.long_text("form"))
        .col(c.number("created_ms"))
        .col(c.number("due_ms").null())
        .col(c.id("status"))
        .col(c.id("ended_by").null())
        .col(c.number("ended_ms").null())
        .primary_key(Index::create().col("tenant_id").col("id"))
        .foreign_key(
            ForeignKey::create()
                .name("task_session")
                .from("task", ("tenant_id", "session_id"))
                .to("session", ("tenant_id", "id"))
                .on_delete(ForeignKeyAction::Cascade),
        )
        .take();
    manager.create_table(task).await?;
    for (name, columns) in [
        ("task_of_session", ["tenant_id", "session_id", "status"]),
        ("task_by_age", ["tenant_id", "status", "created_ms"]),
        ("task_by_due", ["tenant_id", "status", "due_ms"]),
    ] {
        // In MariaDB, the steps before an interruption are kept.
        if manager.has_index("task", name).await? {
            continue;
        }
        let mut index = Index::create().name(name).table("task").take();
        for column in columns {
            index.col(column);
        }
        manager.create_index(index).await?;
    }
    Ok(())
}
