//! The user to whom a file of a conversation belongs. Files from before this migration belong to nobody.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager, Table};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    // MariaDB commits each of these immediately: after an interrupted migration some already exist.
    if !manager.has_column("file", "user_id").await? {
        let user = c.id("user_id").null().take();
        manager.alter_table(Table::alter().table("file").add_column(user).take()).await?;
    }
    if !manager.has_index("file", "file_user").await? {
        let index = Index::create().name("file_user").table("file").col("tenant_id").col("user_id").take();
        manager.create_index(index).await?;
    }
    Ok(())
}
