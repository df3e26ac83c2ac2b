//! The pictures with which chunks of documents are shown.

use std::collections::BTreeSet;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, DatabaseTransaction, QueryOrder, QuerySelect, QueryTrait, Select};
use weft_core::id::DocumentKey;

use crate::rows::chunk::{Age, Column, Entity, Model, of_age, of_document};
use crate::rows::{ROWS_AT_ONCE_MAX, document, kept_picture};

/// The picture of the first chunk that has one, among those of a document that can be found.
pub(crate) async fn first(
    transaction: &DatabaseTransaction,
    key: &DocumentKey,
) -> Result<Option<String>, DbErr> {
    Entity::find()
        .select_only()
        .column(Column::Picture)
        .filter(of_age(key, Age::WorkOutcome))
        .filter(Column::IsParent.eq(0))
        .filter(Column::Picture.is_not_null())
        .order_by_asc(Column::Ordinal)
        .order_by_asc(Column::Id)
        .limit(1)
        .into_tuple()
        .one(transaction)
        .await
}

/// The names of pictures of removed chunks that no remaining chunk is shown with. If the document's own picture is
/// one of them, it is replaced by the next one.
pub(crate) async fn left_by<'r>(
    transaction: &DatabaseTransaction,
    before: &document::Model,
    gone: impl Iterator<Item = &'r Model> + Clone,
) -> Result<Vec<String>, DbErr> {
    let key = before.key();
    let mut left: BTreeSet<String> = gone.clone().filter_map(|row| row.picture.clone()).collect();
    let parents: BTreeSet<&str> = gone.filter_map(|row| row.parent_id.as_deref()).collect();
    for some in Vec::from_iter(parents).chunks(ROWS_AT_ONCE_MAX) {
        let of_parents: Vec<String> =
            named(&key).filter(Column::Id.is_in(some.iter().copied())).into_tuple().all(transaction).await?;
        left.extend(of_parents);
    }
    // A parent is shown in place of its parts, so one without parts is not shown.
    let with_parts = Entity::find()
        .select_only()
        .column(Column::ParentId)
        .filter(of_document(&key))
        .filter(Column::ParentId.is_not_null())
        .into_query();
    let is_shown = Condition::any().add(Column::IsParent.eq(0)).add(Column::Id.in_subquery(with_parts));
    for some in Vec::from_iter(left.clone()).chunks(ROWS_AT_ONCE_MAX) {
        let these = Column::Picture.is_in(some.iter().map(String::as_str));
        let shown = named(&key).filter(these).filter(is_shown.clone()).distinct();
        let shown: Vec<String> = shown.into_tuple().all(transaction).await?;
        for name in &shown {
            left.remove(name);
        }
    }
    if before.picture.as_ref().is_some_and(|picture| left.contains(picture)) {
        let next = first(transaction, &key).await?;
        document::Entity::update_many()
            .col_expr(document::Column::Picture, Expr::value(next))
            .filter(document::of(&key))
            .exec(transaction)
            .await?;
    }
    let left: Vec<String> = left.into_iter().collect();
    kept_picture::forget(transaction, &key, &left).await?;
    Ok(left)
}

/// The names of the pictures of all chunks of a document, including fresh ones.
fn named(key: &DocumentKey) -> Select<Entity> {
    Entity::find()
        .select_only()
        .column(Column::Picture)
        .filter(of_document(key))
        .filter(Column::Picture.is_not_null())
}
