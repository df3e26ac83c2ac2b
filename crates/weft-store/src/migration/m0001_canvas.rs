//! Canvases and their versions.

use sea_orm_migration::prelude::{DbErr, ForeignKey, ForeignKeyAction, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let canvas = c
        .table("canvas")
        .col(c.id("tenant_id"))
        .col(c.id("id"))
        .col(c.id("title"))
        .col(c.id("title_folded"))
        .col(c.long_text("description"))
        .col(c.long_text("avatar"))
        .col(c.id("permission"))
        .col(c.id("canvas_type"))
        .col(c.id("version"))
        .col(c.number("created_ms"))
        .col(c.number("updated_ms"))
        .primary_key(Index::create().col("tenant_id").col("id"))
        .take();
    manager.create_table(canvas).await?;
    let title = Index::create()
        .name("canvas_title")
        .table("canvas")
        .col("tenant_id")
        .col("title_folded")
        .unique()
        .take();
    manager.create_index(title).await?;
    let version = c
        .table("canvas_version")
        .col(c.id("tenant_id"))
        .col(c.id("canvas_id"))
        .col(c.id("version"))
        .col(c.long_text("dsl"))
        .col(c.number("created_ms"))
        .primary_key(Index::create().col("tenant_id").col("canvas_id").col("version"))
        .foreign_key(
            ForeignKey::create()
                .name("canvas_version_canvas")
                .from("canvas_version", ("tenant_id", "canvas_id"))
                .to("canvas", ("tenant_id", "id"))
                .on_delete(ForeignKeyAction::Cascade),
        )
        .take();
    manager.create_table(version).await
}
