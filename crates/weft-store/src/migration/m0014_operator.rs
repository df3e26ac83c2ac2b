//! What operators want to know: when a token was last shown (those from before this step have not been seen
//! yet), and, by a row that is written for no other reason, whether the store can be written.

use sea_orm_migration::prelude::{DbErr, SchemaManager, Table};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

use super::columns::Columns;

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0014_operator"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager).await?;
        // MariaDB commits a change of a table at once: a step that was cut off right after it finds
        // the column there.
        if !manager.has_column("token", "last_used_ms").await? {
            let used = c.number("last_used_ms").default(0).take();
            manager.alter_table(Table::alter().table("token").add_column(used).take()).await?;
        }
        let probe = c.table("probe").col(c.number("id").primary_key().take()).col(c.number("at_ms")).take();
        manager.create_table(probe).await
    }
}
