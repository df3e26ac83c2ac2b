//! The pictures stored with documents. They count towards the bytes of a tenant.

use std::collections::HashSet;

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, DatabaseTransaction, IntoActiveModel, QuerySelect, QueryTrait};
use weft_core::id::{DatasetKey, DocumentKey};
use weft_core::seam::ingest_queue::{IngestLease, PictureSize};

use crate::Store;
use crate::ids::{self, text};
use crate::rows::new_document::taken_by_documents;
use crate::rows::{ROWS_AT_ONCE_MAX, chunk, tenant_lock};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "kept_picture")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub document_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    pub dataset_id: String,
    pub bytes: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The pictures of a dataset.
pub(crate) fn in_dataset(key: &DatasetKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::DatasetId.eq(text(key.id.as_str())))
}

/// The pictures of a document.
pub(crate) fn of(key: &DocumentKey) -> Condition {
    in_dataset(&key.dataset).add(Column::DocumentId.eq(text(key.id.as_str())))
}

/// Stops counting the pictures of a document that none of its chunks is shown with.
pub(crate) async fn forget_unnamed(
    transaction: &DatabaseTransaction,
    key: &DocumentKey,
) -> Result<(), DbErr> {
    let named = chunk::Entity::find()
        .select_only()
        .column(chunk::Column::Picture)
        .filter(chunk::of_document(key))
        .filter(chunk::Column::Picture.is_not_null())
        .into_query();
    let unnamed = of(key).add(Column::Name.not_in_subquery(named));
    Entity::delete_many().filter(unnamed).exec(transaction).await.map(drop)
}

/// Stops counting these pictures of a document.
pub(crate) async fn forget(
    transaction: &DatabaseTransaction,
    key: &DocumentKey,
    names: &[String],
) -> Result<(), DbErr> {
    for some in names.chunks(ROWS_AT_ONCE_MAX) {
        let these = of(key).add(Column::Name.is_in(some.iter().map(String::as_str)));
        Entity::delete_many().filter(these).exec(transaction).await?;
    }
    Ok(())
}

impl Store {
    /// Returns the names of those for which there is room; `None` when the lease is lost.
    pub(crate) async fn note_pictures(
        &self,
        lease: &IngestLease,
        pictures: &[PictureSize],
        bytes_max: u64,
    ) -> Result<Option<Vec<String>>, DbErr> {
        let key = &lease.document;
        let tenant = text(key.dataset.tenant.as_str());
        let transaction = self.begin().await?;
        // Only where there is a limit to check: whatever else is counted for the tenant waits for this lock.
        if bytes_max > 0 {
            tenant_lock::hold(&transaction, &tenant, "document").await?;
        }
        if self.lease(&transaction, lease).await?.is_none() {
            return Ok(None);
        }
        let there: Vec<String> = Entity::find()
            .select_only()
            .column(Column::Name)
            .filter(of(key))
            .into_tuple()
            .all(&*transaction)
            .await?;
        let mut counted: HashSet<String> = there.into_iter().collect();
        let mut taken = if bytes_max > 0 { taken_by_documents(&transaction, &tenant).await?.1 } else { 0 };
        let (mut names, mut new) = (Vec::new(), Vec::new());
        for PictureSize { name, bytes } in pictures {
            // A picture that several chunks show, or that an earlier attempt has counted, counts once.
            if !counted.contains(name) {
                let with = taken.saturating_add(*bytes);
                // A smaller one after it may still fit.
                if bytes_max > 0 && with > bytes_max {
                    continue;
                }
                taken = with;
                counted.insert(name.clone());
                let row = Model {
                    tenant_id: tenant.clone(),
                    document_id: text(key.id.as_str()),
                    name: name.clone(),
                    dataset_id: text(key.dataset.id.as_str()),
                    bytes: ids::number(*bytes),
                };
                new.push(row.into_active_model());
            }
            names.push(name.clone());
        }
        for some in new.chunks(ROWS_AT_ONCE_MAX) {
            Entity::insert_many(some.to_vec()).exec_without_returning(&*transaction).await?;
        }
        transaction.commit().await?;
        Ok(Some(names))
    }
}
