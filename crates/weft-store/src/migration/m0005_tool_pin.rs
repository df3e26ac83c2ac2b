//! Accepted definitions of tools. They belong to no tenant: tool servers are the operator's.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

use super::columns::Columns;

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0005_tool_pin"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager).await?;
        let pin = c
            .table("tool_pin")
            .col(c.id("server"))
            .col(c.id("tool"))
            .col(c.long_text("definition"))
            .col(c.number("accepted_ms"))
            .primary_key(Index::create().col("server").col("tool"))
            .take();
        manager.create_table(pin).await
    }
}
