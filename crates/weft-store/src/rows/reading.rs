//! The outcome of each reading of a document.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, DatabaseTransaction, IntoActiveModel, Order, QueryOrder, QuerySelect};
use weft_core::id::{DatasetKey, DocumentKey, TenantId};
use weft_core::seam::ReadingLog;
use weft_core::seam::dataset_store::DocumentState;
use weft_core::seam::reading_log::{READINGS_MAX, Reading, ReadingFilter};
use weft_core::{Error, Result, async_trait};

use crate::Store;
use crate::ids::{self, containing, text};
use crate::open::repeated;
use crate::rows::document::{self, state};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "reading")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub dataset_id: String,
    pub document_id: String,
    pub name: String,
    /// The name in lower case, which is searched for keywords.
    pub name_folded: String,
    pub method: String,
    /// JSON.
    pub settings: String,
    pub state: String,
    pub message: String,
    pub begun_ms: Option<i64>,
    pub ended_ms: i64,
    pub duration_ms: i64,
    pub chunk_count: i64,
    pub token_count: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    fn into_reading(self) -> Result<Reading> {
        let what = || format!("the reading `{}`", self.id);
        let dataset = DatasetKey::new(&TenantId::from(self.tenant_id.as_str()), self.dataset_id.as_str());
        Ok(Reading {
            document: DocumentKey::new(&dataset, self.document_id.as_str()),
            method: ids::read_word(&self.method, what)?,
            settings: ids::read_json(&self.settings, what)?,
            state: ids::read_word(&self.state, what)?,
            id: self.id,
            name: self.name,
            message: self.message,
            begun_ms: self.begun_ms,
            ended_ms: self.ended_ms,
            duration_ms: self.duration_ms,
            chunk_count: ids::count(self.chunk_count),
            token_count: ids::count(self.token_count),
        })
    }
}

/// How a reading ended.
pub(crate) struct Ended<'a> {
    pub(crate) state: DocumentState,
    pub(crate) message: &'a str,
    pub(crate) at_ms: i64,
    pub(crate) duration_ms: i64,
}

/// All readings of a dataset.
pub(crate) fn in_dataset(key: &DatasetKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::DatasetId.eq(text(key.id.as_str())))
}

/// Records how the reading of a document ended, and removes the oldest ones beyond the limit.
pub(crate) async fn note(
    transaction: &DatabaseTransaction,
    row: &document::Model,
    ended: Ended<'_>,
) -> Result<(), DbErr> {
    let made = ended.state == DocumentState::Done;
    let reading = Model {
        tenant_id: row.tenant_id.clone(),
        id: weft_core::id::generate(),
        dataset_id: row.dataset_id.clone(),
        document_id: row.id.clone(),
        name: row.name.clone(),
        name_folded: row.name_folded.clone(),
        method: row.method.clone(),
        settings: row.settings.clone(),
        state: state(ended.state).to_owned(),
        message: text(ended.message),
        begun_ms: row.begun_ms,
        ended_ms: ended.at_ms,
        duration_ms: ended.duration_ms,
        // Chunks of a failed attempt cannot be found.
        chunk_count: if made { row.new_chunks } else { 0 },
        token_count: if made { row.new_tokens } else { 0 },
    };
    Entity::insert(reading.into_active_model()).exec_without_returning(transaction).await?;
    let of_document = || in_dataset(&row.key().dataset).add(Column::DocumentId.eq(row.id.as_str()));
    // With each new record, so that there is hardly ever more than one to remove.
    let too_many = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(of_document())
        .order_by_desc(Column::EndedMs)
        .order_by_desc(Column::Id)
        .offset(READINGS_MAX)
        // MariaDB accepts no offset without a limit.
        .limit(READINGS_MAX);
    let ids: Vec<String> = too_many.into_tuple().all(transaction).await?;
    if !ids.is_empty() {
        Entity::delete_many().filter(of_document().add(Column::Id.is_in(ids))).exec(transaction).await?;
    }
    Ok(())
}

#[async_trait]
impl ReadingLog for Store {
    async fn readings(&self, dataset: &DatasetKey, filter: &ReadingFilter) -> Result<(Vec<Reading>, u64)> {
        let mut found = Entity::find().filter(in_dataset(dataset));
        if let Some(document) = &filter.document {
            found = found.filter(Column::DocumentId.eq(text(document.as_str())));
        }
        if !filter.states.is_empty() {
            found = found.filter(Column::State.is_in(filter.states.iter().map(|one| state(*one))));
        }
        if !filter.keywords.is_empty() {
            found = found.filter(Column::NameFolded.like(containing(&filter.keywords)));
        }
        if let Some(from) = filter.from_ms {
            found = found.filter(Column::EndedMs.gte(from));
        }
        if let Some(to) = filter.to_ms {
            found = found.filter(Column::EndedMs.lte(to));
        }
        let order = if filter.ascending { Order::Asc } else { Order::Desc };
        let found = found.order_by(Column::EndedMs, order.clone()).order_by(Column::Id, order);
        let page = self.inner.read.page(found, filter.offset, filter.limit).await;
        let (rows, total) = page.map_err(|error| self.fail("list the readings", error))?;
        Ok((rows.into_iter().map(Model::into_reading).collect::<Result<_>>()?, total))
    }

    async fn reading(&self, tenant: &TenantId, id: &str) -> Result<Reading> {
        Entity::find_by_id((text(tenant.as_str()), text(id)))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read what became of a document", error))?
            .ok_or_else(|| Error::not_found(format!("there is no reading `{id}`")))?
            .into_reading()
    }

    async fn forget_readings(&self, before_ms: i64) -> Result<u64> {
        let forget = async || {
            let _permit = self.inner.gate.permit().await;
            Entity::delete_many().filter(Column::EndedMs.lt(before_ms)).exec(&self.inner.write).await
        };
        let gone = repeated(forget).await.map_err(|error| self.fail("forget old readings", error))?;
        Ok(gone.rows_affected)
    }
}
