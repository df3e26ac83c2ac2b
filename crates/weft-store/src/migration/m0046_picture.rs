//! The picture from which the text of a chunk was read, and the first picture of each document.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

use super::columns::Columns;

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0046_picture"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager).await?;
        for table in ["chunk", "document"] {
            // MariaDB commits a table change immediately: after a migration that was interrupted right after one,
            // that change already exists.
            if !manager.has_column(table, "picture").await? {
                let column = c.id("picture").null().take();
                manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
            }
        }
        Ok(())
    }
}
