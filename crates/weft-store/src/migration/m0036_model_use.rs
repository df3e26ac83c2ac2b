//! What runs have used of models, by node and model. Rows are kept when their runs are removed.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let model_use = c
        .table("model_use")
        .col(c.id("tenant_id"))
        .col(c.id("run_id"))
        .col(c.number("place"))
        .col(c.number("day"))
        .col(c.id("canvas_id"))
        .col(c.id("session_id"))
        .col(c.id("user_id"))
        .col(c.long_text("node"))
        .col(c.long_text("model"))
        .col(c.number("calls"))
        .col(c.number("prompt_tokens"))
        .col(c.number("completion_tokens"))
        .col(c.number("cache_read_tokens"))
        .col(c.number("cache_write_tokens"))
        .col(c.number("reasoning_tokens"))
        .col(c.number("micros"))
        .primary_key(Index::create().col("tenant_id").col("run_id").col("place"))
        .take();
    manager.create_table(model_use).await?;
    // Reports and the removal of old rows are by day.
    if manager.has_index("model_use", "model_use_day").await? {
        return Ok(());
    }
    let by_day = Index::create().name("model_use_day").table("model_use").col("tenant_id").col("day").take();
    manager.create_index(by_day).await
}
