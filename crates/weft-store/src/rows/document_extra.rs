//! Data derived from documents besides their chunks.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::SelectStatement;
use sea_orm::{Condition, DatabaseTransaction, IntoActiveModel, QueryOrder, QuerySelect, QueryTrait};
use weft_core::Result;
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::Extra;
use weft_core::value::Json;

use crate::Store;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::document;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "document_extra")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub dataset_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub document_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub kind: i64,
    /// JSON.
    pub value: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Removes existing data without a replacement.
const NOTHING: &str = "null";

/// A number: with a fourth text column, the key would be too long for MariaDB.
fn kind(extra: Extra) -> i64 {
    match extra {
        Extra::Contents => 1,
        Extra::Graph => 2,
        Extra::Summaries => 3,
        Extra::MindMap => 4,
    }
}

pub(crate) fn of(key: &DocumentKey) -> Condition {
    in_dataset(&key.dataset).add(Column::DocumentId.eq(text(key.id.as_str())))
}

fn in_dataset(key: &DatasetKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::DatasetId.eq(text(key.id.as_str())))
}

/// The ids of the documents of a dataset that have this data.
pub(crate) fn having(key: &DatasetKey, extra: Extra) -> SelectStatement {
    Entity::find()
        .select_only()
        .column(Column::DocumentId)
        .filter(in_dataset(key))
        .filter(Column::Kind.eq(kind(extra)))
        .into_query()
}

async fn replace(
    transaction: &DatabaseTransaction,
    key: &DocumentKey,
    kind: i64,
    value: Option<&str>,
) -> Result<(), DbErr> {
    Entity::delete_many().filter(of(key)).filter(Column::Kind.eq(kind)).exec(transaction).await?;
    let Some(value) = value else { return Ok(()) };
    let row = Model {
        tenant_id: text(key.dataset.tenant.as_str()),
        dataset_id: text(key.dataset.id.as_str()),
        document_id: text(key.id.as_str()),
        kind,
        value: value.to_owned(),
    };
    Entity::insert(row.into_active_model()).exec_without_returning(transaction).await.map(drop)
}

/// Data derived together with fresh chunks has the negated number of its kind.
pub(crate) async fn put_fresh(
    transaction: &DatabaseTransaction,
    key: &DocumentKey,
    extra: Extra,
    value: &str,
) -> Result<(), DbErr> {
    replace(transaction, key, -kind(extra), Some(value)).await
}

pub(crate) async fn forget_fresh(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<(), DbErr> {
    Entity::delete_many().filter(of(key)).filter(Column::Kind.lt(0)).exec(transaction).await.map(drop)
}

/// Replaces the existing data with the fresh data.
pub(crate) async fn swap(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<(), DbErr> {
    let fresh = Entity::find().filter(of(key)).filter(Column::Kind.lt(0)).all(transaction).await?;
    for row in fresh {
        // Null removes what an earlier reading has produced; a missing row would leave it.
        replace(transaction, key, -row.kind, (row.value != NOTHING).then_some(&*row.value)).await?;
    }
    forget_fresh(transaction, key).await
}

impl Store {
    /// Returns whether the document exists.
    async fn write_extra(&self, key: &DocumentKey, extra: Extra, value: &str) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        // Locked, so that a concurrent removal of the document also finds this row.
        if document::locked(&transaction, key).await?.is_none() {
            return Ok(false);
        }
        replace(&transaction, key, kind(extra), (value != NOTHING).then_some(value)).await?;
        transaction.commit().await?;
        Ok(true)
    }

    pub(crate) async fn keep_extra(&self, key: &DocumentKey, extra: Extra, value: &Json) -> Result<()> {
        let value = ids::json(value)?;
        match repeated(|| self.write_extra(key, extra, &value)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(document::missing(key)),
            Err(error) => Err(self.fail("store what is made of the document", error)),
        }
    }

    pub(crate) async fn read_extra(&self, key: &DocumentKey, extra: Extra) -> Result<Option<Json>> {
        let fail = |error| self.fail("read what is made of the document", error);
        let found = Entity::find().filter(of(key)).filter(Column::Kind.eq(kind(extra)));
        match found.one(&self.inner.read).await.map_err(fail)? {
            Some(row) => Ok(Some(ids::read_json(&row.value, || format!("the document `{}`", key.id))?)),
            None if self.has_document(&self.inner.read, key).await.map_err(fail)? => Ok(None),
            None => Err(document::missing(key)),
        }
    }

    pub(crate) async fn list_extras(
        &self,
        dataset: &DatasetKey,
        extra: Extra,
        after: Option<&DocumentId>,
        count_max: u64,
    ) -> Result<Vec<(DocumentId, Json)>> {
        let mut found = Entity::find().filter(in_dataset(dataset)).filter(Column::Kind.eq(kind(extra)));
        if let Some(after) = after {
            found = found.filter(Column::DocumentId.gt(text(after.as_str())));
        }
        let rows = found
            .order_by_asc(Column::DocumentId)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("read what is made of the documents", error))?;
        let read = |row: Model| {
            let value = ids::read_json(&row.value, || format!("the document `{}`", row.document_id))?;
            Ok((DocumentId::from(row.document_id), value))
        };
        rows.into_iter().map(read).collect()
    }
}
