//! The vectors of chunks. A chunk has room for two: one is used for searching, the other is recomputed beside it. The
//! generation of the dataset determines which is which, so that changing one number swaps all of them.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, ConnectionTrait, DatabaseTransaction, QuerySelect};
use weft_core::id::{ChunkId, TenantId};

use crate::ids::text;
use crate::rows::ROWS_AT_ONCE_MAX;
use crate::rows::chunk::{self, Age};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "chunk")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub fresh: i64,
    /// Little-endian `f32`s; used for even generations.
    pub vector: Option<Vec<u8>>,
    /// The same for odd generations.
    pub odd_vector: Option<Vec<u8>>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The column of a generation's vectors.
#[derive(Clone, Copy)]
pub(crate) struct Slot(Column);

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    // A rest could only come from a damaged row.
    let (values, _) = bytes.as_chunks::<4>();
    values.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

impl Slot {
    pub(crate) fn of(generation: i64) -> Self {
        Self(if generation.rem_euclid(2) == 0 { Column::Vector } else { Column::OddVector })
    }

    /// Writes the vector of one chunk among these.
    pub(crate) async fn write(
        self,
        transaction: &DatabaseTransaction,
        these: Condition,
        id: &ChunkId,
        vector: &[f32],
    ) -> Result<(), DbErr> {
        // Both columns belong to one table.
        Entity::update_many()
            .col_expr(self.0, Expr::value(bytes(vector)))
            .filter(these)
            .filter(chunk::Column::Id.eq(text(id.as_str())))
            .exec(transaction)
            .await
            .map(drop)
    }

    /// Removes the vectors of these chunks.
    pub(crate) async fn clear(
        self,
        transaction: &DatabaseTransaction,
        these: Condition,
    ) -> Result<(), DbErr> {
        Entity::update_many()
            .col_expr(self.0, Expr::value(None::<Vec<u8>>))
            .filter(these)
            // After an interruption, clearing starts over with the first document, and skips what is already cleared.
            .filter(self.0.is_not_null())
            .exec(transaction)
            .await
            .map(drop)
    }

    /// The vectors of chunks, by id.
    pub(crate) async fn read(
        self,
        db: &impl ConnectionTrait,
        tenant: &TenantId,
        ids: &[String],
        age: Age,
    ) -> Result<HashMap<String, Vec<f32>>, DbErr> {
        let mut found = HashMap::with_capacity(ids.len());
        for some in ids.chunks(ROWS_AT_ONCE_MAX) {
            let rows: Vec<(String, Option<Vec<u8>>)> = Entity::find()
                .select_only()
                .columns([Column::Id, self.0])
                .filter(Column::TenantId.eq(text(tenant.as_str())))
                .filter(Column::Fresh.eq(age.number()))
                .filter(Column::Id.is_in(some.iter().map(String::as_str)))
                .into_tuple()
                .all(db)
                .await?;
            found.extend(rows.into_iter().filter_map(|(id, vector)| Some((id, floats(&vector?)))));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_little_endian() {
        let vector = [1.0, -0.5, f32::MIN_POSITIVE];
        assert_eq!(floats(&bytes(&vector)), vector);
        assert_eq!(bytes(&[1.0]), [0, 0, 0x80, 0x3f]);
        assert_eq!(floats(&[]), Vec::<f32>::new());
    }
}
