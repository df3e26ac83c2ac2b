//! What is made of a document while it is being read: its fresh chunks, and what belongs to them.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{DatabaseTransaction, QuerySelect};
use weft_core::id::{DatasetKey, DocumentKey};

use crate::rows::chunk::{self, Age};
use crate::rows::document_extra;

/// Puts the fresh chunks of a document in the place of those that were found.
pub(crate) async fn swap(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<(), DbErr> {
    chunk::Entity::delete_many().filter(chunk::of_age(key, Age::WorkOutcome)).exec(transaction).await?;
    chunk::Entity::update_many()
        .col_expr(chunk::Column::Fresh, Expr::col(chunk::Column::Fresh).sub(1))
        .filter(chunk::of_age(key, Age::Fresh))
        .exec(transaction)
        .await
        .map(drop)
}

/// Forgets the fresh chunks of a document, and what else was made beside them.
pub(crate) async fn forget(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<(), DbErr> {
    document_extra::forget_fresh(transaction, key).await?;
    forget_chunks(transaction, key).await
}

/// The same, of chunks alone.
pub(crate) async fn forget_chunks(transaction: &DatabaseTransaction, key: &DocumentKey) -> Result<(), DbErr> {
    chunk::Entity::delete_many().filter(chunk::of_age(key, Age::Fresh)).exec(transaction).await.map(drop)
}

/// Forgets all fresh chunks of a dataset.
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
