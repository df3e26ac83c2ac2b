//! Secrets of tenants, as ciphertext.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

use super::columns::Columns;

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0020_secret"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager).await?;
        let secret = c
            .table("secret")
            .col(c.id("tenant_id"))
            .col(c.id("name"))
            .col(c.id("key_name"))
            .col(c.long_bytes("sealed"))
            .col(c.number("created_ms"))
            .col(c.number("updated_ms"))
            .primary_key(Index::create().col("tenant_id").col("name"))
            .take();
        manager.create_table(secret).await
    }
}
