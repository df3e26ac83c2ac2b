//! Stages new vectors of a dataset beside those it is searched with, and switches to them.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Func};
use sea_orm::{Condition, QueryOrder, QuerySelect};
use weft_core::id::{ChunkId, DatasetKey, DocumentKey};
use weft_core::seam::reembedding_store::{NumberedDocument, ReembeddingLease};

use crate::Store;
use crate::rows::chunk::{self, Age};
use crate::rows::chunk_vector::Slot;
use crate::rows::ingest::RUNNING as BEING_READ;
use crate::rows::reembedding::{Column, DONE, RUNNING, held, over};
use crate::rows::{change, dataset, document, fresh, to};

/// The number of a document, without its sign.
pub(super) fn number() -> Expr {
    Expr::expr(Func::abs(Expr::col(document::Column::Unindexed)))
}

/// Documents of a dataset that are staged in their current version.
fn staged_in(key: &DatasetKey) -> Condition {
    document::in_dataset(key).add(Expr::col(document::Column::Staged).eq(number()))
}

/// The next number, with the same sign.
fn next_number() -> Expr {
    let noted = Expr::col(document::Column::Unindexed);
    Expr::case(noted.clone().gt(0), noted.clone().add(1)).finally(noted.sub(1)).into()
}

impl Store {
    /// Returns `None` when the lease is lost; otherwise whether the document still has that number.
    pub(super) async fn stage_vectors(
        &self,
        lease: &ReembeddingLease,
        numbered: &NumberedDocument,
        vectors: &[(ChunkId, Vec<f32>)],
    ) -> Result<Option<bool>, DbErr> {
        let transaction = self.begin().await?;
        if self.held_task(&transaction, lease).await?.is_none() {
            return Ok(None);
        }
        let key = DocumentKey::new(&lease.dataset, numbered.id.clone());
        let document = document::locked(&transaction, &key).await?;
        if document.is_none_or(|document| document.unindexed.abs() != numbered.number) {
            return Ok(Some(false));
        }
        let Some(generation) = dataset::generation(&*transaction, &lease.dataset).await? else {
            return Ok(None);
        };
        for (id, vector) in vectors {
            let of = chunk::of_age(&key, Age::WorkOutcome);
            Slot::of(generation + 1).write(&transaction, of, id, vector).await?;
        }
        change(&transaction, held(lease), vec![to(Column::Attempts, 0_i64)]).await?;
        transaction.commit().await?;
        Ok(Some(true))
    }

    pub(super) async fn note_staged(
        &self,
        lease: &ReembeddingLease,
        documents: &[NumberedDocument],
    ) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        if self.held_task(&transaction, lease).await?.is_none() {
            return Ok(false);
        }
        for one in documents {
            document::Entity::update_many()
                .col_expr(document::Column::Staged, Expr::value(one.number))
                .filter(document::of(&DocumentKey::new(&lease.dataset, one.id.clone())))
                .exec(&*transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// Returns `None` when the lease is lost; otherwise whether the dataset has switched to the next generation.
    pub(super) async fn switch_generation(
        &self,
        lease: &ReembeddingLease,
        documents: u64,
        now_ms: i64,
        clear_from_ms: i64,
    ) -> Result<Option<bool>, DbErr> {
        use document::Column as Doc;
        let key = &lease.dataset;
        let transaction = self.begin().await?;
        let Some(task) = self.held_task(&transaction, lease).await? else { return Ok(None) };
        // Adding a document locks the dataset's row first.
        let set =
            dataset::Entity::find().filter(dataset::of(key)).lock_exclusive().one(&*transaction).await?;
        let Some(set) = set.filter(|_| task.state == RUNNING) else { return Ok(None) };
        let being_read = Condition::all().add(Doc::State.eq(BEING_READ)).add(Doc::Taken.eq(1));
        // Counted by the statement that changes them: between a check and a change, a document could get chunks with
        // vectors of the old model.
        let numbered = document::Entity::update_many()
            .col_expr(Doc::Unindexed, next_number())
            .col_expr(Doc::Staged, Expr::value(-1_i64))
            .filter(staged_in(key))
            .filter(being_read.not())
            .exec(&*transaction)
            .await?
            .rows_affected;
        let all = document::Entity::find().filter(document::in_dataset(key)).count(&*transaction).await?;
        if numbered != all || all != documents {
            return Ok(Some(false));
        }
        // Fresh chunks of waiting documents have vectors of the old model.
        fresh::forget_in(&transaction, key).await?;
        document::Entity::update_many()
            .col_expr(Doc::Stage, Expr::value("reading"))
            .filter(document::in_dataset(key))
            .exec(&*transaction)
            .await?;
        dataset::Entity::update_many()
            .col_expr(dataset::Column::Generation, Expr::value(set.generation + 1))
            .col_expr(dataset::Column::Embedder, Expr::value(task.embedder.as_str()))
            .col_expr(dataset::Column::UpdatedMs, Expr::value(now_ms))
            .filter(dataset::of(key))
            .exec(&*transaction)
            .await?;
        let mut done = over(DONE, "Task done", now_ms);
        // Searches that have read the dataset before this still use the old vectors, so those are cleared later.
        done.retain(|(column, _)| !matches!(column, Column::AtMs));
        done.extend([
            to(Column::Progress, 1_f64),
            to(Column::AtMs, clear_from_ms),
            to(Column::Attempts, 0_i64),
        ]);
        change(&transaction, held(lease), done).await?;
        transaction.commit().await?;
        Ok(Some(true))
    }

    /// One document at a time: a dataset may have more vectors than a transaction should contain.
    pub(super) async fn clear_staged(&self, lease: &ReembeddingLease) -> Result<bool, DbErr> {
        let mut after: Option<String> = None;
        loop {
            let transaction = self.begin().await?;
            if self.held_task(&transaction, lease).await?.is_none() {
                return Ok(false);
            }
            let Some(generation) = dataset::generation(&*transaction, &lease.dataset).await? else {
                return Ok(false);
            };
            let mut found = document::Entity::find()
                .select_only()
                .column(document::Column::Id)
                .filter(document::in_dataset(&lease.dataset));
            if let Some(after) = &after {
                found = found.filter(document::Column::Id.gt(after.as_str()));
            }
            let next: Option<String> =
                found.order_by_asc(document::Column::Id).limit(1).into_tuple().one(&*transaction).await?;
            let Some(id) = next else { return Ok(true) };
            let key = DocumentKey::new(&lease.dataset, id.as_str());
            document::Entity::update_many()
                .col_expr(document::Column::Staged, Expr::value(-1_i64))
                .filter(document::of(&key))
                .exec(&*transaction)
                .await?;
            Slot::of(generation + 1).clear(&transaction, chunk::of_document(&key)).await?;
            transaction.commit().await?;
            after = Some(id);
        }
    }
}
