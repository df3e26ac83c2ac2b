//! Reads journals. They are written by [`crate::journal`].

use sea_orm::entity::prelude::*;
use sea_orm::{ConnectionTrait, QueryOrder, QuerySelect};
use weft_core::id::RunKey;

use crate::ids::{bounded, text};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "journal")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub first_seq: i64,
    pub last_seq: i64,
    /// Entries encoded by [`crate::pack`].
    pub body: Vec<u8>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The rows with the entries after a number, in order, and enough of them for `count_max` entries. The first row may
/// start with earlier entries.
pub(crate) async fn after(
    db: &impl ConnectionTrait,
    key: &RunKey,
    after_seq: u64,
    count_max: u64,
) -> Result<Vec<Model>, DbErr> {
    let after_seq = i64::try_from(after_seq).unwrap_or(i64::MAX);
    let of_run = Entity::find()
        .filter(Column::TenantId.eq(text(key.tenant.as_str())))
        .filter(Column::RunId.eq(text(key.id.as_str())));
    let mut rows = Vec::new();
    if after_seq > 0 {
        // The row with the entry `after_seq` may contain later ones as well.
        let holds = of_run.clone().filter(Column::FirstSeq.lte(after_seq));
        let row = holds.order_by_desc(Column::FirstSeq).one(db).await?;
        rows.extend(row.filter(|row| row.last_seq > after_seq));
    }
    let later = of_run.filter(Column::FirstSeq.gt(after_seq)).order_by_asc(Column::FirstSeq);
    rows.extend(later.limit(bounded(count_max)).all(db).await?);
    Ok(rows)
}
