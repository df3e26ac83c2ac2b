//! Credentials issued by authorization servers for MCP servers; all of it is ciphertext.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

use super::columns::Columns;

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0045_tool_credential"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager).await?;
        let table = c
            .table("tool_credential")
            .col(c.id("tenant_id"))
            .col(c.id("server_id"))
            .col(c.id("key_name"))
            .col(c.long_bytes("sealed"))
            .col(c.number("revision"))
            .primary_key(Index::create().col("tenant_id").col("server_id"))
            .take();
        manager.create_table(table).await
    }
}
