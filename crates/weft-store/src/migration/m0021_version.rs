//! What people record about versions of canvases: names, notes and labels, which one is published; and tags of
//! canvases.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, ForeignKey, ForeignKeyAction, Index, SchemaManager, Table,
};
use sea_orm_migration::sea_orm::ConnectionTrait as _;

use super::columns::Columns;

/// Adds a column, unless an interrupted migration has already done so: MariaDB commits each change immediately.
async fn add(
    manager: &SchemaManager<'_>,
    table: &'static str,
    name: &'static str,
    column: ColumnDef,
) -> Result<(), DbErr> {
    if manager.has_column(table, name).await? {
        return Ok(());
    }
    manager.alter_table(Table::alter().table(table).add_column(column).take()).await
}

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let text = |name: &'static str| c.long_text(name).null().take();
    let number = |name: &'static str| c.number(name).null().take();
    add(manager, "canvas", "tags", text("tags")).await?;
    add(manager, "canvas", "tags_folded", text("tags_folded")).await?;
    add(manager, "canvas", "published", text("published")).await?;
    add(manager, "canvas", "published_ms", number("published_ms")).await?;
    add(manager, "canvas_version", "title", text("title")).await?;
    add(manager, "canvas_version", "note", text("note")).await?;
    add(manager, "canvas_version", "updated_ms", number("updated_ms")).await?;
    let known = "UPDATE canvas_version SET updated_ms = created_ms WHERE updated_ms IS NULL";
    manager.get_connection().execute_unprepared(known).await?;
    let label = c
        .table("canvas_label")
        .col(c.id("tenant_id"))
        .col(c.id("canvas_id"))
        .col(c.id("label"))
        .col(c.id("version"))
        .primary_key(Index::create().col("tenant_id").col("canvas_id").col("label"))
        .foreign_key(
            ForeignKey::create()
                .name("canvas_label_canvas")
                .from("canvas_label", ("tenant_id", "canvas_id"))
                .to("canvas", ("tenant_id", "id"))
                .on_delete(ForeignKeyAction::Cascade),
        )
        .take();
    manager.create_table(label).await
}
