//! Indexes for the removal of old versions of canvases: by when a version was last saved, and of sessions by version.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    // MariaDB commits a table change immediately: after a migration that was interrupted right after one, that index
    // already exists.
    for (name, table, columns) in [
        ("canvas_version_saved", "canvas_version", ["tenant_id", "canvas_id", "updated_ms"]),
        ("session_of_version", "session", ["tenant_id", "canvas_id", "canvas_version"]),
    ] {
        if !manager.has_index(table, name).await? {
            let [tenant, canvas, last] = columns;
            let index = Index::create().name(name).table(table).col(tenant).col(canvas).col(last).take();
            manager.create_index(index).await?;
        }
    }
    Ok(())
}
