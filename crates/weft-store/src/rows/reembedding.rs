//! Tasks that recompute all vectors of a dataset.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{Condition, DatabaseTransaction, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::id::{ChunkId, DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::ReembeddingStore;
use weft_core::seam::reembedding_store::{
    NumberedDocument, Reembedding, ReembeddingLease, ReembeddingOutcome, ReembeddingProgress,
    ReembeddingState, TakenReembedding,
};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::chunk::Age;
use crate::rows::chunk_vector::Slot;
use crate::rows::{ColumnChanges, change, dataset, document, staging, to};

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "reembedding")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub dataset_id: String,
    pub embedder: String,
    pub state: String,
    pub progress: f64,
    pub message: String,
    pub begun_ms: i64,
    pub ended_ms: Option<i64>,
    /// 1 while the columns of the next generation may contain vectors that are not from this task.
    pub littered: i64,
    /// 1 while a worker has it.
    pub taken: i64,
    /// The earliest time at which it may be taken.
    pub at_ms: i64,
    pub fence: i64,
    pub attempts: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

pub(super) const RUNNING: &str = "running";
pub(super) const DONE: &str = "done";
const FAILED: &str = "failed";
const CANCELLED: &str = "cancelled";

pub(crate) fn of(key: &DatasetKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::DatasetId.eq(text(key.id.as_str())))
}

/// The task, while this lease is valid.
pub(super) fn held(lease: &ReembeddingLease) -> Condition {
    of(&lease.dataset).add(Column::Taken.eq(1)).add(Column::Fence.eq(lease.fence))
}

fn lost(lease: &ReembeddingLease) -> Error {
    let message = format!("the new vectors of the dataset {} are no longer this worker's", lease.dataset.id);
    Error::new(ErrorKind::Conflict, message)
}

impl Model {
    fn key(&self) -> DatasetKey {
        DatasetKey::new(&TenantId::from(self.tenant_id.as_str()), self.dataset_id.as_str())
    }

    fn into_task(self) -> Result<Reembedding> {
        Ok(Reembedding {
            state: ids::read_word::<ReembeddingState>(&self.state, || {
                format!("the new vectors of the dataset `{}`", self.dataset_id)
            })?,
            dataset: self.key(),
            embedder: self.embedder,
            progress: self.progress,
            message: self.message,
            begun_ms: self.begun_ms,
            ended_ms: self.ended_ms,
        })
    }
}

/// Releases a task that has ended.
pub(super) fn over(state: &str, message: &str, now_ms: i64) -> ColumnChanges<Column> {
    vec![
        to(Column::State, state),
        to(Column::Message, text(message)),
        to(Column::EndedMs, Some(now_ms)),
        to(Column::Littered, 1_i64),
        to(Column::Taken, 0_i64),
        to(Column::AtMs, now_ms),
    ]
}

impl Store {
    async fn begin_reembedding(
        &self,
        key: &DatasetKey,
        embedder: &str,
        now_ms: i64,
    ) -> Result<Result<()>, DbErr> {
        let transaction = self.begin().await?;
        let found = dataset::Entity::find().filter(dataset::of(key)).lock_exclusive().one(&*transaction);
        if found.await?.is_none() {
            return Ok(Err(dataset::missing(key)));
        }
        let before = Entity::find().filter(of(key)).lock_exclusive().one(&*transaction).await?;
        if before.as_ref().is_some_and(|before| before.state == RUNNING) {
            let message = format!("the dataset `{}` is getting new vectors already", key.id);
            let error = Error::new(ErrorKind::Conflict, message);
            return Ok(Err(error.help("wait until they are complete, or cancel that")));
        }
        let row = Model {
            tenant_id: text(key.tenant.as_str()),
            dataset_id: text(key.id.as_str()),
            embedder: embedder.to_owned(),
            state: RUNNING.to_owned(),
            progress: 0.0,
            message: String::new(),
            begun_ms: now_ms,
            ended_ms: None,
            // A cancelled task may have left vectors of another model.
            littered: 1,
            taken: 0,
            // Clearing must not start earlier than scheduled.
            at_ms: before.as_ref().map_or(now_ms, |before| std::cmp::max(now_ms, before.at_ms)),
            // A worker of the previous task must not report to this one.
            fence: before.as_ref().map_or(0, |before| before.fence + 1),
            attempts: 0,
        };
        Entity::delete_many().filter(of(key)).exec(&*transaction).await?;
        Entity::insert(row.into_active_model()).exec_without_returning(&*transaction).await?;
        transaction.commit().await?;
        Ok(Ok(()))
    }

    async fn take_reembedding(&self, row: &Model, now_ms: i64, until_ms: i64) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        let same = of(&row.key())
            .add(Column::State.eq(row.state.as_str()))
            .add(Column::Fence.eq(row.fence))
            .add(Column::AtMs.eq(row.at_ms))
            .add(Column::AtMs.lte(now_ms));
        let fields = vec![
            to(Column::Taken, 1_i64),
            to(Column::AtMs, until_ms),
            to(Column::Fence, row.fence + 1),
            to(Column::Attempts, row.attempts + 1),
        ];
        let taken = change(&transaction, same, fields).await? > 0;
        transaction.commit().await?;
        Ok(taken)
    }

    /// Changes a task while a lease is valid.
    async fn change_held(
        &self,
        lease: &ReembeddingLease,
        doing: &str,
        fields: ColumnChanges<Column>,
    ) -> Result<()> {
        let attempt = async || {
            let transaction = self.begin().await?;
            let changed = change(&transaction, held(lease), fields.clone()).await?;
            transaction.commit().await?;
            Ok(changed > 0)
        };
        match repeated(attempt).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(lost(lease)),
            Err(error) => Err(self.fail(doing, error)),
        }
    }

    /// The task of a lease, locked; `None` when the lease is lost.
    pub(super) async fn held_task(
        &self,
        transaction: &DatabaseTransaction,
        lease: &ReembeddingLease,
    ) -> Result<Option<Model>, DbErr> {
        Entity::find().filter(held(lease)).lock_exclusive().one(transaction).await
    }

    fn still<T>(&self, lease: &ReembeddingLease, doing: &str, kept: Result<Option<T>, DbErr>) -> Result<T> {
        kept.map_err(|error| self.fail(doing, error))?.ok_or_else(|| lost(lease))
    }
}

#[async_trait]
impl ReembeddingStore for Store {
    async fn begin(&self, dataset: &DatasetKey, embedder: &str, now_ms: i64) -> Result<()> {
        ids::fits("embedder", embedder)?;
        let begun = repeated(|| self.begin_reembedding(dataset, embedder, now_ms)).await;
        begun.map_err(|error| self.fail("ask for new vectors", error))?
    }

    async fn last(&self, dataset: &DatasetKey) -> Result<Option<Reembedding>> {
        let found = Entity::find().filter(of(dataset)).one(&self.inner.read).await;
        found
            .map_err(|error| self.fail("read the state of the new vectors", error))?
            .map(Model::into_task)
            .transpose()
    }

    async fn cancel(&self, dataset: &DatasetKey, now_ms: i64) -> Result<()> {
        let cancel = async || {
            let transaction = self.begin().await?;
            let mut fields = over(CANCELLED, "", now_ms);
            // With its next report, its worker finds that it no longer holds the task.
            fields.push((Column::Fence, Expr::col(Column::Fence).add(1)));
            let running = of(dataset).add(Column::State.eq(RUNNING));
            let changed = change(&transaction, running, fields).await?;
            transaction.commit().await?;
            Ok(changed > 0)
        };
        match repeated(cancel).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let message = format!("the dataset `{}` is not getting new vectors", dataset.id);
                Err(Error::new(ErrorKind::Conflict, message))
            }
            Err(error) => Err(self.fail("cancel the new vectors", error)),
        }
    }

    async fn take(&self, now_ms: i64, until_ms: i64) -> Result<Option<TakenReembedding>> {
        const DOING: &str = "look for new vectors to make";
        let to_do = Condition::any().add(Column::State.eq(RUNNING)).add(Column::Littered.eq(1));
        let ready = Entity::find()
            .filter(to_do)
            .filter(Column::AtMs.lte(now_ms))
            .order_by_asc(Column::AtMs)
            .order_by_asc(Column::DatasetId)
            .limit(1)
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail(DOING, error))?;
        let Some(row) = ready else { return Ok(None) };
        let taken = repeated(|| self.take_reembedding(&row, now_ms, until_ms)).await;
        if !taken.map_err(|error| self.fail(DOING, error))? {
            return Ok(None);
        }
        let lease = ReembeddingLease { dataset: row.key(), fence: row.fence + 1 };
        let attempts = u32::try_from(row.attempts + 1).unwrap_or(u32::MAX);
        let is_littered = row.littered != 0;
        match row.into_task() {
            Ok(task) => Ok(Some(TakenReembedding { lease, task, attempts, is_littered })),
            // Otherwise it would be taken again each time its lease expires.
            Err(error) => {
                tracing::error!(dataset.id = %lease.dataset.id, error = error.detail(), "new vectors are given up");
                let failed = ReembeddingOutcome::Failed { reason: error.full() };
                ReembeddingStore::settle(self, &lease, &failed, now_ms).await?;
                Ok(None)
            }
        }
    }

    async fn report(
        &self,
        lease: &ReembeddingLease,
        progress: &ReembeddingProgress,
        until_ms: i64,
    ) -> Result<()> {
        let fields = vec![
            to(Column::Progress, progress.share.clamp(0.0, 1.0)),
            to(Column::Message, text(&progress.message)),
            to(Column::AtMs, until_ms),
        ];
        self.change_held(lease, "report the progress of new vectors", fields).await
    }

    async fn unstaged(
        &self,
        dataset: &DatasetKey,
        after: Option<&DocumentId>,
        limit: u64,
    ) -> Result<Vec<NumberedDocument>> {
        let mut found = document::Entity::find()
            .select_only()
            .columns([document::Column::Id, document::Column::Unindexed])
            .filter(document::in_dataset(dataset))
            .filter(Expr::col(document::Column::Staged).ne(staging::number()));
        if let Some(after) = after {
            found = found.filter(document::Column::Id.gt(text(after.as_str())));
        }
        let rows: Vec<(String, i64)> = found
            .order_by_asc(document::Column::Id)
            .limit(bounded(limit))
            .into_tuple()
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("look for documents without new vectors", error))?;
        Ok(rows
            .into_iter()
            .map(|(id, noted)| NumberedDocument { id: id.into(), number: noted.abs() })
            .collect())
    }

    async fn staged_vectors(
        &self,
        document: &DocumentKey,
        ids: &[ChunkId],
    ) -> Result<HashMap<ChunkId, Vec<f32>>> {
        let fail = |error| self.fail("read the new vectors", error);
        let db = &self.inner.read;
        let Some(generation) = dataset::generation(db, &document.dataset).await.map_err(fail)? else {
            return Ok(HashMap::new());
        };
        let ids: Vec<String> = ids.iter().map(|id| text(id.as_str())).collect();
        let slot = Slot::of(generation + 1);
        let found = slot.read(db, &document.dataset.tenant, &ids, Age::WorkOutcome).await.map_err(fail)?;
        Ok(found.into_iter().map(|(id, vector)| (id.into(), vector)).collect())
    }

    async fn stage(
        &self,
        lease: &ReembeddingLease,
        document: &NumberedDocument,
        vectors: &[(ChunkId, Vec<f32>)],
    ) -> Result<bool> {
        let staged = repeated(|| self.stage_vectors(lease, document, vectors)).await;
        self.still(lease, "keep new vectors", staged)
    }

    async fn staged(&self, lease: &ReembeddingLease, documents: &[NumberedDocument]) -> Result<()> {
        let noted = repeated(|| self.note_staged(lease, documents)).await;
        self.still(lease, "note new vectors", noted.map(|noted| noted.then_some(())))
    }

    async fn switch(
        &self,
        lease: &ReembeddingLease,
        documents: u64,
        now_ms: i64,
        clear_from_ms: i64,
    ) -> Result<bool> {
        let switched = repeated(|| self.switch_generation(lease, documents, now_ms, clear_from_ms)).await;
        self.still(lease, "switch to the new vectors", switched)
    }

    async fn clear(&self, lease: &ReembeddingLease) -> Result<()> {
        let cleared = repeated(|| self.clear_staged(lease)).await;
        self.still(lease, "remove the staged vectors", cleared.map(|cleared| cleared.then_some(())))?;
        let fields = vec![to(Column::Littered, 0_i64)];
        self.change_held(lease, "remove the staged vectors", fields).await
    }

    async fn settle(
        &self,
        lease: &ReembeddingLease,
        outcome: &ReembeddingOutcome,
        now_ms: i64,
    ) -> Result<()> {
        let again = |from_ms: i64| vec![to(Column::Taken, 0_i64), to(Column::AtMs, from_ms)];
        let fields = match outcome {
            ReembeddingOutcome::Failed { reason } => over(FAILED, reason, now_ms),
            ReembeddingOutcome::RetryAt { from_ms, reason } => {
                let mut waiting = again(*from_ms);
                waiting.push(to(Column::Message, text(reason)));
                waiting
            }
            ReembeddingOutcome::Released { from_ms } => {
                let mut waiting = again(*from_ms);
                // A worker that waits for documents, or has to shut down, has not failed.
                waiting.push((Column::Attempts, Expr::col(Column::Attempts).sub(1)));
                waiting
            }
            ReembeddingOutcome::Cleared => {
                let mut cleared = again(now_ms);
                cleared.extend([to(Column::Littered, 0_i64), to(Column::Attempts, 0_i64)]);
                cleared
            }
        };
        self.change_held(lease, "store the outcome of new vectors", fields).await
    }
}
