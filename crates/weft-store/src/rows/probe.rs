//! Tests whether the store can be written, by writing to it.

use sea_orm::IntoActiveModel;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use weft_core::Result;

use crate::Store;
use crate::open::repeated;

/// The only row. All processes write the same one, so that frequent probes take no space.
const ROW: i64 = 1;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "probe")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    pub at_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Store {
    /// Writes a row in a transaction like any other: a store that can be read but not written is useless for a run. A
    /// store in a file must still be the file that was opened.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn probe(&self) -> Result<()> {
        if let Some(file) = self.inner.file {
            file.check(&self.inner.place).await?;
        }
        let row = Model { id: ROW, at_ms: self.inner.clock.now_ms() };
        let write = async || {
            let transaction = self.begin().await?;
            let replacing = OnConflict::column(Column::Id).update_column(Column::AtMs).to_owned();
            Entity::insert(row.clone().into_active_model())
                .on_conflict(replacing)
                .exec_without_returning(&*transaction)
                .await?;
            transaction.commit().await
        };
        repeated(write).await.map_err(|error| self.fail("write to the store", error))
    }
}
