//! An index of canvases by id alone: other programs call a canvas before its tenant is known.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    // MariaDB commits a table change immediately: after a migration that was interrupted right after it, the
    // index already exists.
    if manager.has_index("canvas", "canvas_by_id").await? {
        return Ok(());
    }
    let by_id = Index::create().name("canvas_by_id").table("canvas").col("id").col("created_ms").take();
    manager.create_index(by_id).await
}
