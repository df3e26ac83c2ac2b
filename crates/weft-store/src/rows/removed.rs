//! Removed documents and datasets of which something may be left in the index and among the files.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, DatabaseTransaction, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::Result;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::ingest_queue::Removed;

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::ROWS_AT_ONCE_MAX;
use crate::rows::document::LeftOver;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "removed")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub dataset_id: String,
    /// Empty for the dataset itself.
    #[sea_orm(primary_key, auto_increment = false)]
    pub document_id: String,
    pub blob: String,
    /// Until then, a worker may still be adding it to the index.
    pub from_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

fn in_dataset(key: &DatasetKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::DatasetId.eq(text(key.id.as_str())))
}

fn row(dataset: &DatasetKey, left: LeftOver) -> Model {
    Model {
        tenant_id: text(dataset.tenant.as_str()),
        dataset_id: text(dataset.id.as_str()),
        document_id: left.id,
        blob: left.blob,
        from_ms: if left.taken == 0 { 0 } else { left.at_ms },
    }
}

async fn write(
    transaction: &DatabaseTransaction,
    dataset: &DatasetKey,
    rows: Vec<Model>,
) -> Result<(), DbErr> {
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let some: Vec<Model> = rows.by_ref().take(ROWS_AT_ONCE_MAX).collect();
        // A document with the same id may have been added and removed again.
        let ids = some.iter().map(|row| row.document_id.as_str());
        let before = in_dataset(dataset).add(Column::DocumentId.is_in(ids));
        Entity::delete_many().filter(before).exec(transaction).await?;
        let some = some.into_iter().map(Model::into_active_model);
        Entity::insert_many(some).exec_without_returning(transaction).await?;
    }
    Ok(())
}

/// Removes the note about a document, which exists now.
pub(crate) async fn forget(
    transaction: &DatabaseTransaction,
    dataset: &DatasetKey,
    id: &str,
) -> Result<(), DbErr> {
    let note = in_dataset(dataset).add(Column::DocumentId.eq(id));
    Entity::delete_many().filter(note).exec(transaction).await.map(drop)
}

/// Records that documents are removed.
pub(crate) async fn insert(
    transaction: &DatabaseTransaction,
    dataset: &DatasetKey,
    all: Vec<LeftOver>,
) -> Result<(), DbErr> {
    write(transaction, dataset, all.into_iter().map(|left| row(dataset, left)).collect()).await
}

/// Records that a dataset is removed with its documents.
pub(crate) async fn insert_dataset(
    transaction: &DatabaseTransaction,
    dataset: &DatasetKey,
    all: Vec<LeftOver>,
) -> Result<(), DbErr> {
    let mut rows: Vec<Model> = all.into_iter().map(|left| row(dataset, left)).collect();
    let from_ms = rows.iter().map(|row| row.from_ms).max().unwrap_or_default();
    let itself = LeftOver { id: String::new(), blob: String::new(), taken: 1, at_ms: from_ms };
    rows.push(row(dataset, itself));
    write(transaction, dataset, rows).await
}

impl Store {
    /// Records a document as removed before it is added.
    pub(crate) async fn note_expected(&self, document: &DocumentKey, blob: &str, from_ms: i64) -> Result<()> {
        ids::check("document", document.id.as_str())?;
        ids::fits("blob", blob)?;
        let dataset = &document.dataset;
        let row = Model {
            tenant_id: text(dataset.tenant.as_str()),
            dataset_id: text(dataset.id.as_str()),
            document_id: document.id.as_str().to_owned(),
            blob: blob.to_owned(),
            from_ms,
        };
        // Nearly always there is no such row yet, and a single statement is enough.
        let first = async || {
            let _permit = self.inner.gate.permit().await;
            Entity::insert(row.clone().into_active_model()).exec_without_returning(&self.inner.write).await
        };
        let again = async || {
            let transaction = self.begin().await?;
            write(&transaction, dataset, vec![row.clone()]).await?;
            transaction.commit().await
        };
        let noted = match repeated(first).await {
            // Another writer is about to add the same one, or an earlier one has left something behind.
            Err(error) if is_duplicate(&error) => repeated(again).await,
            noted => noted.map(drop),
        };
        noted.map_err(|error| self.fail("note that a file is about to be stored", error))
    }

    pub(crate) async fn list_removed(&self, now_ms: i64, count_max: u64) -> Result<Vec<Removed>> {
        let rows = Entity::find()
            .filter(Column::FromMs.lte(now_ms))
            .order_by_asc(Column::TenantId)
            .order_by_asc(Column::DatasetId)
            // The dataset itself, which has no document id, comes last: removing its note also removes those of its
            // documents.
            .order_by_desc(Column::DocumentId)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("look for what was removed", error))?;
        let read = |row: Model| Removed {
            dataset: DatasetKey::new(&TenantId::from(row.tenant_id), row.dataset_id),
            document: (!row.document_id.is_empty()).then(|| DocumentId::from(row.document_id)),
            blob: row.blob,
        };
        Ok(rows.into_iter().map(read).collect())
    }

    pub(crate) async fn forget_removed(
        &self,
        dataset: &DatasetKey,
        document: Option<&DocumentId>,
        now_ms: i64,
    ) -> Result<()> {
        let mut these = in_dataset(dataset).add(Column::FromMs.lte(now_ms));
        if let Some(document) = document {
            these = these.add(Column::DocumentId.eq(text(document.as_str())));
        }
        let forget = async || {
            let _permit = self.inner.gate.permit().await;
            Entity::delete_many().filter(these.clone()).exec(&self.inner.write).await
        };
        let forgotten = repeated(forget).await;
        forgotten.map(drop).map_err(|error| self.fail("forget what was removed", error))
    }
}
