//! Documents that wait to be read, tenant by tenant in their order: who takes the next one looks at none of the others.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};
use sea_orm_migration::{MigrationName, MigrationTrait, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0027_waiting_documents"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // MariaDB commits a change of a table at once: a step that was cut off right after it finds it there.
        if manager.has_index("document", "document_waiting").await? {
            return Ok(());
        }
        let waiting = Index::create()
            .name("document_waiting")
            .table("document")
            .col("state")
            .col("tenant_id")
            .col("at_ms")
            .col("id")
            .take();
        manager.create_index(waiting).await
    }
}
