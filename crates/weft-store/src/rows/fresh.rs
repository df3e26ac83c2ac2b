//! The results of reading a document while it is being read: its fresh chunks, and what belongs to them.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{DatabaseTransaction, QuerySelect};
use weft_core::id::{DatasetKey, DocumentKey};
use weft_core::seam::dataset_store::StoredChunk;
use weft_core::seam::ingest_queue::{Amended, IngestLease};

use crate::Store;
use crate::ids::text;
use crate::rows::chunk::{self, Age};
use crate::rows::chunk_vector::Slot;
use crate::rows::document::Column;
use crate::rows::ingest::held;
use crate::rows::{change, dataset, document_extra, to};

/// Replaces the chunks of a document that can be found with its fresh ones.
pub(crate) async fn swap(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<(), DbErr> {
    // In this order: id and age are the key, and an unchanged chunk exists with both ages.
    chunk::Entity::delete_many().filter(chunk::of_age(key, Age::WorkOutcome)).exec(transaction).await?;
    chunk::Entity::update_many()
        .col_expr(chunk::Column::Fresh, Expr::col(chunk::Column::Fresh).sub(1))
        .filter(chunk::of_age(key, Age::Fresh))
        .exec(transaction)
        .await
        .map(drop)
}

/// Removes the fresh chunks of a document, and the other data derived with them.
pub(crate) async fn forget(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<(), DbErr> {
    document_extra::forget_fresh(transaction, key).await?;
    forget_chunks(transaction, key).await
}

/// Same as [`forget`], for chunks only.
pub(crate) async fn forget_chunks(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<(), DbErr> {
    chunk::Entity::delete_many().filter(chunk::of_age(key, Age::Fresh)).exec(transaction).await.map(drop)
}

/// Removes all fresh chunks of a dataset.
pub(crate) async fn forget_in(transaction: &DatabaseTransaction, key: &DatasetKey) -> Result<(), DbErr> {
    let fresh = chunk::in_dataset(key).add(chunk::Column::Fresh.eq(Age::Fresh.number()));
    chunk::Entity::delete_many().filter(fresh).exec(transaction).await.map(drop)
}

/// Whether a document has fresh chunks.
pub(crate) async fn is_there(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<bool, DbErr> {
    let one: Option<String> = chunk::Entity::find()
        .select_only()
        .column(chunk::Column::Id)
        .filter(chunk::of_age(key, Age::Fresh))
        .limit(1)
        .into_tuple()
        .one(transaction)
        .await?;
    Ok(one.is_some())
}

/// The slot of vectors that can be found once the document is done: the generation of a dataset does not change while
/// one of its documents is being read.
async fn slot(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<Slot, DbErr> {
    Ok(Slot::of(dataset::generation(transaction, &key.dataset).await?.unwrap_or_default()))
}

impl Store {
    /// Stores additions to fresh chunks, with their words as JSON. Returns whether the lease is still valid.
    pub(crate) async fn amend(
        &self,
        lease: &IngestLease,
        amended: &[(Amended, [Option<String>; 2])],
    ) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        if self.lease(&transaction, lease).await?.is_none() {
            return Ok(false);
        }
        let slot = slot(&transaction, &lease.document).await?;
        for (one, [keywords, questions]) in amended {
            if let Some(vector) = &one.vector {
                let of = chunk::of_age(&lease.document, Age::Fresh);
                slot.write(&transaction, of, &one.id, vector).await?;
            }
            let columns = [(chunk::Column::Keywords, keywords), (chunk::Column::Questions, questions)];
            for (column, json) in columns {
                let Some(json) = json else { continue };
                chunk::Entity::update_many()
                    .col_expr(column, Expr::value(json.as_str()))
                    .filter(chunk::of_age(&lease.document, Age::Fresh))
                    .filter(chunk::Column::Id.eq(text(one.id.as_str())))
                    .exec(&*transaction)
                    .await?;
            }
        }
        if !amended.is_empty() {
            // Attempts counts consecutive ones without progress, and this one made progress.
            change(&transaction, held(lease), vec![to(Column::Attempts, 0_i64)]).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// Adds further fresh chunks, and counts them. Returns whether the lease is still valid.
    pub(crate) async fn add_fresh(
        &self,
        lease: &IngestLease,
        chunks: &[StoredChunk],
        rows: &[chunk::Model],
    ) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        let Some(document) = self.lease(&transaction, lease).await? else { return Ok(false) };
        let (count, tokens) = chunk::counted(rows.iter());
        chunk::insert(&transaction, rows.to_vec()).await?;
        let slot = slot(&transaction, &lease.document).await?;
        for chunk in chunks {
            if let Some(vector) = &chunk.vector {
                let of = chunk::of_age(&lease.document, Age::Fresh);
                slot.write(&transaction, of, &chunk.id, vector).await?;
            }
        }
        let fields = vec![
            to(Column::NewChunks, document.new_chunks.saturating_add(count)),
            to(Column::NewTokens, document.new_tokens.saturating_add(tokens)),
            to(Column::Attempts, 0_i64),
        ];
        change(&transaction, held(lease), fields).await?;
        transaction.commit().await?;
        Ok(true)
    }
}
