//! Whether a run should give way to a question that waits for it in another process.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

use super::columns::Columns;

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0019_give_way"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager).await?;
        // MariaDB commits a table change immediately: after a migration that was interrupted right after one, that
        // change already exists.
        for column in ["give_way", "listened"] {
            if !manager.has_column("run", column).await? {
                let count = c.number(column).default(0).take();
                manager.alter_table(Table::alter().table("run").add_column(count).take()).await?;
            }
        }
        Ok(())
    }
}
