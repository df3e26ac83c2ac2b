//! Messages that wait for agents running in other processes.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

use super::columns::Columns;

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0041_run_message"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager).await?;
        let table = c
            .table("run_message")
            .col(c.id("tenant_id"))
            .col(c.id("run_id"))
            .col(c.id("id"))
            .col(c.long_text("text"))
            .col(c.number("sent_ms"))
            .primary_key(Index::create().col("tenant_id").col("run_id").col("id"))
            .take();
        manager.create_table(table).await
    }
}
