//! Adds documents, as far as their tenant has room for them.

use sea_orm::entity::prelude::*;
use sea_orm::{DatabaseTransaction, IntoActiveModel, QuerySelect};
use weft_core::Result;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{Document, DocumentQuota};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids;
use crate::open::repeated;
use crate::rows::{dataset, document, kept_picture, removed, sum, tenant_lock};

/// The number of a tenant's documents and their size in bytes, including the pictures stored with them.
pub(super) async fn taken_by_documents(db: &DatabaseTransaction, tenant: &str) -> Result<(u64, u64), DbErr> {
    let taken: Option<(i64, Option<i64>)> = document::Entity::find()
        .select_only()
        .column_as(document::Column::Id.count(), "documents")
        .column_as(sum(db.get_database_backend(), document::Column::Size), "bytes")
        .filter(document::Column::TenantId.eq(tenant))
        .into_tuple()
        .one(db)
        .await?;
    let pictures: Option<(i64, Option<i64>)> = kept_picture::Entity::find()
        .select_only()
        .column_as(kept_picture::Column::Name.count(), "pictures")
        .column_as(sum(db.get_database_backend(), kept_picture::Column::Bytes), "bytes")
        .filter(kept_picture::Column::TenantId.eq(tenant))
        .into_tuple()
        .one(db)
        .await?;
    let (documents, bytes) = taken.unwrap_or_default();
    let beside = pictures.and_then(|(_, bytes)| bytes).unwrap_or_default();
    Ok((ids::count(documents), ids::count(bytes.unwrap_or_default().saturating_add(beside))))
}

impl Store {
    /// Returns the blob of the document that it has replaced, or why it could not be added.
    async fn insert_document(
        &self,
        within: &DatasetKey,
        row: &document::Model,
        replaced: Option<&DocumentId>,
        quota: DocumentQuota,
    ) -> Result<Result<Option<String>>, DbErr> {
        let transaction = self.begin().await?;
        if !quota.is_unlimited() {
            tenant_lock::hold(&transaction, &row.tenant_id, "document").await?;
            let taken = taken_by_documents(&transaction, &row.tenant_id).await?;
            if let Err(exceeded) = quota.check(taken, ids::count(row.size)) {
                transaction.rollback().await?;
                return Ok(Err(exceeded));
            }
        }
        // Locked, so that the dataset is not removed before the document is in it.
        let found: Option<String> = dataset::Entity::find()
            .select_only()
            .column(dataset::Column::Id)
            .filter(dataset::of(within))
            .lock_exclusive()
            .into_tuple()
            .one(&*transaction)
            .await?;
        if found.is_none() {
            return Ok(Err(dataset::missing(within)));
        }
        let mut blob = None;
        if let Some(id) = replaced {
            let key = DocumentKey::new(within, id.clone());
            // Locked, so that a concurrent removal happens either before or after.
            if document::locked(&transaction, &key).await?.is_none() {
                return Ok(Err(document::missing(&key)));
            }
            // Before the new one is added, which may have the same name.
            blob = document::delete(&transaction, within, std::slice::from_ref(id)).await?.pop();
        }
        document::Entity::insert(row.clone().into_active_model())
            .exec_without_returning(&*transaction)
            .await?;
        // Its file was noted as possibly orphaned; now it has an owner.
        removed::forget(&transaction, within, &row.id).await?;
        transaction.commit().await?;
        Ok(Ok(blob))
    }

    pub(crate) async fn create_document(
        &self,
        document: &Document,
        replaced: Option<&DocumentId>,
        quota: DocumentQuota,
    ) -> Result<Option<String>> {
        let row = document::Model::new(document)?;
        match repeated(|| self.insert_document(&document.key.dataset, &row, replaced, quota)).await {
            Ok(outcome) => outcome,
            Err(error) if is_duplicate(&error) => Err(document::taken(&document.name)),
            Err(error) => Err(self.fail("store the document", error)),
        }
    }
}
