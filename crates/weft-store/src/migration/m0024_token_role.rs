//! What API keys may do, and who has made them. Those from before this step may do everything, as they could, and
//! were made by nobody.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

use super::columns::Columns;

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0024_token_role"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager).await?;
        for (column, default) in [("role", "owner"), ("user_id", "")] {
            // MariaDB commits a change of a table at once: a step that was cut off between them finds one there.
            if !manager.has_column("token", column).await? {
                let added = c.id(column).default(default).take();
                manager.alter_table(Table::alter().table("token").add_column(added).take()).await?;
            }
        }
        Ok(())
    }
}
